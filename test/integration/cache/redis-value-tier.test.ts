import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { house, until, type House } from './redis-house.ts';

let redis: RedisServer;
let one: House;
let other: House;

beforeAll(async () => {
  redis = await startRedis();
  [one, other] = await Promise.all([house(redis.url), house(redis.url)]);
});
beforeEach(() => askRedis(redis.port, 'FLUSHALL'));
afterAll(async () => {
  await one?.close();
  await other?.close();
  await redis?.close();
});

/** A value whose fill began at that moment. */
function value(began: bigint, text = 'text'): Buffer {
  const head = Buffer.alloc(16, 0xff);
  head.writeBigUInt64BE(began, 8);
  return Buffer.concat([head, Buffer.from(text)]);
}

describe('the tier in Redis', () => {
  test('gives the bytes that it was given, to every replica', async () => {
    const bytes = Buffer.concat([value(1n), randomBytes(100_000)]);
    expect(await other.tier.get('key')).toEqual(Buffer.of());
    await one.tier.set('key', bytes, 60_000);
    expect(await other.tier.get('key')).toEqual(bytes);
    expect(await other.tier.get('other key')).toEqual(Buffer.of());
  });

  test('keeps the value whose fill began later, in whatever order they come', async () => {
    // Pairs in which bytes above 0x7f, zero bytes and carries decide.
    const moments = [
      0x00n,
      0x7fn,
      0x80n,
      0xffn,
      0x100n,
      0x8000n,
      0x18b_cfe5_6800n,
      0x18c_0000_0000n,
    ];
    for (const [i, earlier] of moments.entries()) {
      for (const later of moments.slice(i + 1)) {
        const key = `${earlier} ${later}`;
        await one.tier.set(key, value(later, 'later'), 60_000);
        await other.tier.set(key, value(earlier, 'earlier'), 60_000);
        expect(await one.tier.get(key)).toEqual(value(later, 'later'));
        await other.tier.set(`${key} again`, value(earlier, 'earlier'), 60_000);
        await one.tier.set(`${key} again`, value(later, 'later'), 60_000);
        expect(await one.tier.get(`${key} again`)).toEqual(value(later, 'later'));
      }
    }
  });

  test('takes the newer of two that began at the same moment', async () => {
    await one.tier.set('key', value(5n, 'first'), 60_000);
    await other.tier.set('key', value(5n, 'second'), 60_000);
    expect(await one.tier.get('key')).toEqual(value(5n, 'second'));
  });

  test('replaces a value whose fill began later where it is told to, and only then', async () => {
    await one.tier.set('key', value(9n, 'ahead'), 60_000);
    await other.tier.set('key', value(5n, 'usual'), 60_000);
    expect(await one.tier.get('key')).toEqual(value(9n, 'ahead'));
    await other.tier.set('key', value(5n, 'fresh'), 60_000, true);
    expect(await one.tier.get('key')).toEqual(value(5n, 'fresh'));
    const ttl = Number((await askRedis(redis.port, 'PTTL test:entry:key')).slice(1));
    expect(ttl).toBeGreaterThan(0);
  });

  test('replaces what is no value of a gateway', async () => {
    await askRedis(redis.port, 'SET test:entry:key short');
    await one.tier.set('key', value(5n), 60_000);
    expect(await one.tier.get('key')).toEqual(value(5n));
  });

  test('drops a value when its time is over, and does not take one whose time is over', async () => {
    await one.tier.set('over', value(1n), 0);
    await one.tier.set('long over', value(1n), -5);
    expect(await askRedis(redis.port, 'DBSIZE')).toBe(':0\r\n');
    await one.tier.set('short', value(1n), 0.5);
    await until(
      () => one.tier.get('short'),
      (found) => found.length === 0,
    );
    await one.tier.set('long', value(1n), 60_000.5);
    const ttl = Number((await askRedis(redis.port, 'PTTL test:entry:long')).slice(1));
    expect(ttl).toBeGreaterThan(0);
    expect(ttl).toBeLessThanOrEqual(60_001);
  });

  test('fails where the key holds something else, so that it is a miss', async () => {
    await askRedis(redis.port, 'LPUSH test:entry:key foreign');
    await expect(one.tier.get('key')).rejects.toThrow('WRONGTYPE');
    await expect(one.tier.set('key', value(1n), 60_000)).rejects.toThrow('WRONGTYPE');
  });

  test('fails within its deadline when Redis does not answer, and works when it does again', async () => {
    await one.tier.set('key', value(1n), 60_000);
    await redis.pause();
    try {
      await expect(one.hasty.tier.get('key')).rejects.toThrow('timed out');
      await expect(one.hasty.tier.set('key', value(2n), 60_000)).rejects.toThrow('timed out');
      await expect(one.hasty.store.read(['everything'])).rejects.toThrow('timed out');
      await expect(one.hasty.store.renew(['everything'])).rejects.toThrow('timed out');
    } finally {
      redis.resume();
    }
    await until(
      () => one.tier.get('key').catch(() => undefined),
      (found) => found !== undefined,
    );
  });

  test('fails at once while there is no connection', async () => {
    const lonely = await house('redis://127.0.0.1:1', { patience: 1 });
    try {
      await expect(lonely.tier.get('key')).rejects.toThrow('writeable');
      await expect(lonely.store.renew(['everything'])).rejects.toThrow('writeable');
      expect(lonely.connections.ready()).toBe(false);
    } finally {
      await lonely.close();
    }
  });
});
