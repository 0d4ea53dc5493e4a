import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { systemClock } from '../../../src/common/clock.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createFillOrder } from '../../../src/cache/flights.ts';
import { createSharedEntries } from '../../../src/cache/shared-entries.ts';
import { createSealer, NO_SEALER } from '../../../src/common/sealing.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { bodyAccount, storedAnswer } from '../../unit/cache/fakes.ts';
import { BEGAN, KEY, PACKED, PLAIN } from '../../unit/cache/shared-entries/older-entries.ts';
import { house, type House } from './redis-house.ts';

/** As gateways of layout version 2 run it. */
const OLDER_SET_IN_ORDER = `
local function began(head)
  local moment = 0
  for i = 9, 16 do moment = moment * 256 + string.byte(head, i) end
  return moment
end
if ARGV[3] ~= 'replace' then
  local present = redis.call('GETRANGE', KEYS[1], 0, 15)
  if #present == 16 and began(present) > began(ARGV[1]) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`;

let redis: RedisServer;
let client: Redis;
let one: House;

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  one = await house(redis.url);
});
beforeEach(() => client.flushall());
afterAll(async () => {
  client?.disconnect();
  await one?.close();
  await redis?.close();
});

const NAME = `test:entry:${KEY}`;
/** 1: it was written, 0: what is there began later. */
const olderSet = (value: Buffer) =>
  client.eval(OLDER_SET_IN_ORDER, 1, NAME, value, 600_000, 'in-order');

function entriesOf(sealer = NO_SEALER) {
  const events: GatewayEvent[] = [];
  const entries = createSharedEntries(one.tier, sealer, {
    clock: { ...systemClock, wall: () => BEGAN + 10_000 },
    maxEntry: () => 8 * 1024 * 1024,
    emit: (event) => events.push(event),
    account: bodyAccount(),
  });
  const order = createFillOrder();
  return {
    events,
    find: () => entries.find(KEY),
    keep: (requestedAt: number, length: number) =>
      entries.keep(KEY, {
        fill: order.enter(KEY),
        answer: storedAnswer({ requestedAt, body: randomBytes(length) }),
        tokens: ['a'],
        replace: false,
      }),
  };
}

const SEALER = createSealer('a secret of more than thirty-two letters');
const KINDS = [
  ['short', 100, NO_SEALER],
  ['sealed', 100, SEALER],
  ['long', 1_000_000, NO_SEALER],
  ['sealed and long', 1_000_000, SEALER],
] as const;

describe('old and new gateways at one Redis', () => {
  test.each([
    ['as it is', PLAIN],
    ['compressed', PACKED],
  ])('take the entries of each other for misses: an older one %s', async (_what, base64) => {
    const old = Buffer.from(base64, 'base64');
    await olderSet(old);
    for (const sealer of [NO_SEALER, SEALER]) {
      const here = entriesOf(sealer);
      expect(await here.find()).toBeUndefined();
      expect(here.events).toEqual([{ type: 'entry-rejected', why: 'another version' }]);
    }
    expect(await client.getBuffer(NAME)).toEqual(old);
  });

  test.each(KINDS)(
    'take the entries of each other for misses: a new one %s',
    async (_what, length, sealer) => {
      await entriesOf(sealer).keep(BEGAN, length);
      const value = (await client.getBuffer(NAME)) ?? Buffer.of();
      // What the older codec asks first: magic 'MDXG', then version 2.
      const isOlders = value.toString('latin1', 0, 4) === 'MDXG' && value.readUInt8(4) === 2;
      expect(isOlders).toBe(false);
    },
  );

  test.each(KINDS)(
    'overwrite each other only in the order of moments: %s',
    async (_what, length, sealer) => {
      const old = Buffer.from(PLAIN, 'base64');
      await olderSet(old);
      const here = entriesOf(sealer);
      // What began earlier does not take the place of the older gateway's.
      await here.keep(BEGAN - 1, length);
      expect(await client.getBuffer(NAME)).toEqual(old);
      // What began later does.
      await here.keep(BEGAN + 1, length);
      expect((await here.find())?.requestedAt).toBe(BEGAN + 1);
      // And the older gateway leaves it there.
      expect(await olderSet(old)).toBe(0);
      expect((await here.find())?.requestedAt).toBe(BEGAN + 1);
      // Unless its own began later still.
      const later = Buffer.from(old);
      later.writeBigUInt64BE(BigInt(BEGAN + 2), 8);
      expect(await olderSet(later)).toBe(1);
      await here.keep(BEGAN + 1, length);
      expect(await client.getBuffer(NAME)).toEqual(later);
      // Of one moment the one that comes last stays, whoever it is.
      await here.keep(BEGAN + 2, length);
      expect((await here.find())?.requestedAt).toBe(BEGAN + 2);
      expect(await olderSet(later)).toBe(1);
    },
  );
});
