import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { purge, startDataEngine, type DataEngine } from '../integration/query-cache/gateways.ts';
import { until as repeat } from '../integration/query-cache/redis-house.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { heldLeases } from '../support/held-leases.ts';
import { send, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let redis: RedisServer;
let hole: BlackHole;
let engine: DataEngine;
let gateway: TestGateway | undefined;

beforeEach(async () => {
  [redis, engine] = await Promise.all([startRedis(), startDataEngine()]);
  hole = await startBlackHole(redis.port);
});
afterEach(async () => {
  await gateway?.close();
  for (const one of [hole, engine, redis]) await one.close();
});

const through = () => `redis://127.0.0.1:${hole.port}`;

const settings = (at: Record<string, unknown>, cache: Record<string, unknown> = {}) => ({
  engine: { url: `${engine.url}/{project}` },
  cache: { lease: '100ms', redis: at, ...cache },
});

const purgesOf = ({ events }: TestGateway) =>
  events.flatMap((told) => (told.type === 'purged' ? [told] : []));
const warningsOf = ({ events }: TestGateway) =>
  events.flatMap((told) => (told.type === 'warning' ? [told.message] : []));

async function logOf({ url }: TestGateway) {
  const path = '/admin/purges?limit=1000';
  const { text } = await send(url, { path, headers: { authorization: basic('ADMIN') } });
  return JSON.parse(text) as { complete: boolean; purges: { result: string }[] };
}

const LOST = 'purges that Redis did not confirm are lost: project:a, unassigned';

describe('a purge that is owed when a configuration is loaded', () => {
  test('is done, and not told as lost', async () => {
    gateway = await startTestGateway(settings({ url: through() }));
    await hole.set('refuse');
    expect((await purge(gateway, 'a')).status).toBe(503);
    await gateway.reload(settings({ url: through() }, { ttl: '11h' }));
    await hole.set('forward');
    const { events } = gateway;
    await until(() => events.some((told) => told.type === 'purged' && told.result === 'cleared'));
    expect(warningsOf(gateway)).not.toContain(LOST);
  });

  test('and whose lease passes just then is told as done by the cache of before', async () => {
    const leases = heldLeases();
    gateway = await startTestGateway(settings({ url: through() }), { sleep: leases.sleep });
    await hole.set('refuse');
    expect((await purge(gateway, 'a')).status).toBe(503);
    await hole.set('forward');
    await until(() => leases.waiting() === 1);
    await gateway.reload(settings({ url: through() }, { ttl: '11h' }));
    leases.pass();
    const { events } = gateway;
    await until(() => events.some((told) => told.type === 'purged' && told.result === 'cleared'));
    // In the log that the gateways share, too.
    const loaded = gateway;
    const logged = await repeat(
      () => logOf(loaded),
      ({ complete }) => complete,
    );
    expect(logged.purges.map(({ result }) => result)).toEqual(['cleared']);
    const [owed, done, ...more] = purgesOf(gateway);
    expect([owed?.id, more]).toEqual([done?.id, []]);
    expect(warningsOf(gateway)).not.toContain(LOST);
  });
});
