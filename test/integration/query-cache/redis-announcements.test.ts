import { afterEach, afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Scope } from '../../../src/query-cache/purge/scopes.ts';
import '../../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { readScopesAsOlder } from './older-gateway.ts';
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

const SCOPES: readonly Scope[] = ['project:a', 'unassigned'];

const subscribers = (count: number) =>
  until(
    () => askRedis(redis.port, 'PUBSUB NUMSUB {test}:forget'),
    (reply) => reply.endsWith(`:${count}\r\n`),
  );

/** Replicas that listen, each with what it heard. */
async function listening(count: number) {
  const all = await Promise.all(Array.from({ length: count }, () => replica()));
  const heard = all.map(({ store }) => {
    const scopes: (readonly Scope[])[] = [];
    store.onAnnouncement((told) => void scopes.push(told));
    return scopes;
  });
  await subscribers(count);
  return all.map(({ store, connections }, i) => ({ store, connections, heard: heard[i] ?? [] }));
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

  test('of an older gateway is heard, which hears those of newer ones as nothing', async () => {
    const [one] = await listening(1);
    await one?.connections.writer.publish('{test}:forget', '["project:b"]');
    await until(
      () => one?.heard.length,
      (length) => length === 1,
    );
    expect(one?.heard).toEqual([['project:b']]);
    const message = new Promise<string>((resolve) =>
      one?.connections.subscriber.once('message', (_channel, text: string) => resolve(text)),
    );
    await one?.store.announce({ purge: 'id', scopes: SCOPES });
    expect(readScopesAsOlder(await message)).toBeUndefined();
    expect(readScopesAsOlder('["project:b"]')).toEqual(['project:b']);
  });

  test('is heard again after the connection broke, and what is no announcement is not heard', async () => {
    const [one] = await listening(1);
    if (one === undefined) throw new Error('nobody listens');
    const { connections, store, heard } = one;
    await askRedis(redis.port, 'CLIENT KILL TYPE pubsub');
    await until(connections.ready, (ready) => !ready);
    await until(connections.ready, Boolean);
    await subscribers(1);
    const others = ['nonsense', '{}', '[1]', 'null', '{"scopes":[1]}', '{"scopes":"project:a"}'];
    for (const text of others) {
      await connections.writer.publish('{test}:forget', text);
    }
    await store.announce({ purge: 'id', scopes: ['everything'] });
    await until(
      () => heard.length,
      (count) => count > 0,
    );
    expect(heard).toEqual([['everything']]);
  });

  test('is not heard by a store that was closed', async () => {
    const [one, other] = await listening(2);
    await one?.store.close();
    const arrived = new Promise((resolve) => one?.connections.subscriber.once('message', resolve));
    await other?.store.announce({ purge: 'id', scopes: ['everything'] });
    await arrived;
    await until(
      () => other?.heard.length,
      (count) => count === 1,
    );
    expect(one?.heard).toEqual([]);
  });
});

describe('the acknowledgements of a purge', () => {
  const counted = (store: House['store'] | undefined, purge: string, count: number) =>
    until(
      () => store?.acknowledged(purge),
      (acknowledged) => acknowledged === count,
    );

  test('count every replica that handled its announcement, once each, and this one', async () => {
    const [one, other] = await listening(3);
    expect(one?.store.acknowledged('first')).toBe(1);
    await one?.store.announce({ purge: 'first', scopes: SCOPES });
    await counted(one?.store, 'first', 3);
    await other?.store.announce({ purge: 'second', scopes: SCOPES });
    await counted(other?.store, 'second', 3);
    // A purge whose renewal is settled later is told of again.
    await one?.store.announce({ purge: 'first', scopes: SCOPES });
    await counted(one?.store, 'first', 3);
    // Those of another purge, or of another replica's, count for nothing.
    expect(one?.store.acknowledged('second')).toBe(1);
    expect(other?.store.acknowledged('first')).toBe(1);
  });

  test('are told after the replica has forgotten', async () => {
    const [one] = await listening(1);
    const other = await replica();
    const order: string[] = [];
    other.store.onAnnouncement(() => order.push(`told ${one?.store.acknowledged('id')}`));
    await subscribers(2);
    await one?.store.announce({ purge: 'id', scopes: SCOPES });
    await counted(one?.store, 'id', 2);
    expect(order).toEqual(['told 1']);
  });

  test('leave out who is not there, and what is no acknowledgement', async () => {
    const [one, other] = await listening(3);
    await other?.store.close();
    const channels = await askRedis(redis.port, 'PUBSUB CHANNELS {test}:forgotten:*');
    const texts = ['nonsense', '{}', '[]', '{"purge":"id"}', '{"purge":"id","replica":""}'];
    texts.push('{"purge":"id","replica":1}', '{"purge":"another","replica":"x"}');
    await one?.store.announce({ purge: 'id', scopes: SCOPES });
    for (const channel of channels.match(/\{test\}:forgotten:\S+/g) ?? []) {
      for (const text of texts) await one?.connections.writer.publish(channel, text);
    }
    await one?.store.announce({ purge: 'last', scopes: SCOPES });
    await counted(one?.store, 'last', 2);
    expect(one?.store.acknowledged('id')).toBe(2);
  });
});
