import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { discover, execute, type SessionSpec } from '../support/envelopes.ts';
import {
  startSessionEngine,
  UNKNOWN_SESSION,
  type SessionEngine,
} from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const KINDS = ['generic', 'mondrian', 'emondrian', 'kylin', 'ssas'] as const;
/** How an engine of each kind is to be taken that is asked in a session of which the gateway knows nothing. */
const STRANGE: Readonly<Record<EngineKind, 'refused' | 'passed'>> = {
  generic: 'refused',
  emondrian: 'refused',
  mondrian: 'passed',
  kylin: 'passed',
  ssas: 'passed',
};

interface House {
  readonly engine: SessionEngine;
  readonly gateway: TestGateway;
  readonly url: string;
}
const houses = new Map<EngineKind, House>();
const extra: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  for (const kind of KINDS) {
    const engine = await startSessionEngine({ kind });
    const gateway = await gatewayOf(engine, kind);
    houses.set(kind, { engine, gateway, url: gateway.url });
  }
});
afterAll(async () => {
  for (const { engine, gateway } of houses.values()) {
    await gateway.close();
    await engine.close();
  }
});
afterEach(async () => {
  for (const one of extra.splice(0).toReversed()) await one.close();
});

/** All users share, so that nothing but sessions keeps answers apart; an engine sees who asks. */
const gatewayOf = (engine: Pick<SessionEngine, 'url'>, kind: EngineKind) =>
  startTestGateway({
    engine: { url: engine.url, kind, login: 'forward' },
    cache: { share: 'everyone', engine_permissions_ignored: true },
  });

const PROPERTIES = { Catalog: 'Sales', Format: 'Multidimensional' };
let count = 0;
/** Each test asks for a cube of its own. */
const query = (session?: SessionSpec, statement = `SELECT FROM [Sales ${count}]`) =>
  execute({ statement, properties: PROPERTIES, ...(session && { session }) });
beforeEach(() => {
  count += 1;
});
const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";
const begin = (base: string, user = 'alice') =>
  beginSession(base, { properties: PROPERTIES, user });

describe.each(KINDS)('a session of %s', (kind) => {
  const house = () => houses.get(kind) as House;

  test('that was begun here is answered from the cache, and shows its own id', async () => {
    const { url } = house();
    const [one, other] = [await begin(url), await begin(url)];
    const first = await askStamped(url, query(inSession(one)));
    const second = await askStamped(url, query(inSession(other)));
    expect([first.status, second.status]).toEqual(['miss stored', 'hit']);
    expect([one, undefined]).toContain(first.session);
    expect(second.computedIn).toBe(one);
    expect(second.session).toBe(first.session && other);
  });

  test('in which something was made is answered by the engine alone, with what was made', async () => {
    const { url } = house();
    const [dirty, clean] = [await begin(url), await begin(url)];
    await askStamped(url, query(inSession(dirty)));
    await askStamped(url, query(inSession(dirty), MEMBER));
    for (let turn = 0; turn < 2; turn += 1) {
      const { status, stamp } = await askStamped(url, query(inSession(dirty)));
      expect([status, stamp?.created]).toEqual(['bypass dirty-session', [MEMBER]]);
      expect((await askStamped(url, query(inSession(clean)))).stamp?.created).toEqual([]);
    }
  });

  test('that ended is unknown', async () => {
    const { engine, url } = house();
    const id = await begin(url);
    await askStamped(url, query(inSession(id)));
    const ended = await askStamped(
      url,
      execute({ statement: '', session: { kind: 'end', id }, properties: PROPERTIES }),
    );
    expect([ended.status, ended.answer.status]).toEqual(['bypass session', 200]);
    engine.seen.length = 0;
    const after = await askStamped(url, query(inSession(id)));
    expect(after.status).toBe(
      STRANGE[kind] === 'refused' ? 'gateway unknown-session' : 'bypass unknown-session',
    );
    expect(after.fault).toBe(kind === 'mondrian' || kind === 'kylin' ? undefined : UNKNOWN_SESSION);
    expect(engine.seen).toHaveLength(STRANGE[kind] === 'refused' ? 0 : 1);
  });

  test('that nobody began here is never answered from the cache, and nothing of it is stored', async () => {
    const { engine, url } = house();
    engine.seen.length = 0;
    for (let turn = 0; turn < 2; turn += 1) {
      const { status, answer, fault } = await askStamped(url, query(inSession('guessed')));
      expect(answer.status).toBe(200);
      if (STRANGE[kind] === 'passed') expect(status).toBe('bypass unknown-session');
      else expect([status, fault]).toEqual(['gateway unknown-session', UNKNOWN_SESSION]);
    }
    expect(engine.seen).toHaveLength(STRANGE[kind] === 'passed' ? 2 : 0);
    // And the client begins anew.
    const id = await begin(url);
    expect((await askStamped(url, query(inSession(id)))).status).toBe('miss stored');
  });

  test('of another user is never answered from the cache', async () => {
    const { engine, url } = house();
    const id = await begin(url, 'bob');
    await askStamped(url, query(inSession(id)), { user: 'bob' });
    engine.seen.length = 0;
    const clean = await askStamped(url, query(inSession(id)));
    expect(clean.status).toBe(
      STRANGE[kind] === 'refused' ? 'gateway unknown-session' : 'bypass unknown-session',
    );
    await askStamped(url, query(inSession(id), MEMBER), { user: 'bob' });
    const dirty = await askStamped(url, query(inSession(id)));
    expect([dirty.stamp, dirty.fault]).toEqual([undefined, UNKNOWN_SESSION]);
    // Nor can she end it, or make something in it.
    for (const statement of ['', MEMBER]) {
      const session = statement === '' ? ({ kind: 'end', id } as const) : inSession(id);
      await askStamped(url, execute({ statement, session, properties: PROPERTIES }));
    }
    const own = await askStamped(url, query(inSession(id)), { user: 'bob' });
    expect([own.status, own.stamp?.created]).toEqual(['bypass dirty-session', [MEMBER]]);
  });

  test('outlives a restart of a gateway without Redis, or is begun anew', async () => {
    const { engine, url: before } = house();
    const [clean, dirty] = [await begin(before), await begin(before)];
    await askStamped(before, query(inSession(dirty), MEMBER));
    const restarted = await gatewayOf(engine, kind);
    extra.push(restarted);
    const { url } = restarted;
    for (const [id, created] of [
      [clean, []],
      [dirty, [MEMBER]],
      [clean, []],
    ] as const) {
      const { status, stamp, fault, answer } = await askStamped(url, query(inSession(id)));
      expect(answer.status).toBe(200);
      if (STRANGE[kind] === 'passed') {
        expect([status, stamp?.created]).toEqual(['bypass unknown-session', created]);
      } else expect([status, fault]).toEqual(['gateway unknown-session', UNKNOWN_SESSION]);
    }
    const id = await begin(url);
    const statuses = [];
    for (let turn = 0; turn < 2; turn += 1) {
      statuses.push((await askStamped(url, query(inSession(id)))).status);
    }
    expect(statuses).toEqual(['miss stored', 'hit']);
  });

  test('that begins with a cacheable question always begins at the engine, and its answer is not stored', async () => {
    const { url } = house();
    const cubes = (session?: SessionSpec) =>
      discover({
        requestType: 'MDSCHEMA_CUBES',
        restrictions: { CATALOG_NAME: 'Sales' },
        properties: PROPERTIES,
        ...(session && { session }),
      });
    const ids = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { status, session } = await askStamped(url, cubes({ kind: 'begin' }));
      expect(status).toBe('bypass session');
      ids.push(session ?? '');
    }
    expect(new Set(ids).size).toBe(3);
    const [first = '', second = ''] = ids;
    expect((await askStamped(url, cubes())).status).toBe('miss stored');
    expect((await askStamped(url, cubes(inSession(first)))).status).toBe('miss stored');
    expect((await askStamped(url, cubes(inSession(second)))).status).toBe('hit');
  });

  test('that the engine begins by itself is shown to its user, and to nobody else', async () => {
    const engine = await startSessionEngine({ kind, implicit: true });
    extra.push(engine);
    const gateway = await gatewayOf(engine, kind);
    extra.push(gateway);
    const { url } = gateway;
    const first = await askStamped(url, query());
    const implicit = first.session ?? '';
    expect([first.status, first.computedIn]).toEqual(['miss stored', implicit]);
    for (const user of ['alice', 'bob']) {
      const { status, session, answer } = await askStamped(url, query(), { user });
      expect([status, session]).toEqual(['hit', undefined]);
      expect(answer.text).not.toContain(`SessionId="${implicit}"`);
    }
    // Its user may go on in it; another user gets nothing of it.
    const own = await askStamped(url, query(inSession(implicit), 'SELECT FROM [Own]'));
    expect([own.fault, own.computedIn]).toEqual([undefined, implicit]);
    await askStamped(url, query(inSession(implicit), MEMBER));
    const others = await askStamped(url, query(inSession(implicit)), { user: 'bob' });
    expect([others.stamp?.created ?? [], others.status]).toEqual([
      [],
      expect.not.stringMatching('hit'),
    ]);
    expect((await askStamped(url, query())).stamp?.created).toEqual([]);
  });
});

test('the header X-AS-SessionID names a session as the SOAP header does', async () => {
  const { engine, url } = houses.get('ssas') as House;
  const [one, other] = [await begin(url), await begin(url)];
  const ask = (id: string, statement?: string) =>
    askStamped(url, query(undefined, statement), { headers: { 'x-as-sessionid': id } });
  const answers = [];
  for (const id of [one, one, other, other, one]) answers.push(await ask(id));
  expect(answers.map(({ status }) => status)).toEqual(['miss stored', 'hit', 'hit', 'hit', 'hit']);
  const [first, ...others] = answers.map(({ answer }) => answer.headers['x-as-sessionid']);
  expect([one, undefined]).toContain(first);
  expect(others).toEqual([one, other, other, one].map((id) => first && id));
  expect((await ask(one, MEMBER)).status).toBe('bypass not-a-query');
  expect(await ask(one)).toMatchObject({
    status: 'bypass dirty-session',
    stamp: { created: [MEMBER] },
  });
  expect(await ask(other)).toMatchObject({ status: 'hit', stamp: { created: [] } });
  // Who names two sessions is in neither for certain.
  const both = await askStamped(url, query(inSession(other)), {
    headers: { 'x-as-sessionid': one },
  });
  expect(both.status).toBe('bypass session');
  expect(engine.asked.at(-1)?.session.id).toBe(other);
});
