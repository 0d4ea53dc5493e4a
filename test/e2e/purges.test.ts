import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { startBlackHole } from '../support/black-hole.ts';
import { until } from '../integration/cache/redis-house.ts';
import { askLearn } from '../support/clearing.ts';
import { type Answer, send } from '../support/http-client.ts';
import { sendText, startKylinEngine, type KylinEngine } from '../support/kylin-engine.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: KylinEngine;
const gateways: TestGateway[] = [];

beforeAll(async () => {
  engine = await startKylinEngine();
});
afterEach(async () => {
  engine.clearWith();
  for (const gateway of gateways.splice(0)) await gateway.close();
});
afterAll(() => engine.close());

async function start(redis = '', projects = {}): Promise<TestGateway> {
  const gateway = await startTestGateway({
    engine: { url: `${engine.base}/mdx/xmla/{project}`, kind: 'kylin', clear: 'kylin' },
    auth: { purgers: ['bob'] },
    cache: { lease: '100ms', redis: { url: redis } },
    projects,
  });
  gateways.push(gateway);
  return gateway;
}

const clear = ({ url }: TestGateway, project = '', user = 'ADMIN') =>
  send(url, {
    path: `/mdx/xmla/${project === '' ? '' : `${encodeURIComponent(project)}/`}clearCache`,
    headers: { authorization: basic(user), accept: 'application/json' },
  });

const known = ({ text }: Answer) => (JSON.parse(text) as { known?: unknown }).known;

interface Told {
  readonly complete: boolean;
  readonly purges: readonly Record<string, unknown>[];
}

async function purgesOf({ url }: TestGateway, search = ''): Promise<Told> {
  const path = `/admin/purges${search}`;
  const answer = await send(url, { path, headers: { authorization: basic('ADMIN') } });
  expect([answer.status, answer.headers['cache-control']]).toEqual([200, 'no-store']);
  return JSON.parse(answer.text) as Told;
}

/** A purge is in the log soon after it was answered. */
const purgesAre = (gateway: TestGateway, fits: (told: Told) => boolean): Promise<Told> =>
  until(() => purgesOf(gateway), fits);

describe('GET /admin/purges', () => {
  test('tells who purged what, when, and with which result, the newest first', async () => {
    const gateway = await start();
    const before = Date.now();
    const first = await clear(gateway, 'Käse', 'bob');
    engine.clearWith(sendText('busy', { status: 503 }));
    expect((await clear(gateway)).status).toBe(502);
    const { complete, purges } = await purgesAre(gateway, (told) => told.purges.length === 2);
    expect(complete).toBe(true);
    const { id } = JSON.parse(first.text) as { id: string };
    expect(purges).toEqual([
      {
        id: expect.any(String),
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        principal: 'ADMIN',
        cause: 'clear-cache',
        scope: 'everything',
        result: 'engine-failed',
        replicas: 1,
        waited: 0,
        known: true,
        engine_calls: 1,
      },
      {
        id,
        at: expect.any(String),
        principal: 'bob',
        cause: 'clear-cache',
        scope: { project: 'Käse' },
        result: 'cleared',
        replicas: 1,
        waited: 0,
        known: false,
        engine_calls: 1,
      },
    ]);
    expect(Date.parse(String(purges[1]?.['at']))).toBeGreaterThanOrEqual(before);
    expect((await purgesOf(gateway, '?limit=1')).purges).toEqual(purges.slice(0, 1));
  });

  test('says whether a project was known, and so does the receipt', async () => {
    const gateway = await start('', { Configured: {} });
    await askLearn(gateway);
    const names = ['', 'LEARN', 'configured', 'Lern', 'Lern'];
    for (const name of names) expect(known(await clear(gateway, name))).toBe(name !== 'Lern');
    const { purges } = await purgesAre(gateway, (told) => told.purges.length === names.length);
    expect(purges.map((purge) => purge['known'])).toEqual([false, false, true, true, true]);
  });

  test('knows a project that another gateway of the Redis has seen', async () => {
    const redis = await startRedis();
    const [one, other] = [await start(redis.url), await start(redis.url)];
    await askLearn(one);
    expect(known(await clear(other, 'learn'))).toBe(true);
    // A purge makes no name known.
    for (const gateway of [one, other, one])
      expect(known(await clear(gateway, 'Lern'))).toBe(false);
    await redis.close();
  });

  test('is for administrators and those who may purge, not for others', async () => {
    const gateway = await start();
    const statuses = await Promise.all(
      [basic('bob'), basic('alice'), ''].map(
        async (authorization) =>
          (
            await send(gateway.url, {
              path: '/admin/purges',
              headers: authorization === '' ? {} : { authorization },
            })
          ).status,
      ),
    );
    expect(statuses).toEqual([200, 403, 401]);
  });

  test('with Redis tells those of all gateways, and says when it cannot', async () => {
    const redis = await startRedis();
    const hole = await startBlackHole(redis.port);
    const one = await start(redis.url);
    const other = await start(`redis://127.0.0.1:${hole.port}`);
    expect((await clear(one, 'a')).status).toBe(200);
    expect((await clear(other, 'b')).status).toBe(200);
    for (const gateway of [one, other]) {
      const { complete, purges } = await purgesAre(gateway, (told) => told.purges.length === 2);
      expect(complete).toBe(true);
      expect(purges.map(({ scope }) => scope)).toEqual([{ project: 'b' }, { project: 'a' }]);
    }
    await hole.set('refuse');
    const { purges } = await purgesAre(other, (told) => !told.complete);
    expect(purges.map(({ scope }) => scope)).toEqual([{ project: 'b' }]);
    await hole.set('forward');
    for (const gateway of gateways.splice(0)) await gateway.close();
    await hole.close();
    await redis.close();
  });
});
