import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { startDataEngine, type DataEngine } from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { send } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { sampled } from '../support/sizes.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: DataEngine;
const open: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  engine = await startDataEngine();
});
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
});
afterAll(() => engine?.close());

async function opened<T extends { close(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const one = await starting;
  open.push(one);
  return one;
}

function settings(redis: string, cache: Record<string, unknown> = {}) {
  return {
    engine: { url: `${engine.url}/{project}` },
    cache: { lease: '100ms', redis: { url: redis }, ...cache },
  };
}

const start = (redis = '', cache: Record<string, unknown> = {}) =>
  opened(startTestGateway(settings(redis, cache)));

async function purge({ url }: TestGateway, project = 'a') {
  const { status, text } = await send(url, {
    path: `/mdx/xmla/${project}/clearCache`,
    headers: { authorization: basic('ADMIN'), accept: 'application/json' },
  });
  return { status, receipt: JSON.parse(text) as { id: string; replicas: number } };
}

interface Told {
  readonly complete: boolean;
  readonly purges: readonly {
    readonly id: string;
    readonly at: string;
    readonly principal: string;
    readonly cause: string;
    readonly result: string;
  }[];
}

async function log({ url }: TestGateway): Promise<Told> {
  const path = '/admin/purges?limit=1000';
  const { text } = await send(url, { path, headers: { authorization: basic('ADMIN') } });
  return JSON.parse(text) as Told;
}

const resultsOf = ({ purges }: Told) => purges.map(({ result }) => result);

describe('gateways on one Redis', () => {
  test('count one another in receipts, and each tells the purges of all', async () => {
    const redis = await opened(startRedis());
    const [one, other] = [await start(redis.url), await start(redis.url)];
    // An acknowledgement may come too late for the shortest of leases.
    const both = ({ receipt }: { receipt: { replicas: number } }) => receipt.replicas === 2;
    const first = await until(() => purge(one), both);
    const second = await until(() => purge(other), both);
    for (const gateway of [one, other]) {
      const told = await until(
        () => log(gateway),
        ({ purges }) => purges.some(({ id }) => id === second.receipt.id),
      );
      expect(told.complete).toBe(true);
      expect(told.purges.map(({ id }) => id)).toContain(first.receipt.id);
      const times = told.purges.map(({ at }) => at);
      expect(times).toEqual([...times].sort().toReversed());
    }
  });
});

describe('a purge that Redis did not confirm', () => {
  async function owing() {
    const redis = await opened(startRedis());
    const hole = await opened(startBlackHole(redis.port));
    const url = `redis://127.0.0.1:${hole.port}`;
    const [cutOff, other] = [await start(url), await start(redis.url)];
    await hole.set('refuse');
    expect((await purge(cutOff)).status).toBe(503);
    return { cutOff, other, hole, url };
  }
  const done = (told: Told) => resultsOf(told).includes('cleared');

  async function doneAtLast() {
    const { cutOff, other, hole } = await owing();
    const meanwhile = await log(cutOff);
    expect([meanwhile.complete, resultsOf(meanwhile)]).toEqual([false, ['owed']]);
    const [owed] = meanwhile.purges;
    expect((await purge(other, 'b')).status).toBe(200);
    await hole.set('forward');
    const told = await until(
      () => log(other),
      (said) => resultsOf(said).length === 2,
    );
    expect(resultsOf(told)).toEqual(['cleared', 'cleared']);
    const [last] = told.purges;
    expect(last).toMatchObject({ id: owed?.id, principal: 'ADMIN', cause: 'clear-cache' });
    // All of its connections are there again.
    const own = await until(
      () => log(cutOff),
      ({ complete }) => complete,
    );
    expect(own).toEqual(told);
  }

  async function doneAfterReload() {
    const { cutOff, other, hole, url } = await owing();
    await cutOff.reload(settings(url, { ttl: '11h' }));
    await hole.set('forward');
    await until(() => log(other), done);
    const told = await until(
      () => log(cutOff),
      ({ complete }) => complete,
    );
    expect(resultsOf(told)).toEqual(['cleared']);
  }

  test.each(
    sampled([
      ['is in its own log as owed, and in that of all gateways when it was done', doneAtLast],
      ['is done and told once also when a configuration is loaded meanwhile', doneAfterReload],
    ] as const),
  )('%s', (_what, run) => run());
});

describe('a gateway that is alone', () => {
  test('keeps its log when a configuration is loaded that changes the cache', async () => {
    const gateway = await start();
    const { receipt } = await purge(gateway);
    await gateway.reload(settings('', { ttl: '11h' }));
    expect(await log(gateway)).toMatchObject({ complete: true, purges: [{ id: receipt.id }] });
  });

  test('repeats a purge after the pause, also when a configuration is loaded meanwhile', async () => {
    const gateway = await start('', { purge: { repeat_after: '1s' } });
    const { receipt } = await purge(gateway);
    await gateway.reload(settings('', { ttl: '11h' }));
    const told = await until(
      () => log(gateway),
      ({ purges }) => purges.length === 2,
    );
    expect(told.purges).toMatchObject([
      { cause: 'repeat', principal: 'ADMIN', result: 'cleared' },
      { cause: 'clear-cache', id: receipt.id },
    ]);
  });

  test('warns at its end of what it was to repeat', async () => {
    const gateway = await start('', { purge: { repeat_after: '1h' } });
    await purge(gateway, 'Sales');
    await gateway.gateway.close(2_000);
    expect(gateway.events).toContainEqual({
      type: 'warning',
      message: 'purges that were to be repeated are not: Sales',
    });
  });
});
