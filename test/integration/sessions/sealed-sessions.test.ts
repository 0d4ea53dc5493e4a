import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { createHash } from 'node:crypto';
import { createSealer, NO_SEALER } from '../../../src/common/sealing.ts';
import '../../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { sessionRecord } from '../../support/session-calls.ts';
import { sessionStoreContract } from '../../support/session-store-contract.ts';
import { sessionHouse, type SessionHouse } from './session-house.ts';

const SECRET = 'a secret of more than thirty-two letters';
const sealer = createSealer(SECRET);
const STRANGERS = [
  ['no key', NO_SEALER],
  ['another key', createSealer(`another ${SECRET}`)],
] as const;

let redis: RedisServer;
let client: Redis;
const houses: SessionHouse[] = [];

async function replica(options: Parameters<typeof sessionHouse>[1] = {}): Promise<SessionHouse> {
  const made = await sessionHouse(redis.url, { sealer, ...options });
  houses.push(made);
  return made;
}

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
});
afterAll(async () => {
  client?.disconnect();
  await redis?.close();
});

const RECORD = sessionRecord({ principal: 'alice', catalog: 'Payroll' });
const keyOf = (name: string) =>
  `{test}:2:session:${createHash('sha256').update(name).digest('base64url')}`;

describe('the store in Redis with an encryption key', () => {
  sessionStoreContract(() => sessionHouse(redis.url, { namespace: 'contract', sealer }));
});

describe('sealed sessions', () => {
  afterEach(async () => {
    for (const one of houses.splice(0)) await one.close();
    await client.flushall();
  });

  test('are known to all who have the key, and show nothing', async () => {
    const [one, other] = [await replica(), await replica()];
    await one.store.begin('name', RECORD);
    expect((await other.store.read('name')).record).toEqual(RECORD);
    const shown = JSON.stringify(await client.hgetall(keyOf('name')));
    for (const secret of ['alice', 'Payroll', 'http://engine', RECORD.spelling, RECORD.profile]) {
      expect(shown).not.toContain(secret);
    }
  });

  test.each(STRANGERS)('are not known to who has %s, which is no failure', async (_what, by) => {
    const [one, stranger] = [await replica(), await replica({ sealer: by })];
    await one.store.begin('name', RECORD);
    expect((await stranger.store.read('name')).record).toBeUndefined();
    // Nor theirs to others.
    await stranger.store.begin('theirs', RECORD);
    expect((await one.store.read('theirs')).record).toBeUndefined();
  });

  test.each(STRANGERS)(
    'are made dirty also by who has %s and cannot read them',
    async (_what, by) => {
      const [one, stranger] = [await replica(), await replica({ sealer: by })];
      await one.store.begin('name', RECORD);
      await one.store.read('name');
      const { record, lease } = await stranger.store.markDirty('name', 'next');
      expect(record).toBeUndefined();
      // It waits for those who may hold it as clean.
      expect(lease).toBe(1_000);
      expect((await one.store.read('name')).record).toMatchObject({ dirty: true });
    },
  );

  test('agree on a catalog that is the same: equal texts are equal when they are sealed', async () => {
    const [one, other] = [await replica(), await replica()];
    await one.store.begin('name', RECORD);
    const next = (version: string) => ({ catalog: 'HR', profile: 'other', version });
    await one.store.setCatalog('name', RECORD.version, next('first'));
    // The version that it expects is gone, but the catalog is there already: nobody is in anybody's way.
    const { record } = await other.store.setCatalog('name', RECORD.version, next('second'));
    expect(record).toMatchObject({ catalog: 'HR', dirty: false, version: 'first' });
    const elsewhere = { ...next('third'), catalog: 'Sales' };
    const third = await other.store.setCatalog('name', RECORD.version, elsewhere);
    expect(third.record).toMatchObject({ dirty: true });
  });

  test('cannot be given what was noted of another session', async () => {
    const one = await replica();
    await one.store.begin('of alice', RECORD);
    await one.store.begin('of bob', { ...RECORD, principal: 'bob' });
    const noted = await client.hget(keyOf('of alice'), 'data');
    const own = await client.hget(keyOf('of bob'), 'data');
    expect(noted).not.toBe(own);
    await client.hset(keyOf('of bob'), 'data', noted ?? '');
    expect((await one.store.read('of bob')).record).toBeUndefined();
    await client.hset(keyOf('of bob'), 'data', own ?? '');
    expect((await one.store.read('of bob')).record).toMatchObject({ principal: 'bob' });
  });
});
