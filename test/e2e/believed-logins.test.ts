import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { faultAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { callKylinHook } from '../support/hooks.ts';
import { askXmla, send, shortStatus, until, type Answer } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, USERS, type TestGateway } from '../support/test-gateway.ts';

const MINUTE = 60_000;
/** Time passes when a test says so, and else as it always does. */
let passed = 0;
const clock = { now: () => performance.now() + passed, wall: () => Date.now() + passed };

/** Answers, behind a door that checks logins and that a test may hold. */
let inner: SessionEngine;
let engine: StubEngine;
let gateway: TestGateway;
const lockedOut = new Set<string>();
type Door = ReturnType<typeof gate> | undefined;
let trials: Door;
let slow: Door;
let isAway = false;

const isTrial = (body: Buffer) => body.includes('DISCOVER_DATASOURCES');
const isRight = (header = '') =>
  USERS.some((user) => !lockedOut.has(user) && basic(user) === header);

beforeAll(async () => {
  inner = await startSessionEngine({ kind: 'generic', now: clock.now });
  engine = await startStubEngine(async (response, request) => {
    const { headers, body } = request;
    if (isAway) return void response.destroy();
    if (isTrial(body)) await trials?.opened;
    if (!isRight(headers.authorization))
      return sendXml(faultAnswer(), { status: 401 })(response, request);
    if (isTrial(body) || !body.includes('Envelope'))
      return sendXml(rowsetAnswer())(response, request);
    if (body.includes('SLOW')) await slow?.opened;
    const { authorization = '', 'content-type': contentType = 'text/xml' } = headers;
    const answer = await fetch(inner.url, {
      method: 'POST',
      headers: { authorization, 'content-type': contentType },
      body: new Uint8Array(body),
    });
    return sendXml(Buffer.from(await answer.arrayBuffer()))(response, request);
  });
});

const settings = (auth: Record<string, unknown> = {}) => ({
  engine: { url: engine.url, login: 'forward', session_idle: '16m' },
  cache: { share: 'everyone', engine_permissions_ignored: true },
  auth: { provider: 'engine', admins: ['ADMIN', 'alice'], ...auth },
  hooks: { loaded: { format: 'kylin5', user: 'alice', projects: { shop: 'Shop' } } },
});
beforeAll(async () => {
  gateway = await startTestGateway(settings(), { clock });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
  await inner.close();
});
beforeEach(() => {
  // No login is believed from the test before.
  passed += 20 * MINUTE;
});
afterEach(async () => {
  trials?.open();
  slow?.open();
  [trials, slow, isAway] = [undefined, undefined, false];
  lockedOut.clear();
  // Behind it no check is under way.
  await ask(newQuery());
});

const PROPERTIES = { Catalog: 'Sales' };
const queryOf = (cube: string) =>
  execute({ statement: `SELECT FROM [${cube}]`, properties: PROPERTIES });
let count = 0;
const newQuery = () => queryOf(`new ${(count += 1)}`);
const queryIn = (session: string, statement = 'SELECT FROM [Sales]', properties = {}) =>
  execute({ statement, properties, session: inSession(session) });
const ask = (body: Buffer, user = 'alice', headers = {}) =>
  askXmla(gateway.url, body, { user, headers });
const SALES = queryOf('Sales');
const trialsOf = (user: string) =>
  engine.seen.filter(({ body, headers }) => isTrial(body) && headers.authorization === basic(user));

/** By now a login of alice is believed, and no more than that. */
function laterOn(minutes = 3): void {
  passed += minutes * MINUTE;
  engine.seen.length = 0;
}

describe('five minutes after its check', () => {
  test('a login gets its hits while it is checked once, and then counts for all again', async () => {
    const session = await beginSession(gateway.url, { properties: PROPERTIES });
    for (const body of [SALES, queryIn(session)]) {
      while (shortStatus(await ask(body)) !== 'hit');
    }
    const others = queryOf('what bob has asked');
    await ask(others, 'bob');
    laterOn(5);
    // Of its session nothing was heard for longer than is allowed without a touch.
    await ask(queryIn(session), 'bob');
    trials = gate();
    engine.seen.length = 0;
    const hits = await Promise.all([
      ...Array.from({ length: 10 }, () => ask(SALES)),
      ask(SALES, 'alice', { 'x-other': 'another head' }),
      ask(others),
    ]);
    expect(new Set(hits.map(shortStatus))).toEqual(new Set(['hit']));
    await until(() => trialsOf('alice').length > 0);
    expect(engine.seen).toHaveLength(1);
    trials.open();
    trials = undefined;
    expect(shortStatus(await ask(newQuery()))).toBe('miss stored');
    expect(trialsOf('alice')).toHaveLength(1);
  });

  test('a hit in its session waits for no check either', async () => {
    const session = await beginSession(gateway.url, { properties: PROPERTIES });
    await ask(queryIn(session));
    laterOn();
    trials = gate();
    expect(shortStatus(await ask(queryIn(session)))).toBe('hit');
  });

  test('a body that comes later than its head is answered without a check', async () => {
    await ask(SALES);
    laterOn();
    trials = gate();
    const headers = { expect: '100-continue' };
    expect(shortStatus(await ask(SALES, 'alice', headers))).toBe('hit');
  });

  test('what another gateway has left in Redis is a hit as well', async () => {
    const redis = await startRedis();
    const { cache, ...rest } = settings();
    const shared = { ...rest, cache: { ...cache, redis: { url: redis.url } } };
    const starting = [1, 2].map(() => startTestGateway(shared, { clock }));
    const [one, other] = (await Promise.all(starting)) as [TestGateway, TestGateway];
    await askXmla(other.url, newQuery());
    const query = newQuery();
    await askXmla(one.url, query);
    // It is written there when its client has it already.
    const entries = () =>
      askRedis(redis.port, `EVAL "return #redis.call('KEYS', ARGV[1])" 0 mdx:entry:*`);
    while ((await entries()) !== ':2\r\n');
    laterOn();
    trials = gate();
    const answer = await askXmla(other.url, query);
    expect(answer.headers['cache-status']).toMatch(/; hit; ttl=\d+; detail=redis$/);
    for (const closing of [one, other]) await closing.close();
    await redis.close();
  });

  test('a login that has become wrong gets nothing from the moment in which the engine says so', async () => {
    await ask(SALES);
    laterOn();
    lockedOut.add('alice');
    trials = gate();
    expect(shortStatus(await ask(SALES))).toBe('hit');
    await until(() => trialsOf('alice').length > 0);
    trials.open();
    trials = undefined;
    let answer = await ask(SALES);
    while (answer.status === 200) answer = await ask(SALES);
    expect(answer.status).toBe(401);
    expect((await ask(SALES)).status).toBe(401);
  });

  test('a reload has checked no login again; one that says 0 has all of them checked', async () => {
    await ask(SALES);
    engine.seen.length = 0;
    await gateway.reload(settings({ viewers: ['bob'] }));
    expect(shortStatus(await ask(newQuery()))).toBe('miss stored');
    expect(trialsOf('alice')).toHaveLength(0);
    laterOn();
    await gateway.reload(settings({ believed_for: 0 }));
    isAway = true;
    expect((await ask(SALES)).status).toBe(502);
    await gateway.reload(settings());
  });
});

test('while the engine is away, hits go on for ten minutes from the last right check, and nothing else does', async () => {
  await ask(SALES);
  isAway = true;
  for (let minutes = 3; minutes < 10; minutes += 3) {
    laterOn();
    expect(shortStatus(await ask(SALES))).toBe('hit');
    expect((await ask(newQuery())).status).toBe(502);
  }
  laterOn();
  expect((await ask(SALES)).status).toBe(502);
});

const get = (path: string, message: object = {}) =>
  send(gateway.url, { path, headers: { authorization: basic('alice') }, ...message });
let session = '';
/** What more than a hit takes, and what it is answered once the login was checked. */
const ROADS: readonly (readonly [string, () => Promise<Answer>, number])[] = [
  ['a miss', () => ask(newQuery()), 200],
  ['an answer that bob waits for', () => ask(queryOf('SLOW')), 200],
  ['a statement', () => ask(execute({ statement: 'UPDATE CUBE [Sales] SET ([a]) = 1' })), 200],
  ['what passes the cache', () => ask(discover({ requestType: 'DISCOVER_SESSIONS' })), 200],
  ['what the user wants anew', () => ask(SALES, 'alice', { 'cache-control': 'no-cache' }), 200],
  [
    'the begin of a session',
    () => ask(execute({ statement: '', session: { kind: 'begin' } })),
    200,
  ],
  [
    'the end of one',
    () => ask(execute({ statement: '', session: { kind: 'end', id: session } })),
    200,
  ],
  [
    'a statement in one',
    () => ask(queryIn(session, 'CREATE MEMBER [Sales].[Measures].[m] AS 1')),
    200,
  ],
  ['its first catalog', () => ask(queryIn(session, 'SELECT FROM [Sales]', PROPERTIES)), 200],
  ['a session that is not known', () => ask(queryIn('unknown')), 200],
  ['what is no XMLA', () => ask(Buffer.from('<a')), 200],
  ['another method', () => get('/mdx/xmla', { method: 'PUT' }), 200],
  ['what its head has refused', () => ask(SALES, 'alice', { 'content-type': 'multipart/x' }), 400],
  ['a body that is too long', () => ask(Buffer.alloc(17 * 1024 * 1024)), 413],
  ['/api', () => get('/api/roles?containsDesc=true&pageNum=0&pageSize=9&RoleName='), 200],
  ['/admin', () => get('/admin/overview'), 200],
  ['the console', () => get('/console/'), 200],
  ['/metrics', () => get('/metrics'), 200],
  ['clearCache', () => get('/mdx/xmla/clearCache'), 200],
  ['a hook', () => callKylinHook(gateway.url, 'loaded', 'alice'), 200],
];

describe('the engine is asked for a login that is only believed before', () => {
  test.each(ROADS)('%s', async (road, go, status) => {
    await ask(SALES);
    session = await beginSession(gateway.url);
    laterOn();
    slow = gate();
    let bob: Promise<Answer> | undefined;
    if (road.includes('bob')) {
      bob = ask(queryOf('SLOW'), 'bob');
      await until(() => engine.seen.some(({ body }) => body.includes('SLOW')));
      engine.seen.length = 0;
    }
    for (const isOut of [true, false]) {
      if (isOut) lockedOut.add('alice');
      else lockedOut.delete('alice');
      trials = gate();
      let isOver = false;
      const answer = go().finally(() => (isOver = true));
      await until(() => isOver || trialsOf('alice').length > 0);
      expect(isOver).toBe(false);
      trials.open();
      if (!isOut) slow.open();
      expect((await answer).status).toBe(isOut ? 401 : status);
      const seen = engine.seen.filter(({ headers }) => headers.authorization === basic('alice'));
      expect(seen.slice(0, isOut ? 2 : 1).map(({ body }) => isTrial(body))).toEqual([true]);
      // It was forgotten; it is let in again, and believed.
      lockedOut.delete('alice');
      if (isOut) await ask(newQuery());
      laterOn();
    }
    await bob;
  });

  test('the touch of a session', async () => {
    session = await beginSession(gateway.url, { properties: PROPERTIES });
    await ask(queryIn(session));
    laterOn(5);
    lockedOut.add('alice');
    expect((await ask(queryIn(session))).status).toBe(401);
    expect(engine.seen.map(({ body }) => isTrial(body))).toEqual([true]);
  });
});
