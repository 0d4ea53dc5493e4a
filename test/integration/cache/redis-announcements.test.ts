import { afterEach, afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, until, type House } from './redis-house.ts';

let redis: RedisServer;
const houses: House[] = [];

async function replica(
  ...args: Parameters<typeof house> extends [unknown, ...infer R] ? R : never
) {
  const made = await house(redis.url, ...args);
  houses.push(made);
  return made;
}

beforeAll(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  for (const one of houses.splice(0)) await one.close();
  await askRedis(redis.port, 'FLUSHALL');
});
afterAll(() => redis?.close());

const SCOPES: readonly CacheScope[] = ['project:a', 'unassigned'];

const subscribers = (count: number) =>
  until(
    () => askRedis(redis.port, 'PUBSUB NUMSUB {test}:2:forget'),
    (reply) => reply.endsWith(`:${count}\r\n`),
  );

/** Replicas that listen, each with what it heard. */
async function listening(count: number) {
  const all = await Promise.all(Array.from({ length: count }, () => replica()));
  const heard = all.map(({ store }) => {
    const scopes: (readonly CacheScope[])[] = [];
    const forgotten = new Map<string, Set<string>>();
    store.listen({
      renewed: (told) => void scopes.push(told),
      forgotten(purge, gateway) {
        forgotten.set(purge, (forgotten.get(purge) ?? new Set()).add(gateway));
      },
    });
    return { scopes, forgotten };
  });
  await subscribers(count);
  return all.map(({ store, connections }, i) => ({
    store,
    connections,
    heard: heard[i]?.scopes ?? [],
    forgotten: (purge: string) => heard[i]?.forgotten.get(purge)?.size ?? 0,
  }));
}

describe('an announcement in Redis', () => {
  test('reaches every replica, also the one that made it', async () => {
    const all = await listening(3);
    await all[0]?.store.announce({ purge: 'id', scopes: SCOPES });
    for (const { heard } of all) {
      await until(
        () => heard.length,
        (length) => length > 0,
      );
      expect(heard).toEqual([SCOPES]);
    }
  });

  test('is heard again after the connection broke, and what is no announcement is not heard', async () => {
    const [one] = await listening(1);
    if (one === undefined) throw new Error('nobody listens');
    const { connections, store, heard } = one;
    await askRedis(redis.port, 'CLIENT KILL TYPE pubsub');
    await until(connections.ready, (ready) => !ready);
    await until(connections.ready, Boolean);
    await subscribers(1);
    const others = ['nonsense', '{}', '[1]', 'null', '{"scopes":["project:a"]}'];
    const from = '"purge":"p","gateway":"g"';
    others.push(`{${from},"scopes":[1]}`, `{${from},"scopes":"project:a"}`, `{${from}}`);
    others.push('{"purge":"a b","gateway":"g","scopes":[]}');
    for (const text of others) {
      await connections.writer.publish('{test}:2:forget', text);
    }
    await store.announce({ purge: 'id', scopes: ['everything'] });
    await until(
      () => heard.length,
      (count) => count > 0,
    );
    expect(heard).toEqual([['everything']]);
  });
});

describe('the acknowledgements of a purge', () => {
  type Gateway = Awaited<ReturnType<typeof listening>>[number];
  const counted = (one: Gateway | undefined, purge: string, count: number) =>
    until(
      () => one?.forgotten(purge),
      (acknowledged) => acknowledged === count,
    );

  test('come from every other gateway that handled its announcement, to the one that made it', async () => {
    const [one, other] = await listening(3);
    await one?.store.announce({ purge: 'first', scopes: SCOPES });
    await counted(one, 'first', 2);
    await other?.store.announce({ purge: 'second', scopes: SCOPES });
    await counted(other, 'second', 2);
    expect([one?.forgotten('second'), other?.forgotten('first')]).toEqual([0, 0]);
  });

  test('are told after the gateway has forgotten', async () => {
    const [one] = await listening(1);
    const other = await replica();
    const order: string[] = [];
    other.store.listen({
      renewed: () => order.push(`told ${one?.forgotten('id')}`),
      forgotten() {},
    });
    await subscribers(2);
    await one?.store.announce({ purge: 'id', scopes: SCOPES });
    await counted(one, 'id', 1);
    expect(order).toEqual(['told 0']);
  });

  test('leave out who is not there, and what is no acknowledgement', async () => {
    const [one, other] = await listening(3);
    await other?.connections.close();
    const channels = await askRedis(redis.port, 'PUBSUB CHANNELS {test}:2:forgotten:*');
    const texts = ['nonsense', '{}', '[]', '{"purge":"id"}', '{"purge":"id","gateway":""}'];
    texts.push('{"purge":"id","gateway":1}', '{"purge":"another","gateway":"x"}');
    await one?.store.announce({ purge: 'id', scopes: SCOPES });
    for (const channel of channels.match(/\{test\}:2:forgotten:\S+/g) ?? []) {
      for (const text of texts) await one?.connections.writer.publish(channel, text);
    }
    await one?.store.announce({ purge: 'last', scopes: SCOPES });
    await counted(one, 'last', 1);
    expect(one?.forgotten('id')).toBe(1);
  });
});
