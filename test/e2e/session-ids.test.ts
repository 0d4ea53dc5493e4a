import { afterEach, describe, expect, test } from '@jest/globals';
import type { EngineKind } from '../../src/common/engine-kinds.ts';
import { execute } from '../support/envelopes.ts';
import {
  startSessionEngine,
  UNKNOWN_SESSION,
  type SessionEngine,
} from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const KINDS = ['generic', 'mondrian', 'emondrian', 'kylin', 'ssas'] as const;
const PROPERTIES = { Catalog: 'Sales' };
const MEMBER = "CREATE SESSION MEMBER [Sales].[Measures].[Mine] AS '1'";

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});

async function engineOf(kind: EngineKind, sessionIds?: () => string): Promise<SessionEngine> {
  const engine = await startSessionEngine({ kind, ...(sessionIds && { sessionIds }) });
  open.push(engine);
  return engine;
}

async function gatewayOf(
  kind: EngineKind,
  ...engines: readonly SessionEngine[]
): Promise<TestGateway> {
  const gateway = await startTestGateway({
    engine: { url: engines.map(({ url }) => url), kind, login: 'forward' },
    cache: { share: 'everyone', engine_permissions_ignored: true },
  });
  open.push(gateway);
  return gateway;
}

const begin = ({ url }: TestGateway, user = 'alice') =>
  beginSession(url, { properties: PROPERTIES, user });
const ask = ({ url }: TestGateway, id: string, statement: string, user = 'alice') =>
  askStamped(url, execute({ statement, properties: PROPERTIES, session: inSession(id) }), { user });

describe.each(KINDS)('an id that %s gives again', (kind) => {
  test('brings nothing of the session that had it before', async () => {
    const gateway = await gatewayOf(kind, await engineOf(kind, () => '1'));
    await begin(gateway);
    await ask(gateway, '1', MEMBER);
    expect((await ask(gateway, '1', 'SELECT FROM [A]')).stamp?.created).toEqual([MEMBER]);
    await begin(gateway, 'bob');
    for (let turn = 0; turn < 2; turn += 1) {
      const own = await ask(gateway, '1', 'SELECT FROM [A]', 'bob');
      expect([own.fault, own.stamp?.created]).toEqual([undefined, []]);
      // It is not hers any more.
      expect((await ask(gateway, '1', 'SELECT FROM [A]')).status).not.toMatch(/hit|stored/);
    }
  });

  test('takes nothing into the cache that was asked in the session that had it before', async () => {
    const engine = await engineOf(kind, () => '1');
    const gateway = await gatewayOf(kind, engine);
    await begin(gateway);
    const held = engine.hold(({ statement }) => statement === 'SELECT FROM [B]');
    const early = ask(gateway, '1', 'SELECT FROM [B]');
    await held.arrived;
    await begin(gateway, 'bob');
    await ask(gateway, '1', MEMBER, 'bob');
    held.release();
    expect((await early).status).not.toMatch('stored');
    await begin(gateway);
    expect((await ask(gateway, '1', 'SELECT FROM [B]')).stamp?.created).toEqual([]);
  });
});

test.each(['generic', 'emondrian', 'ssas'] as const)(
  'an engine that starts again says itself that a session is gone, which is not stored (%s)',
  async (kind) => {
    const engine = await engineOf(kind);
    const gateway = await gatewayOf(kind, engine);
    const [before, dirty] = [await begin(gateway), await begin(gateway)];
    await ask(gateway, dirty, MEMBER);
    engine.restart();
    for (const statement of ['SELECT FROM [A]', 'SELECT FROM [A]', MEMBER]) {
      const { status, fault, answer } = await ask(gateway, before, statement);
      expect([status.includes('stored'), fault, answer.status]).toEqual([
        false,
        UNKNOWN_SESSION,
        200,
      ]);
    }
    expect((await ask(gateway, dirty, 'SELECT FROM [A]')).fault).toBe(UNKNOWN_SESSION);
    const anew = await begin(gateway);
    expect(await ask(gateway, anew, 'SELECT FROM [A]')).toMatchObject({
      status: 'miss stored',
      computedIn: anew,
      stamp: { created: [] },
    });
  },
);

test('a session stays with the replica of the engine that began it', async () => {
  const engines = [await engineOf('emondrian'), await engineOf('emondrian')];
  const gateway = await gatewayOf('emondrian', ...engines);
  const ids = [];
  for (let number = 0; number < 6; number += 1) {
    const id = await begin(gateway);
    ids.push(id);
    await ask(gateway, id, `${MEMBER} /* ${number} */`);
  }
  for (let turn = 0; turn < 2; turn += 1) {
    for (const [number, id] of ids.entries()) {
      const { fault, stamp } = await ask(gateway, id, `SELECT FROM [Turn ${turn}]`);
      expect([fault, stamp?.created]).toEqual([undefined, [`${MEMBER} /* ${number} */`]]);
    }
  }
  const begun = engines.map(({ asked }) => asked.filter(({ session }) => session.kind === 'begin'));
  expect(begun.map(({ length }) => length)).toEqual([3, 3]);
  // A clean one is answered from what was computed in that of the other replica.
  const [one, other] = [await begin(gateway), await begin(gateway)];
  expect((await ask(gateway, one, 'SELECT FROM [Clean]')).status).toBe('miss stored');
  expect(await ask(gateway, other, 'SELECT FROM [Clean]')).toMatchObject({
    status: 'hit',
    computedIn: one,
    session: other,
  });
});
