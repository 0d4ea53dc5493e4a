import { randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import type { RedisTarget } from '../../../src/redis/redis-connections.ts';
import { house, until, type House } from '../cache/redis-house.ts';
import { opened } from '../../support/opened.ts';

/** No master is replaced, or refuses writes, because this machine stands still for a while. */
export const STEADY = { downAfter: 60_000, args: ['--min-replicas-max-lag', '60'] };
export const STEADY_CLUSTER = { nodeTimeout: 60_000 };

/** A value, an epoch and an announcement go through, the last one to another gateway. */
export async function serves(target: RedisTarget): Promise<void> {
  const here = await opened(house(target));
  const there = await opened(house(target));
  const heard: unknown[] = [];
  there.store.listen({ renewed: (scopes) => void heard.push(scopes), forgotten() {} });

  const keys = Array.from({ length: 12 }, () => randomUUID());
  for (const key of keys) {
    await here.tier.set(key, Buffer.from(`value of ${key}`), 60_000);
    expect(String(await there.tier.get(key))).toBe(`value of ${key}`);
  }

  const before = await here.store.read(['everything', 'project:a']);
  expect(await there.store.read(['everything', 'project:a'])).toEqual(before);
  await here.store.renew(['project:a']);
  const after = await there.store.read(['everything', 'project:a']);
  expect(after.tokens[0]).toBe(before.tokens[0]);
  expect(after.tokens[1]).not.toBe(before.tokens[1]);

  await until(
    async () => {
      await here.store.announce({ purge: randomUUID(), scopes: ['project:a'] }).catch(() => {});
      return heard;
    },
    ({ length }) => length > 0,
  );
  expect(heard[0]).toEqual(['project:a']);
}

/** Connects in vain and resolves with what was told. */
export async function refused(target: RedisTarget): Promise<readonly string[]> {
  const one: House = await opened(house(target, { patience: 0 }));
  await until(
    () => one.errors,
    ({ length }) => length > 1,
  );
  expect(one.connections.ready()).toBe(false);
  await expect(one.hasty.store.read(['everything'])).rejects.toThrow(/./u);
  return one.errors.map((error) => (error as Error).message);
}
