import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { systemClock } from '../../../src/common/clock.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { createFillOrder } from '../../../src/cache/flights.ts';
import { createSharedEntries } from '../../../src/cache/shared-entries.ts';
import type { StoredAnswer } from '../../../src/cache/stored-answer.ts';
import type { ValueTier } from '../../../src/cache/shared-entries.ts';
import { createSealer, NO_SEALER } from '../../../src/common/sealing.ts';
import '../../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { sizes } from '../../support/sizes.ts';
import { bodyAccount, storedAnswer } from '../../unit/cache/fakes.ts';
import { keptText } from '../../unit/cache/stored-answer/session-documents.ts';
import { house, type House } from './redis-house.ts';

const SEALER = createSealer('a secret of more than thirty-two letters');

let redis: RedisServer;
let one: House;
let other: House;
let client: Redis;

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  [one, other] = await Promise.all([house(redis.url), house(redis.url)]);
});
beforeEach(() => client.flushall());
afterAll(async () => {
  client?.disconnect();
  await one?.close();
  await other?.close();
  await redis?.close();
});

const newKey = () => randomBytes(32).toString('base64url');

/** The shared entries of one gateway, with what it told. */
function entriesOf(tier: ValueTier, sealer = NO_SEALER) {
  const events: GatewayEvent[] = [];
  const entries = createSharedEntries(tier, sealer, {
    clock: systemClock,
    maxEntry: () => 8 * 1024 * 1024,
    emit: (event) => events.push(event),
    account: bodyAccount(),
  });
  const order = createFillOrder();
  return {
    events,
    find: entries.find,
    keep: (key: string, answer: StoredAnswer, replace = false) =>
      entries.keep(key, { fill: order.enter(key), answer, tokens: ['a', 'b'], replace }),
  };
}

/** An answer of so many bytes that do not compress, which begins now. */
const answerOf = async (length: number, ago = 0) =>
  storedAnswer({ body: await keptText(randomBytes(length)), requestedAt: Date.now() - ago });

const same = (found: StoredAnswer | undefined, kept: StoredAnswer) =>
  found !== undefined &&
  isDeepStrictEqual(found.body, kept.body) &&
  found.requestedAt === kept.requestedAt;

describe('an answer in Redis', () => {
  test('of any length is found as it was kept, by every gateway', async () => {
    const length = fc.oneof(fc.nat({ max: 5_000 }), fc.nat({ max: 4_000_000 }));
    await fc.assert(
      fc.asyncProperty(length, fc.boolean(), async (bytes, sealed) => {
        const sealer = sealed ? SEALER : NO_SEALER;
        const key = newKey();
        const kept = await answerOf(bytes);
        const [here, there] = [entriesOf(one.tier, sealer), entriesOf(other.tier, sealer)];
        await here.keep(key, kept);
        expect(here.events).toEqual([]);
        expect(same(await there.find(key), kept)).toBe(true);
        expect(there.events).toEqual([]);
      }),
      { numRuns: sizes.longValues },
    );
  });

  test('with any change is a miss, never a wrong answer', async () => {
    const change = fc.record({
      what: fc.constantFrom('turned', 'cut', 'longer', 'swapped'),
      at: fc.nat(),
      bit: fc.nat({ max: 7 }),
    });
    await fc.assert(
      fc.asyncProperty(change, fc.boolean(), async ({ what, at, bit }, sealed) => {
        await client.flushall();
        const here = entriesOf(one.tier, sealed ? SEALER : NO_SEALER);
        const [key, next] = [newKey(), newKey()];
        for (const each of [key, next]) await here.keep(each, await answerOf(1_000_000));
        const name = `test:entry:${key}`;
        const whole = (await client.getBuffer(name)) ?? Buffer.of();
        const place = at % whole.length;
        const changed = Buffer.from(whole);
        changed.writeUInt8(whole.readUInt8(place) ^ (1 << bit), place);
        if (what === 'turned') await client.set(name, changed);
        else if (what === 'cut') await client.set(name, whole.subarray(0, place));
        else if (what === 'longer') await client.append(name, 'x');
        else await client.set(name, (await client.getBuffer(`test:entry:${next}`)) ?? '');
        expect(await here.find(key)).toBeUndefined();
        expect(here.events.map(({ type }) => type)).toEqual(['entry-rejected']);
      }),
      { numRuns: sizes.longValues },
    );
  });

  test('keeps the order of moments: the later fill stays, unless another was asked for', async () => {
    const here = entriesOf(one.tier);
    const there = entriesOf(other.tier);
    const key = newKey();
    const [earlier, later] = [await answerOf(1_000_000, 5_000), await answerOf(2_000_000)];
    await here.keep(key, later);
    await there.keep(key, earlier);
    expect(same(await there.find(key), later)).toBe(true);
    const short = await answerOf(10, -1_000);
    await there.keep(key, short);
    expect(same(await here.find(key), short)).toBe(true);
    await here.keep(key, later);
    expect(same(await there.find(key), short)).toBe(true);
    await here.keep(key, later, true);
    expect(same(await there.find(key), later)).toBe(true);
  });

  test('that is sealed is a miss for gateways with another key or none, and theirs for it', async () => {
    const sealers = [NO_SEALER, SEALER, createSealer('another secret of more than thirty letters')];
    for (const bytes of [100, 1_000_000]) {
      for (const sealer of sealers) {
        const key = newKey();
        const kept = await answerOf(bytes);
        await entriesOf(one.tier, sealer).keep(key, kept);
        for (const reader of sealers) {
          const there = entriesOf(other.tier, reader);
          const found = await there.find(key);
          expect(same(found, kept)).toBe(reader === sealer);
          expect(there.events).toHaveLength(reader === sealer ? 0 : 1);
        }
      }
    }
  });
});
