import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { systemClock } from '../../../src/clock.ts';
import type { GatewayEvent } from '../../../src/events.ts';
import { createFillOrder } from '../../../src/query-cache/fill/fill-order.ts';
import { createSharedEntries } from '../../../src/query-cache/entries/shared-entries.ts';
import type { StoredAnswer } from '../../../src/query-cache/entries/stored-answer.ts';
import { CHUNK } from '../../../src/query-cache/entries/value-chunks.ts';
import type { ValueTier } from '../../../src/query-cache/entries/value-tier.ts';
import { createSealer, NO_SEALER } from '../../../src/sealing.ts';
import '../../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { sizes } from '../../support/sizes.ts';
import { storedAnswer } from '../../unit/query-cache/fakes.ts';
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
  const entries = createSharedEntries({
    values: tier,
    sealer,
    clock: systemClock,
    maxEntry: 8 * 1024 * 1024,
    randomBytes,
    emit: (event) => events.push(event),
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
const answerOf = (length: number, ago = 0) =>
  storedAnswer({ body: randomBytes(length), requestedAt: Date.now() - ago });

const same = (found: StoredAnswer | undefined, kept: StoredAnswer) =>
  found?.body.equals(kept.body) === true && found.requestedAt === kept.requestedAt;

const chunkKeys = async () => (await client.keys('test:chunk:*')).sort();

describe('an answer in Redis', () => {
  test('of any length around the bounds of chunks is found as it was kept, by every gateway', async () => {
    const length = fc
      .tuple(fc.nat({ max: 3 }), fc.integer({ min: -400, max: 400 }))
      .map(([chunks, more]) => Math.max(0, chunks * CHUNK + more));
    await fc.assert(
      fc.asyncProperty(length, fc.boolean(), async (bytes, sealed) => {
        const sealer = sealed ? SEALER : NO_SEALER;
        const key = newKey();
        const kept = answerOf(bytes);
        const [here, there] = [entriesOf(one.tier, sealer), entriesOf(other.tier, sealer)];
        await here.keep(key, kept);
        expect(here.events).toEqual([]);
        expect(same(await there.find(key), kept)).toBe(true);
        expect(there.events).toEqual([]);
      }),
      { numRuns: sizes.chunkedValues },
    );
  });

  test('with any change of any chunk or manifest is a miss, never a wrong answer', async () => {
    const change = fc.record({
      manifest: fc.boolean(),
      which: fc.nat(),
      what: fc.constantFrom('turned', 'cut', 'longer', 'gone', 'swapped'),
      at: fc.nat(),
      bit: fc.nat({ max: 7 }),
    });
    await fc.assert(
      fc.asyncProperty(change, fc.boolean(), async ({ which, what, at, bit, manifest }, sealed) => {
        await client.flushall();
        const here = entriesOf(one.tier, sealed ? SEALER : NO_SEALER);
        const key = newKey();
        const kept = answerOf(2 * CHUNK + 100);
        await here.keep(key, kept);
        const names = manifest ? [`test:entry:${key}`] : await chunkKeys();
        const name = names[which % names.length] ?? '';
        const whole = (await client.getBuffer(name)) ?? Buffer.of();
        const place = at % whole.length;
        const changed = Buffer.from(whole);
        changed.writeUInt8(whole.readUInt8(place) ^ (1 << bit), place);
        const next = names[(which + 1) % names.length] ?? '';
        if (what === 'gone') await client.del(name);
        else if (what === 'turned') await client.set(name, changed);
        else if (what === 'cut') await client.set(name, whole.subarray(0, place));
        else if (what === 'longer') await client.append(name, 'x');
        else await client.set(name, (await client.getBuffer(next)) ?? '');
        const found = await here.find(key);
        // A manifest is alone: there is nothing else to put in its place.
        if (manifest && what === 'swapped') expect(same(found, kept)).toBe(true);
        else expect(found).toBeUndefined();
        // Without its first bytes there is nothing to refuse, or it is taken for none.
        const told = manifest && (what === 'gone' || what === 'swapped') ? 0 : 1;
        expect(here.events.filter(({ type }) => type === 'entry-rejected')).toHaveLength(told);
      }),
      { numRuns: sizes.chunkedValues },
    );
  });

  test('in chunks ends with its manifest, and these not before', async () => {
    const here = entriesOf(one.tier);
    const key = newKey();
    await here.keep(key, { ...answerOf(3 * CHUNK), lifetime: 100_000 });
    const chunks = await chunkKeys();
    expect(chunks).toHaveLength(4);
    const manifest = await client.pttl(`test:entry:${key}`);
    expect(manifest).toBeGreaterThan(0);
    expect(manifest).toBeLessThanOrEqual(100_000);
    for (const chunk of chunks) {
      const left = await client.pttl(chunk);
      expect(left).toBeGreaterThan(manifest + 30_000);
      expect(left).toBeLessThanOrEqual(160_000);
    }
  });

  test('in chunks keeps the order of moments: the later fill stays', async () => {
    const here = entriesOf(one.tier);
    const there = entriesOf(other.tier);
    const key = newKey();
    const [earlier, later] = [answerOf(CHUNK + 1, 5_000), answerOf(2 * CHUNK)];
    await here.keep(key, later);
    await there.keep(key, earlier);
    expect(same(await there.find(key), later)).toBe(true);
    const short = answerOf(10, -1_000);
    await there.keep(key, short);
    expect(same(await here.find(key), short)).toBe(true);
    await here.keep(key, later);
    expect(same(await there.find(key), short)).toBe(true);
    await here.keep(key, later, true);
    expect(same(await there.find(key), later)).toBe(true);
  });

  test('is not kept at all when one of its chunks was not written', async () => {
    let written = 0;
    const failing: ValueTier = {
      ...one.tier,
      async setChunk(...chunk) {
        written += 1;
        if (written === 3) throw new Error('Redis is away');
        await one.tier.setChunk(...chunk);
      },
    };
    const here = entriesOf(failing);
    const key = newKey();
    await here.keep(key, answerOf(4 * CHUNK));
    expect(here.events).toMatchObject([{ type: 'redis-failed', operation: 'set' }]);
    expect(await client.exists(`test:entry:${key}`)).toBe(0);
    // What was written ends by itself.
    for (const chunk of await chunkKeys()) expect(await client.pttl(chunk)).toBeGreaterThan(0);
  });

  test('that is sealed is a miss for gateways with another key or none, and theirs for it', async () => {
    const sealers = [NO_SEALER, SEALER, createSealer('another secret of more than thirty letters')];
    for (const bytes of [100, 2 * CHUNK]) {
      for (const sealer of sealers) {
        const key = newKey();
        const kept = answerOf(bytes);
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
