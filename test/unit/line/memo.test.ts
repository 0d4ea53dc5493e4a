import { beforeEach, describe, expect, test } from '@jest/globals';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RememberedLogin } from '../../../src/auth/verified-credentials.ts';
import { createBodyAccount } from '../../../src/common/body-account.ts';
import { ENGINE_KINDS } from '../../../src/common/engine-kinds.ts';
import { inSession } from '../../../src/line/understand.ts';
import { besideBody, createKeyOf, createMemo, type Handled } from '../../../src/line/memo.ts';
import { type OwnTurn, understand } from '../../../src/line/understand.ts';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import type { KnownKey } from '../../../src/cache/query.ts';
import type { SessionRecord } from '../../../src/freshness/freshness-store.ts';
import type { FoundSession } from '../../../src/sessions/sessions.ts';
import { execute } from '../../support/envelopes.ts';
import { handClock } from '../cache/fakes.ts';
import { principalOf } from '../../../src/common/principal.ts';

test('what is kept of a request counts with the query of its path and the headers that the engine answers by', async () => {
  const read = (more: object, headers = {}) =>
    understand(headers, asked(), { ...DESTINATION, ...more } as never).then(besideBody);
  const long = 'x'.repeat(10_000);
  const named = { settings: { ...(DESTINATION.settings as object), headers: ['x-tenant'] } };
  const none = await read({});
  const addressee = { project: undefined, query: [long] };
  expect((await read({ addressee })) - none).toBeGreaterThan(3 * long.length);
  expect((await read(named, { 'x-tenant': long })) - none).toBeGreaterThan(3 * long.length);
});

const LOGIN = 'Basic YWxpY2U6YWxpY2U=';
const DESTINATION = {
  engine: { id: 'engine' },
  addressee: { project: undefined, query: [] },
  traits: ENGINE_KINDS.mondrian,
  settings: { headers: [], delegation: 'forward', session_idle: 1_000 } as never,
  endpoint: 'engine',
  user: 'alice',
};
const SESSION = 'qy3p8o1v5zk2';
const GUID = '0f8fad5b-d9cb-469f-a165-70867728950e';
const FOUND: KnownKey = {
  key: 'k',
  captured: { scopes: ['everything', 'project:foodmart'], tokens: [], keySecret: '', leases: [] },
  ttl: 1_000,
  digests: '',
};

/** A query in a session, with an id of its own. */
const asked = (id = SESSION, activity = GUID): Buffer =>
  execute({
    statement: 'SELECT FROM [Sales]',
    properties: { Catalog: 'FoodMart', DbpropMsmdActivityID: activity },
    session: { kind: 'in', id },
  });
const DRILLTHROUGH = execute({ statement: 'DRILLTHROUGH SELECT FROM [Sales]' });

type Headers = Readonly<Record<string, string>>;

function requestOf(headers: Headers = {}, socket = new Socket()): IncomingMessage {
  const all: Headers = { authorization: LOGIN, 'content-type': 'text/xml', ...headers };
  return Object.assign(new IncomingMessage(socket), {
    method: 'POST',
    url: '/mdx/xmla',
    httpVersion: '1.1',
    rawHeaders: Object.entries(all).flat(),
    headers: all,
  });
}

const loggedIn = (name: string) => {
  const counts = () => login.valid;
  const login = { principal: principalOf(name), valid: true, counts, countsForHits: counts };
  return login;
};

const clock = handClock();
let memo: ReturnType<typeof createMemo>;
let unchangedKeyOf: ReturnType<typeof createKeyOf>;
let login: RememberedLogin & { valid: boolean };
let record: SessionRecord;
/** What is known of {@link SESSION}; undefined where it must be asked for. */
let session: FoundSession | undefined;
let roles: string | undefined;
const blind = new Set<CacheScope>();
let ownTurn: OwnTurn;
/** Bytes that bodies under way may take. */
let room: number;

beforeEach(() => {
  [ownTurn, room] = [() => undefined, 1_000_000];
  login = loggedIn('alice');
  record = {
    principal: 'alice',
    profile: 'p',
    catalog: 'FoodMart',
    replica: '',
    dirty: false,
    spelling: '',
    version: '',
    forwardedAt: clock.wall(),
  };
  session = { kind: 'known', record };
  roles = undefined;
  blind.clear();
  const parts = {
    authenticator: { remembered: (header: string) => (header === LOGIN ? login : undefined) },
    sessions: {
      held: ({ id }: { id: string }) => (id === SESSION ? session : { kind: 'unknown' }),
    },
    roleSets: { heldName: () => roles },
    account: createBodyAccount(() => ({ in_flight: room, queue: 1 })),
    judges: [
      (scopes: readonly CacheScope[]) =>
        scopes.some((scope) => blind.has(scope)) ? 'watch-blind' : undefined,
    ],
    clock,
    secret: 's',
    newId: () => 'id',
    emit(event: unknown) {
      throw new Error(`nothing should be told: ${JSON.stringify(event)}`);
    },
  } as unknown as Parameters<typeof createMemo>[0] & Parameters<typeof createKeyOf>[0];
  memo = createMemo(parts, (...given) => ownTurn(...given));
  unchangedKeyOf = createKeyOf(parts);
});

async function handled(body: Buffer, headers: Headers = {}): Promise<Handled> {
  const request = requestOf(headers);
  return {
    request,
    address: { project: undefined, search: '' },
    principal: principalOf('alice'),
    destination: DESTINATION,
    body,
    asked: await understand(request.headers, body, DESTINATION),
  };
}

interface Taught {
  readonly body?: Buffer;
  readonly headers?: Headers;
  readonly share?: 'user' | 'roles';
  readonly roles?: string;
  readonly key?: string;
  readonly change?: Partial<Handled>;
}

async function teach(taught: Taught = {}): Promise<void> {
  const { body = asked(), headers, share = 'user', roles, key = 'k' } = taught;
  const whole = { ...(await handled(body, headers)), ...taught.change };
  const { session: own } = whole.asked;
  const known = own.kind === 'in' ? { name: { endpoint: '', id: own.id }, record } : undefined;
  await memo.rememberAnswer(whole, { share, roles }, known, { ...FOUND, key });
}

/** Nothing is noted under a head that comes for the first time: so all is taught twice. */
async function taughtTwice(taught?: Taught): Promise<void> {
  await teach(taught);
  expect(keyOf(taught?.body, taught?.headers)).toBeUndefined();
  await teach(taught);
}

/** The key under which the answer of a request is looked for, where it is known. */
function keyOf(body = asked(), headers: Headers = {}): string | undefined {
  const head = memo.headOf(requestOf(headers));
  const recognised = head && memo.recognise(head, body);
  return recognised && unchangedKeyOf(recognised)?.key;
}

const changed = (from: string, to: string) => Buffer.from(`${asked()}`.replace(from, to));

test('a query that comes again is known, in its own session and with whatever ids it makes up', async () => {
  await taughtTwice();
  expect(keyOf()).toBe('k');
  expect(keyOf(asked(SESSION, GUID.replaceAll('0', 'f')))).toBe('k');
  const head = memo.headOf(requestOf());
  const other = SESSION.replaceAll('q', 'x');
  const recognised = head && memo.recognise(head, asked(other));
  expect(recognised && inSession(recognised.asked, recognised.sessionId).session).toMatchObject({
    id: other,
  });
});

describe('its answer is not looked for under the key of before when', () => {
  const change = (other: Partial<SessionRecord>) => {
    session = { kind: 'known', record: { ...record, ...other } };
  };
  test.each<[string, () => void]>([
    ['the login must be checked again', () => (login.valid = false)],
    ['the session must be asked for', () => (session = undefined)],
    ['the session is not known', () => (session = { kind: 'unknown' })],
    ['the store of sessions is away', () => (session = { kind: 'unavailable', last: record })],
    ['the session is dirty', () => change({ dirty: true })],
    ['the session is another user’s', () => change({ principal: 'bob' })],
    ['the session began with something else', () => change({ profile: 'q' })],
    ['the session is in another catalog', () => change({ catalog: 'Other' })],
    ['it is not seen whether its data changed', () => blind.add('project:foodmart')],
    ['the engine must be told that the session lives', () => change({ forwardedAt: 0 })],
  ])('%s', async (_why, happen) => {
    await taughtTwice();
    expect(keyOf()).toBe('k');
    happen();
    expect(keyOf()).toBeUndefined();
  });

  test('the roles under which it is shared are not those of the user any more', async () => {
    roles = 'roles:1,2';
    await taughtTwice({ share: 'roles', roles: 'roles:1,2' });
    expect(keyOf()).toBe('k');
    for (const other of [undefined, 'roles:1']) {
      roles = other;
      expect(keyOf()).toBeUndefined();
    }
  });

  test.each<[string, Buffer]>([
    ['its session is not known', asked(SESSION.replaceAll('q', 'x'))],
    ['a session is not named', execute({ statement: 'SELECT FROM [Sales]' })],
    ['another statement is asked', changed('Sales', 'Other')],
    ['an id holds what means something to XML', changed(GUID, GUID.replaceAll('0', '&'))],
    ['an id is longer', asked(SESSION, `${GUID}0`)],
    ['an id of a session is longer', asked(`${SESSION}0`)],
  ])('%s', async (_why, body) => {
    await taughtTwice();
    expect(keyOf(body)).toBeUndefined();
    expect(keyOf()).toBe('k');
  });

  test.each<[string, Headers]>([
    ['a header is there that was not', { 'cache-control': 'no-cache' }],
    ['another user asks', { authorization: 'Basic Ym9iOmJvYg==' }],
    ['the session is named in a header', { 'x-as-sessionid': SESSION }],
  ])('%s', async (_why, headers) => {
    await taughtTwice();
    expect(keyOf(asked(), headers)).toBeUndefined();
  });
});

test('what was learnt under one head is not known under another', async () => {
  const sales = execute({ statement: 'SELECT FROM [Sales]' });
  const other = execute({ statement: 'SELECT FROM [Other]' });
  const headers = { 'user-agent': 'another' };
  await taughtTwice({ body: sales, key: 'sales' });
  await taughtTwice({ body: other, key: 'other', headers });
  expect([keyOf(sales), keyOf(other, headers)]).toEqual(['sales', 'other']);
  expect([keyOf(sales, headers), keyOf(other)]).toEqual([undefined, undefined]);
});

describe('nothing is remembered', () => {
  test.each<[string, Taught]>([
    ['of a user without roles where answers are shared by roles', { share: 'roles' }],
    ['of a body that is compressed', { headers: { 'content-encoding': 'gzip' } }],
    ['of a request that names its session in a header', { headers: { 'x-as-sessionid': SESSION } }],
    ['of a login that is not remembered', { headers: { authorization: 'Basic Ym9iOmJvYg==' } }],
    ['of a login that is another’s by now', { change: { principal: principalOf('bob') } }],
  ])('%s', async (_what, taught) => {
    await taughtTwice(taught);
    expect(keyOf(taught.body, taught.headers)).toBeUndefined();
  });

  test('of a body of more than 64 KiB, which is never made a text', async () => {
    const sized = (length: number) =>
      Buffer.concat([asked(), Buffer.alloc(length - asked().length, ' ')]);
    await taughtTwice({ body: sized(65_536) });
    expect(keyOf(sized(65_536))).toBe('k');
    const body = sized(65_537);
    await taughtTwice({ body });
    Object.assign(body, { toString: () => expect('a text').toBe('made of it') });
    expect(keyOf(body)).toBeUndefined();
  });

  test('of a body with more than 32 properties whose values do not count', async () => {
    const body = (count: number) =>
      Buffer.from(
        asked()
          .toString()
          .replace('</PropertyList>', `${ID.repeat(count)}$&`),
      );
    const ID = '<Timeout>1</Timeout>';
    await taughtTwice({ body: body(31) });
    expect(keyOf(body(31))).toBe('k');
    await taughtTwice({ body: body(32) });
    expect(keyOf(body(32))).toBeUndefined();
  });

  test('of a request of more than 500 pieces', async () => {
    const body = (count: number) =>
      Buffer.from(
        asked()
          .toString()
          .replace('</PropertyList>', `${'<A>a</A>'.repeat(count)}$&`),
      );
    const [most, more] = [body(498), body(499)];
    await taughtTwice({ body: most });
    expect(keyOf(most)).toBe('k');
    await taughtTwice({ body: more });
    expect(keyOf(more)).toBeUndefined();
  });

  test('of a body for which there is no room while it is learnt', async () => {
    await teach();
    room = 0;
    await teach();
    expect(keyOf()).toBeUndefined();
    room = 1_000_000;
    await teach();
    expect(keyOf()).toBe('k');
  });

  test('of the query of a path', async () => {
    const search = 'x='.padEnd(5_000, 'x');
    await teach({ change: { address: { project: 'p', search } } });
    const head = memo.headOf(requestOf());
    expect(head?.project).toBe('p');
    expect(JSON.stringify(head)).not.toContain('x=');
  });
});

test('a body is learnt in a turn of its user in which three times its bytes may be read', async () => {
  const given: unknown[] = [];
  const door = Promise.withResolvers<void>();
  await teach();
  ownTurn = (...what) => {
    given.push(what);
    return door.promise;
  };
  const taught = teach();
  await nextTurn();
  expect(given).toEqual([[3 * asked().length, 'alice']]);
  expect(keyOf()).toBeUndefined();
  door.resolve();
  await taught;
  expect(keyOf()).toBe('k');
});

describe('what is remembered', () => {
  test('counts again when the login was checked again', async () => {
    await taughtTwice();
    login.valid = false;
    expect(keyOf()).toBeUndefined();
    login = loggedIn('alice');
    await teach();
    expect(keyOf()).toBe('k');
  });

  test('counts for no other user who logs in with the same credentials later', async () => {
    await taughtTwice();
    const other = execute({ statement: 'SELECT FROM [Other]' });
    login = loggedIn('bob');
    const bobs = { body: other, change: { principal: principalOf('bob') } };
    await taughtTwice(bobs);
    expect([keyOf(other), keyOf()]).toEqual(['k', undefined]);
  });

  test('is found under another key when it was answered under another one since', async () => {
    await taughtTwice({ key: 'before' });
    await teach();
    expect(keyOf()).toBe('k');
  });

  test('of a request that goes past the cache is what was understood, once it came twice', async () => {
    const known = () => {
      const head = memo.headOf(requestOf());
      return head && memo.recognise(head, DRILLTHROUGH);
    };
    await memo.rememberPassing(await handled(DRILLTHROUGH));
    expect([known(), memo.headOf(requestOf()) === undefined]).toEqual([undefined, false]);
    await memo.rememberPassing(await handled(DRILLTHROUGH));
    expect(known()).toMatchObject({ asked: { bypass: 'drillthrough' }, answer: undefined });
    expect(keyOf(DRILLTHROUGH)).toBeUndefined();
  });
});
