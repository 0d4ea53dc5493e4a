import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { purge, startDataEngine, type DataEngine } from '../integration/cache/gateways.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { heldLeases } from '../support/held-leases.ts';

let redis: RedisServer;
let engine: DataEngine;

beforeEach(async () => {
  [redis, engine] = await Promise.all([startRedis(), startDataEngine()]);
});
afterEach(async () => {
  await engine.close();
  await redis.close();
});

async function start(url: string) {
  const leases = heldLeases();
  const settings = {
    engine: { url: `${engine.url}/{project}` },
    cache: { lease: '100ms', redis: { url } },
  };
  return { leases, gateway: await startTestGateway(settings, { sleep: leases.sleep }) };
}

/** In the time in which gateways begin and end that have nothing to wait for, a shutdown is where it waits. */
async function othersEnd(): Promise<void> {
  for (let others = 0; others < 3; others += 1) await (await start(redis.url)).gateway.close();
}

describe('a shutdown', () => {
  test('waits for a purge whose lease passes, which is answered', async () => {
    const { leases, gateway } = await start(redis.url);
    const purging = purge(gateway, 'a');
    await until(() => leases.waiting() === 1);
    const order: string[] = [];
    const closed = gateway.gateway.close(60_000).then(() => order.push('closed'));
    await othersEnd();
    const answered = purging.then(({ status, text }) => order.push(`${status} ${text.trim()}`));
    expect(order).toEqual([]);
    leases.pass();
    await Promise.all([answered, closed]);
    expect(order).toEqual(['200 a Cache has been cleared.', 'closed']);
  });

  test('waits for a purge that was owed, and whose lease passes, which is told', async () => {
    const hole = await startBlackHole(redis.port);
    const { leases, gateway } = await start(`redis://127.0.0.1:${hole.port}`);
    await hole.set('refuse');
    expect((await purge(gateway, 'a')).status).toBe(503);
    await hole.set('forward');
    await until(() => leases.waiting() === 1);
    const closed = gateway.gateway.close(60_000);
    await othersEnd();
    leases.pass();
    await closed;
    const results = gateway.events.flatMap((told) => (told.type === 'purged' ? [told.result] : []));
    expect(results).toEqual(['owed', 'cleared']);
    await hole.close();
  });
});
