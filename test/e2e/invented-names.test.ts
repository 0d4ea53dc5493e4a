import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { systemClock, type Clock } from '../../src/common/clock.ts';
import { faultAnswer, mddatasetAnswer, rowsetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const HOUR = 3_600_000;

let redis: RedisServer;
/** Knows catalogs and projects whose name begins with Real; those with Empty hold nothing. */
let engine: StubEngine;
let open: TestGateway[] = [];

beforeAll(async () => {
  redis = await startRedis();
  engine = await startStubEngine((response, request) => {
    const text = `${request.url} ${request.body.toString()}`;
    const isQuery = text.includes('<Statement>');
    const answer = isQuery ? mddatasetAnswer() : rowsetAnswer({ names: [] });
    const known = /Real|Empty/u.test(text);
    return sendXml(known ? answer : faultAnswer())(response, request);
  });
});
beforeEach(() => askRedis(redis.port, 'FLUSHALL'));
afterAll(async () => {
  for (const gateway of open) await gateway.close();
  await engine.close();
  await redis.close();
});

async function gatewayWith(settings: object, clock: Clock = systemClock): Promise<string> {
  const gateway = await startTestGateway(
    { engine: { url: `${engine.url}/{project}` }, listen: { open: ['metrics'] }, ...settings },
    { clock },
  );
  open.push(gateway);
  return gateway.url;
}

const status = async (base: string, body: Buffer, message?: XmlaMessage) =>
  shortStatus(await askXmla(base, body, message));
const inCatalog = (name: string) =>
  discover({ requestType: 'MDSCHEMA_CUBES', restrictions: { CATALOG_NAME: name } });
const ask = (base: string, name: string, user = 'alice') => status(base, inCatalog(name), { user });
const inProject = (base: string, name: string, user = 'alice') =>
  status(base, discover({ requestType: 'DBSCHEMA_CATALOGS' }), { user, path: `/mdx/xmla/${name}` });

/** Keys in Redis. */
async function epochsOfProjects(): Promise<number> {
  const count = 'EVAL "return #redis.call(\'KEYS\', ARGV[1])" 0 *epoch:project:*';
  return Number((await askRedis(redis.port, count)).slice(1));
}

describe('a user who names more new projects and catalogs than he may', () => {
  test('passes the cache with them until the hour is over; all else goes on', async () => {
    let later = 0;
    const { now, wall } = systemClock;
    const clock = { ...systemClock, now: () => now() + later, wall: () => wall() + later };
    const limits = { names_per_user: 3 };
    const base = await gatewayWith({ limits, projects: { Ours: {} } }, clock);
    expect(await ask(base, 'Real 1')).toBe('miss stored');
    expect(await ask(base, 'invented')).toBe('miss fault');
    expect(await inProject(base, 'Real-2')).toBe('miss stored');
    // Neither is new: names are compared as purges compare them.
    expect(await ask(base, 'INVENTED')).toBe('miss fault');
    expect(await ask(base, ' real 1')).toMatch(/^miss/u);
    for (const name of ['Real 3', 'Real 3', 'invented too']) {
      expect(await ask(base, name)).toBe('bypass many-names');
    }
    expect(await inProject(base, 'Real-3')).toBe('bypass many-names');
    expect(await ask(base, 'Real 1')).toBe('hit');
    expect(await inProject(base, 'Real-2')).toBe('hit');
    expect(await ask(base, 'Ours')).toBe('miss fault');
    // What another user named, and the engine answered, is not new to anybody.
    expect(await ask(base, 'Real 3', 'bob')).toBe('miss stored');
    expect(await ask(base, 'Real 3')).toBe('miss stored');
    later = HOUR + 1_000;
    expect(await ask(base, 'Real 4')).toBe('miss stored');
  });

  test('is charged none by a request that names more than any client does', async () => {
    const base = await gatewayWith({ limits: { names_per_user: 30 } });
    const values = Array.from({ length: 20 }, (_, at) => `many ${at}`);
    const restrictions = [{ name: 'CATALOG_NAME', form: 'value' as const, values }];
    for (let again = 0; again < 3; again += 1) {
      const body = discover({ requestType: 'MDSCHEMA_CUBES', restrictions });
      expect(shortStatus(await askXmla(base, body))).toBe('bypass many-catalogs');
    }
    for (let at = 0; at < 29; at += 1) {
      expect(await ask(base, `Real ${at}`)).toBe('miss stored');
    }
  });

  test('leaves so many keys in Redis, whatever the engine answers', async () => {
    const limits = { names_per_user: 5 };
    const base = await gatewayWith({ limits, cache: { redis: { url: redis.url } } });
    const statuses: string[] = [];
    for (let i = 0; i < 20; i += 1) {
      statuses.push(await ask(base, `Empty ${i}`), await ask(base, `invented ${i}`, 'bob'));
    }
    expect(statuses.filter((one) => one === 'bypass many-names')).toHaveLength(30);
    expect(await epochsOfProjects()).toBeLessThanOrEqual(10);
  });

  test('is told so by an explanation, which costs no name', async () => {
    const base = await gatewayWith({ limits: { names_per_user: 1 } });
    const explain = async (name: string) => {
      const answer = await send(base, {
        method: 'POST',
        path: '/admin/explain?user=alice',
        headers: { authorization: basic('ADMIN'), 'content-type': 'text/xml' },
        body: inCatalog(name),
      });
      const { decision, reason } = JSON.parse(answer.text).classification;
      return [decision, reason];
    };
    for (const name of ['Real 1', 'Real 2']) {
      expect(await explain(name)).toEqual(['cacheable', undefined]);
    }
    await ask(base, 'invented');
    expect(await explain('Real 1')).toEqual(['bypass', 'many-names']);
  });

  test('leaves no catalog in sessions, which count as changed', async () => {
    const sessions = await startSessionEngine({ kind: 'emondrian' });
    try {
      const url = await gatewayWith({
        engine: { url: sessions.url, kind: 'emondrian' },
        limits: { names_per_user: 1 },
      });
      const begin = (Catalog: string) => beginSession(url, { properties: { Catalog } });
      const query = (id: string, properties = {}) =>
        status(url, execute({ statement: 'SELECT FROM [S]', session: inSession(id), properties }));
      const [one, other] = [await begin('first'), await begin('second')];
      const none = await beginSession(url);
      expect(await query(one)).toBe('miss stored');
      expect(await query(other)).toBe('bypass dirty-session');
      expect(await query(none, { Catalog: 'third' })).toBe('bypass many-names');
      expect(await query(none)).toBe('bypass dirty-session');
      expect(await query(one)).toBe('hit');
    } finally {
      await sessions.close();
    }
  });

  test('leaves a thousand names in an hour, where nothing else is configured', async () => {
    const base = await gatewayWith({ cache: { redis: { url: redis.url } } });
    const statuses: string[] = [];
    for (let i = 0; i < 1_050; i += 50) {
      const names = Array.from({ length: 50 }, (_, k) => `invented ${i + k}`);
      statuses.push(...(await Promise.all(names.map((name) => ask(base, name)))));
    }
    expect(statuses.filter((one) => one === 'bypass many-names')).toHaveLength(50);
    expect(await epochsOfProjects()).toBeLessThanOrEqual(1_000);
  });
});

describe('labels of the metrics', () => {
  const page = async (base: string) => (await send(base, { path: '/metrics' })).text;
  const labelsOf = (text: string) =>
    new Set([...text.matchAll(/project="([^"]*)"/gu)].map(([, name]) => name));

  async function invent(base: string, what: string): Promise<void> {
    for (let i = 0; i < 250; i += 50) {
      const names = Array.from({ length: 50 }, (_, k) => `${what}-${i + k}-${'x'.repeat(200)}`);
      await Promise.all(names.map((name) => inProject(base, name)));
    }
  }

  test('are real projects, however many are invented before', async () => {
    const base = await gatewayWith({ projects: { Ours: {} } });
    await invent(base, 'invented');
    const long = await inProject(base, `Real-${'x'.repeat(15_000)}`);
    expect(long).toBe('gateway bad-request');
    await inProject(base, 'Real-1');
    await inProject(base, 'ours');
    const text = await page(base);
    expect(labelsOf(text)).toEqual(new Set(['', 'other', 'Real-1', 'Ours']));
    expect(text.length).toBeLessThan(100_000);
  });

  test('are those of the configuration, even where the engine answers whatever is invented', async () => {
    const settings = { engine: { url: `${engine.url}/{project}` }, listen: { open: ['metrics'] } };
    const gateway = await startTestGateway({ ...settings, projects: { Ours: {} } });
    open.push(gateway);
    await invent(gateway.url, 'Empty');
    await inProject(gateway.url, 'Real-1');
    await inProject(gateway.url, 'OURS');
    const before = labelsOf(await page(gateway.url));
    expect(before.size).toBe(202);
    expect([before.has('Ours'), before.has('Real-1')]).toEqual([true, false]);
    await gateway.reload({ ...settings, projects: { Ours: {}, 'Real-1': {} } });
    await inProject(gateway.url, 'Real-1');
    expect(labelsOf(await page(gateway.url)).has('Real-1')).toBe(true);
  });
});
