import { randomUUID } from 'node:crypto';
import { describe, expect, jest, test } from '@jest/globals';
import type { CacheScope } from '../../src/freshness/freshness-store.ts';
import type { RedisTarget } from '../../src/redis/redis-connections.ts';
import { onConnection } from '../support/redis-client.ts';
import { startRedisCluster, type RedisCluster } from '../support/redis-cluster.ts';
import { startRedisSentinels, type RedisSentinels } from '../support/redis-sentinels.ts';
import { askRedis, type RedisServer } from '../support/redis-server.ts';
import { house, until, type House } from '../integration/cache/redis-house.ts';
import { allRefused, ending } from '../integration/redis/endings.ts';
import { opened } from '../support/opened.ts';

jest.setTimeout(120_000);

const NAMESPACE = '{test}';

const value = Buffer.alloc(16, 'v');

/** Every operation, each tried until it goes through; each of the tries ends. */
async function goesThrough({ hasty: { store, tier } }: House): Promise<void> {
  const key = randomUUID();
  for (const work of [
    () => store.read(['everything', 'project:a']),
    () => store.renew(['project:a']),
    () => store.announce({ purge: randomUUID(), scopes: ['project:a'] }),
    () => tier.set(key, value, 60_000),
    () => tier.get(key),
  ]) {
    await until(
      () => ending(work),
      (how) => how === 'done',
    );
  }
}

const heard = new WeakMap<House, Set<CacheScope>>();

/** What it has heard since it was asked first: listening anew would wake a connection that sleeps. */
function heardBy(gateway: House): Set<CacheScope> {
  const known = heard.get(gateway);
  if (known !== undefined) return known;
  const scopes = new Set<CacheScope>();
  heard.set(gateway, scopes);
  gateway.store.listen({
    renewed: (announced) => announced.forEach((scope) => scopes.add(scope)),
    forgotten() {},
  });
  return scopes;
}

/** Resolves when each hears what the other announces. */
async function hearEachOther(one: House, other: House): Promise<void> {
  for (const [speaker, listener] of [
    [one, other],
    [other, one],
  ] as const) {
    const scope = `project:${randomUUID()}` as const;
    await until(
      async () => {
        await speaker.store.announce({ purge: randomUUID(), scopes: [scope] }).catch(() => {});
        return heardBy(listener);
      },
      (scopes) => scopes.has(scope),
    );
  }
}

async function epochOfEverything({ store }: House): Promise<string | undefined> {
  const reading = await until(
    () => store.read(['everything']).catch(() => undefined),
    (read) => read !== undefined,
  );
  return reading?.tokens[0];
}

/** What both find. A slow machine may have its master replaced between the one and the other. */
async function commonEpoch(one: House, other: House): Promise<string | undefined> {
  const [epoch] = await until(
    async () => [await epochOfEverything(one), await epochOfEverything(other)],
    ([here, there]) => here === there,
  );
  return epoch;
}

describe('with sentinels', () => {
  const target = ({ urls, master }: RedisSentinels): RedisTarget => ({
    url: urls,
    mode: 'sentinel',
    master,
  });

  async function begin(): Promise<{ redis: RedisSentinels; one: House; other: House }> {
    const redis = await opened(startRedisSentinels());
    const [one, other] = await Promise.all([
      opened(house(target(redis))),
      opened(house(target(redis))),
    ]);
    await goesThrough(one);
    await hearEachOther(one, other);
    return { redis, one, other };
  }

  test('a master that is killed is replaced, and no epoch of before counts any more', async () => {
    const { redis, one, other } = await begin();
    const epoch = await epochOfEverything(one);
    const old = await redis.masterNow();
    await old.stop('SIGKILL');
    const master = await redis.failedOver(old);
    for (const gateway of [one, other]) await goesThrough(gateway);
    expect(await askRedis(master.port, 'EXISTS {test}:2:incarnation')).toBe(':1\r\n');
    expect(await commonEpoch(one, other)).not.toBe(epoch);
    await hearEachOther(one, other);
  });

  test('a master that is silent is replaced, and no command waits for it', async () => {
    const { redis, one, other } = await begin();
    const old = await redis.masterNow();
    await old.pause();
    const { store, tier } = one.hasty;
    await allRefused(
      () => redis.masterNow().then((now) => now === old),
      [
        () => store.read(['everything']),
        () => store.renew(['everything']),
        () => tier.get('key'),
        () => tier.set('key', value, 60_000),
      ],
    );
    await redis.failedOver(old);
    for (const gateway of [one, other]) await goesThrough(gateway);
    await hearEachOther(one, other);
    old.resume();
    await redis.settled();
    for (const gateway of [one, other]) await goesThrough(gateway);
    await hearEachOther(one, other);
  });

  test('a master that becomes a replica while it answers is left', async () => {
    const { redis, one, other } = await begin();
    const old = await redis.masterNow();
    const sentinel = Number(new URL(redis.urls[0] as string).port);
    await until(
      () => askRedis(sentinel, `SENTINEL FAILOVER ${redis.master}`),
      (answer) => answer.startsWith('+OK'),
    );
    const master = await redis.failedOver(old);
    await redis.settled();
    for (const gateway of [one, other]) {
      await goesThrough(gateway);
      await until(
        () => askRedis(master.port, 'CLIENT LIST'),
        (list) => list.includes('mdx-gateway-reader'),
      );
    }
    await hearEachOther(one, other);
  });
});

describe('with a cluster', () => {
  async function begin(): Promise<{
    redis: RedisCluster;
    one: House;
    other: House;
    master: RedisServer;
    elsewhere: string;
  }> {
    const redis = await opened(startRedisCluster());
    const target: RedisTarget = { url: redis.urls, mode: 'cluster' };
    const [one, other] = await Promise.all([opened(house(target)), opened(house(target))]);
    await goesThrough(one);
    await hearEachOther(one, other);
    const master = await redis.masterOf(NAMESPACE);
    let elsewhere = randomUUID();
    while ((await redis.masterOf(`test:entry:${elsewhere}`)) === master) elsewhere = randomUUID();
    await one.tier.set(elsewhere, value, 600_000);
    return { redis, one, other, master, elsewhere };
  }

  test('a master that is killed is replaced, and no epoch of before counts any more', async () => {
    const { redis, one, other, master, elsewhere } = await begin();
    const epoch = await epochOfEverything(one);
    await master.stop('SIGKILL');
    // The others serve what they have.
    await until(
      () => one.tier.get(elsewhere).catch(() => undefined),
      (found) => value.equals(found ?? Buffer.alloc(0)),
    );
    await redis.failedOver(NAMESPACE, master);
    for (const gateway of [one, other]) await goesThrough(gateway);
    expect(await commonEpoch(one, other)).not.toBe(epoch);
    await hearEachOther(one, other);
  });

  test('a master that is silent is replaced, no command waits for it, and the others go on', async () => {
    const { redis, one, other, master, elsewhere } = await begin();
    await master.pause();
    const { store } = one.hasty;
    await allRefused(
      () => redis.masterOf(NAMESPACE).then((now) => now === master),
      [() => store.read(['everything']), () => store.renew(['everything'])],
    );
    expect(await one.tier.get(elsewhere)).toEqual(value);
    await redis.failedOver(NAMESPACE, master);
    for (const gateway of [one, other]) await goesThrough(gateway);
    await hearEachOther(one, other);
    master.resume();
    await redis.settled();
    for (const gateway of [one, other]) await goesThrough(gateway);
    await hearEachOther(one, other);
  });

  test('messages are heard again when the node that handed them on is gone', async () => {
    const { redis, one, other } = await begin();
    for (let round = 0; round < 2; round += 1) {
      const port = one.connections.subscriber.options.port;
      const node = redis.nodes.find((candidate) => candidate.port === port) as RedisServer;
      await node.stop('SIGKILL');
      await until(
        () => one.connections.subscriber.options.port,
        (now) => now !== port,
      );
      await hearEachOther(one, other);
      await node.restart();
      await redis.settled();
    }
  });

  test('messages are heard again when the node that handed them on is silent', async () => {
    const { redis, one, other } = await begin();
    const port = one.connections.subscriber.options.port;
    const node = redis.nodes.find((candidate) => candidate.port === port) as RedisServer;
    await node.pause();
    await hearEachOther(one, other);
    expect(one.connections.subscriber.options.port).not.toBe(port);
  });

  test('slots may move to another master, and no epoch of before counts any more', async () => {
    const { redis, one, other, master } = await begin();
    const epoch = await epochOfEverything(one);
    const slot = await onConnection(master.port, {}, (node) => node.cluster('KEYSLOT', NAMESPACE));
    const next = await redis.masterOf(`test:entry:${(await begunElsewhere(redis, master)).key}`);
    await moveSlot(slot, master, next);
    for (const gateway of [one, other]) await goesThrough(gateway);
    expect(await commonEpoch(one, other)).not.toBe(epoch);
  });
});

async function begunElsewhere(redis: RedisCluster, master: RedisServer): Promise<{ key: string }> {
  for (;;) {
    const key = randomUUID();
    if ((await redis.masterOf(`test:entry:${key}`)) !== master) return { key };
  }
}

/** As redis-cli does it, with its keys. */
async function moveSlot(slot: number, from: RedisServer, to: RedisServer): Promise<void> {
  const idOf = (server: RedisServer) =>
    onConnection(server.port, {}, async (node) => String(await node.cluster('MYID')));
  const [source, target] = await Promise.all([idOf(from), idOf(to)]);
  await onConnection(to.port, {}, (node) =>
    node.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source),
  );
  await onConnection(from.port, {}, async (node) => {
    await node.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target);
    for (;;) {
      const keys = (await node.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[];
      if (keys.length === 0) break;
      await node.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5_000, 'REPLACE', 'KEYS', ...keys);
    }
  });
  for (const server of [to, from]) {
    await onConnection(server.port, {}, (node) =>
      node.call('CLUSTER', 'SETSLOT', slot, 'NODE', target),
    );
  }
}
