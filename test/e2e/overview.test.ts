import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const AUTH = { viewers: ['eve'], purgers: ['bob'] };

type Told = Record<string, unknown>;
interface Overview {
  readonly gateways: number;
  readonly complete: boolean;
  readonly findings: readonly Told[];
  readonly hour: Told;
  readonly minutes: readonly Told[];
  readonly projects: readonly Told[];
}

let engine: StubEngine;
let started: TestGateway[] = [];
beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
afterEach(async () => {
  for (const gateway of started) await gateway.close();
  started = [];
});
afterAll(() => engine.close());

async function start(settings: Record<string, unknown> = {}): Promise<TestGateway> {
  const all = { engine: { url: engine.url }, auth: AUTH, ...settings };
  const gateway = await startTestGateway(all, {}, ['eve']);
  started.push(gateway);
  return gateway;
}

async function read(url: string, path: string, user = 'eve') {
  const { status, text } = await send(url, { path, headers: { authorization: basic(user) } });
  return { status, body: JSON.parse(text) as Told };
}
const overviewOf = async (url: string) =>
  (await read(url, '/admin/overview')).body as unknown as Overview;

describe('one gateway', () => {
  test('tells how it is to administrators, viewers and purgers, with their rights, and the overview not to purgers', async () => {
    const { url } = await start();
    for (const [user, rights, overview] of [
      ['ADMIN', { administer: true, view: true, purge: true }, 200],
      ['eve', { administer: false, view: true, purge: false }, 200],
      ['bob', { administer: false, view: false, purge: true }, 403],
    ] as const) {
      const { status, body } = await read(url, '/admin/status', user);
      expect([status, body['user'], body['rights']]).toEqual([200, user, rights]);
      expect((await read(url, '/admin/overview', user)).status).toBe(overview);
    }
    for (const path of ['/admin/status', '/admin/overview']) {
      expect((await read(url, path, 'alice')).status).toBe(403);
      expect((await read(url, `${path}?limit=1`)).body['message']).toMatch(
        /limit is no query parameter here; allowed are none\./u,
      );
    }
  });

  test('counts the last hour by project, minute and outcome, and the latest purge', async () => {
    const { url } = await start();
    for (let times = 0; times < 4; times += 1)
      await askXmla(url, QUERY, { path: '/mdx/xmla/Shop' });
    const purge = { path: '/mdx/xmla/Shop/clearCache', headers: { authorization: basic('bob') } };
    expect((await send(url, purge)).status).toBe(200);
    const { body } = await read(url, '/admin/status');
    expect(body).toMatchObject({
      processes: 1,
      complete: true,
      engines: { up: 1, of: 1 },
      redis: 'off',
      purges_pending: 0,
      lease_age_ms: 0,
      queue: { waiting: 0, limit: 256 },
    });
    const overview = await overviewOf(url);
    expect(overview).toMatchObject({
      gateways: 1,
      complete: true,
      hour: { hits: 3, misses: 1, bypasses: 0, by_gateway: 0, hit_ratio: 0.75 },
      reasons: [{ outcome: 'hit', reason: 'memory', count: 3 }],
      purges: [{ scope: { project: 'Shop' } }],
      totals: { asks: 4, hits: 3 },
      projects: [
        { project: 'Shop', asks: 4, hits: 3, last_purge: { principal: 'bob', result: 'cleared' } },
      ],
    });
    expect(overview.minutes).toHaveLength(60);
    const sum = overview.minutes.reduce((all, { hits }) => all + (hits as number), 0);
    expect(sum).toBe(3);
  });
});

test('what should be looked at is told with what to do', async () => {
  const { url, gateway } = await start({
    engine: { url: [engine.url, 'http://127.0.0.1:1/xmla'] },
    cache: { ttl: '1s' },
  });
  gateway.reloaded(false);
  const purge = { path: '/mdx/xmla/Shpo/clearCache', headers: { authorization: basic('bob') } };
  expect((await send(url, purge)).status).toBe(200);
  const { findings } = await overviewOf(url);
  expect(findings).toMatchObject([
    { kind: 'engine-down', severity: 'problem', text: expect.stringContaining('127.0.0.1:1/xmla') },
    {
      kind: 'reload-failed',
      severity: 'warning',
      remedy: expect.stringContaining('check --config'),
    },
    { kind: 'unknown-purge', severity: 'warning', text: expect.stringContaining('Shpo') },
  ]);
});

describe('two gateways on one Redis', () => {
  const redis = shared(() => startRedis());

  test('tell the last hour of both, and a purge at the other', async () => {
    // What is told every half minute is told when this test says so.
    const repeated = jest.spyOn(globalThis, 'setInterval');
    const settings = { cache: { redis: { url: redis.url }, lease: '100ms' } };
    const [one, other] = [await start(settings), await start(settings)];
    const share = repeated.mock.calls.filter(([, pause]) => pause === 30_000).map(([run]) => run);
    repeated.mockRestore();
    expect(share.length).toBeGreaterThanOrEqual(2);
    for (const { url } of [one, one, other]) {
      await askXmla(url, QUERY, { path: '/mdx/xmla/Shop' });
    }
    for (const run of share) run();
    const purge = { path: '/mdx/xmla/Shop/clearCache', headers: { authorization: basic('bob') } };
    expect((await send(other.url, purge)).status).toBe(200);
    let overview = await overviewOf(one.url);
    while (overview.gateways < 2 || overview.projects[0]?.['last_purge'] === null) {
      overview = await overviewOf(one.url);
    }
    expect(overview).toMatchObject({
      gateways: 2,
      complete: true,
      projects: [{ project: 'Shop', asks: 3, last_purge: { principal: 'bob' } }],
    });
    const { body } = await read(one.url, '/admin/status');
    expect(body).toMatchObject({ redis: 'up', purges_pending: 0, processes: 1 });
    expect((body['lease_age_ms'] as number | null) ?? 0).toBeLessThanOrEqual(100);
  });

  test('say that Redis is away, what that means, and that the figures are of one alone', async () => {
    const { url } = await start({ cache: { redis: { url: 'redis://127.0.0.1:1' } } });
    const overview = await overviewOf(url);
    expect([overview.complete, overview.findings.map(({ kind }) => kind)]).toEqual([
      false,
      ['redis-down'],
    ]);
    expect((await read(url, '/admin/status')).body).toMatchObject({ redis: 'down' });
  });
});
