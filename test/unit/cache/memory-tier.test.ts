import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import {
  type Deflated,
  deflated,
  type StoredAnswer,
  variantBytes,
} from '../../../src/cache/stored-answer.ts';
import { createMemoryTier, type MemoryTier } from '../../../src/cache/memory-tier.ts';
import { sizes } from '../../support/sizes.ts';
import { bodyAccount, handClock, quiet, storedAnswer } from './fakes.ts';

const DIGESTS = 'digests';
const account = bodyAccount();

/** One that counts for so many bytes. */
const variantOf = (bytes: number) => {
  const beside = variantBytes(deflated(0, Buffer.alloc(0), Buffer.alloc(0), 0));
  return deflated(1_024, Buffer.alloc(0), Buffer.alloc(bytes - beside), 0);
};

const LONG = Buffer.alloc(1_024);

function gzipOf(tier: MemoryTier, key: string, answer: StoredAnswer): Deflated | undefined {
  const text = tier.textOf(key, answer, true);
  return Buffer.isBuffer(text) ? undefined : text;
}

/** One whose variants are of so many bytes. */
function compressing(maxBytes: number, bytes: number) {
  const clock = handClock();
  const bodies: Buffer[] = [];
  async function compress(body: Buffer) {
    bodies.push(body);
    return variantOf(bytes);
  }
  const tier = createMemoryTier({ maxBytes, clock, account, compress });
  return { tier, clock, bodies };
}

describe('the memory tier', () => {
  test('gives back what it was given, until its time is over', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    const answer = storedAnswer({ requestedAt: clock.wall(), lifetime: 1_000 });
    tier.set('key', answer, DIGESTS);
    clock.advance(999);
    expect(tier.get('key')).toBe(answer);
    clock.advance(1);
    expect(tier.get('key')).toBeUndefined();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });

  test('keeps what is past its time for so long that a failing engine may need it, and gives it to no other', () => {
    const clock = handClock();
    const staleIfError = () => 5_000;
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account, staleIfError });
    const answer = storedAnswer({ requestedAt: clock.wall(), lifetime: 1_000 });
    tier.set('key', answer, DIGESTS);
    clock.advance(5_999);
    expect(tier.get('key')).toBeUndefined();
    expect(tier.get('key', true, clock.wall(), 4_999)).toBeUndefined();
    expect(tier.get('key', true, clock.wall(), 5_000)).toBe(answer);
    const { each } = tier.list();
    expect([...each]).toMatchObject([{ age: 6, rest: -5 }]);
    clock.advance(1);
    expect(tier.get('key', true, clock.wall(), 5_000)).toBeUndefined();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });

  test('has room for what no user waits for only where nothing goes that was used since', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 4_000, clock, account });
    const put = (key: string) =>
      tier.set(key, storedAnswer({ body: LONG, requestedAt: clock.wall() }), DIGESTS);
    put('used');
    put('unused');
    clock.advance(1);
    const purged = clock.now();
    expect([tier.hasRoom(1_000, purged), tier.hasRoom(3_900, purged)]).toEqual([true, false]);
    tier.get('used', true);
    expect([tier.hasRoom(1_000, purged), tier.hasRoom(2_000, purged)]).toEqual([true, false]);
    put('new');
    expect([tier.hasRoom(1_000, purged), tier.hasRoom(10, purged)]).toEqual([false, false]);
    expect(tier.hasRoom(3_000, clock.now() + 1)).toBe(true);
  });

  test('counts what was filled for no user: the first hit of it, and what goes without one', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 40_000, clock, account });
    const put = (key: string, fill: 'usual' | 'warm', lifetime = 10_000) =>
      tier.set(key, storedAnswer({ requestedAt: clock.wall(), lifetime }), DIGESTS, fill);
    for (const key of ['hit', 'expires', 'is replaced', 'stays']) put(key, 'warm', 1_000);
    put('of a user', 'usual');
    for (const key of ['hit', 'hit', 'of a user']) tier.get(key, true);
    tier.get('stays');
    expect(tier.warmed()).toEqual({ hits: 1, wasted: 0 });
    clock.advance(1_000);
    tier.get('expires', true);
    put('is replaced', 'usual');
    expect(tier.warmed()).toEqual({ hits: 1, wasted: 2 });
    tier.clear();
    expect(tier.warmed()).toEqual({ hits: 1, wasted: 3 });
  });

  test('counts what gives way to others, and what of it had no second hit', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 4_000, clock, account });
    const put = (key: string) =>
      tier.set(key, storedAnswer({ body: LONG, requestedAt: clock.wall() }), DIGESTS);
    put('twice');
    put('once');
    for (const key of ['twice', 'twice', 'once']) tier.get(key, true);
    tier.get('once');
    tier.peek('once');
    expect(tier.evictions()).toEqual({ all: 0, unused: 0 });
    for (const key of ['a', 'b', 'c']) put(key);
    expect([tier.usage().entries, tier.evictions()]).toEqual([2, { all: 3, unused: 2 }]);
    // What is replaced or cleared gave way to nothing.
    put('c');
    tier.clear();
    expect(tier.evictions()).toEqual({ all: 3, unused: 2 });
  });

  test('gives nothing back for longer because the wall clock was set back', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 10_000 }), DIGESTS);
    clock.stepWall(-5_000);
    clock.advance(9_999);
    expect(tier.get('key')).toBeDefined();
    clock.advance(1);
    expect(tier.get('key')).toBeUndefined();
  });

  test('takes an answer from the future for too old, and lets a newer one replace it', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 3_600_000 }), DIGESTS);
    clock.stepWall(-3_600_000);
    expect(tier.get('key')).toBeUndefined();
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 3_600_000 }), DIGESTS);
    expect(tier.get('key')).toBeDefined();
  });

  test('keeps the answer whose engine request began later, in whatever order they come', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    const older = storedAnswer({ requestedAt: clock.wall() });
    const later = storedAnswer({ requestedAt: clock.wall() + 1 });
    tier.set('key', later, DIGESTS);
    tier.set('key', older, DIGESTS);
    expect(tier.get('key')).toBe(later);
    const sameMoment = storedAnswer({ requestedAt: clock.wall() + 1 });
    tier.set('key', sameMoment, DIGESTS);
    expect(tier.get('key')).toBe(sameMoment);
  });

  test('keeps the last answer of this process, also when the wall clock was set back before it', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    const older = storedAnswer({ requestedAt: clock.wall() });
    const later = storedAnswer({ requestedAt: clock.wall() - 5_000 });
    tier.set('key', older, DIGESTS, 'usual');
    tier.set('key', later, DIGESTS, 'usual');
    expect(tier.get('key')).toBe(later);
    tier.set('key', older, DIGESTS);
    expect(tier.get('key')).toBe(older);
  });

  test('keeps a fresh answer instead of one of another gateway, however its clock goes, and no other one', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    const ahead = storedAnswer({ requestedAt: clock.wall() + 30_000 });
    const here = storedAnswer({ requestedAt: clock.wall() });
    tier.set('key', ahead, DIGESTS);
    tier.set('key', here, DIGESTS, 'usual');
    expect(tier.get('key')).toBe(ahead);
    tier.set('key', here, DIGESTS, 'fresh');
    expect(tier.get('key')).toBe(here);
  });

  test('never holds more bytes than it may, and counts them', () => {
    const clock = handClock();
    const maxBytes = 20_000;
    const entry = fc.record({ key: fc.nat({ max: 40 }), bytes: fc.nat({ max: 30_000 }) });
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 60 }), (entries) => {
        const tier = createMemoryTier({ maxBytes, clock, account });
        for (const { key, bytes } of entries) {
          tier.set(`key ${key}`, storedAnswer({ body: Buffer.alloc(bytes) }), DIGESTS);
          expect(tier.usage().bytes).toBeLessThanOrEqual(maxBytes);
        }
        const held = Array.from({ length: 41 }, (_, key) => tier.get(`key ${key}`)).filter(
          (answer) => answer !== undefined,
        );
        const bodies = held.reduce((sum, { body }) => sum + body.length, 0);
        expect(tier.usage().entries).toBe(held.length);
        expect(tier.usage().bytes).toBeGreaterThanOrEqual(bodies);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('drops what was not used for longest', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 3_500, clock, account });
    const answer = storedAnswer({ body: Buffer.alloc(500) });
    tier.set('one', answer, DIGESTS);
    tier.set('two', answer, DIGESTS);
    tier.get('one');
    tier.set('three', answer, DIGESTS);
    expect(['one', 'two', 'three'].map((key) => tier.get(key) !== undefined)).toEqual([
      true,
      false,
      true,
    ]);
  });

  test('leaves out what alone is larger than all it may hold, and keeps the rest', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 2_000, clock, account });
    tier.set('small', storedAnswer(), DIGESTS);
    tier.set('large', storedAnswer({ body: Buffer.alloc(2_000) }), DIGESTS);
    expect(tier.get('large')).toBeUndefined();
    expect(tier.get('small')).toBeDefined();
  });

  test('is looked at without that counting as use', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 3_500, clock, account });
    const answer = storedAnswer({ requestedAt: clock.wall(), body: Buffer.alloc(500) });
    tier.set('one', answer, 'digests of one');
    tier.set('two', answer, 'digests of two');
    expect(tier.peek('one')).toMatchObject({ answer, digests: 'digests of one', left: 60_000 });
    expect(tier.peek('none')).toBeUndefined();
    expect(tier.peekRecent(2).map(({ digests }) => digests)).toEqual([
      'digests of two',
      'digests of one',
    ]);
    expect(tier.peekRecent(1)).toHaveLength(1);
    tier.set('three', answer, DIGESTS);
    expect(tier.get('one')).toBeUndefined();
  });

  test('says of an entry that is looked at how long it may be used, and leaves an old one there', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 1_000 }), DIGESTS);
    clock.stepWall(-5_000);
    expect(tier.peek('key')?.left).toBe(1_000);
    clock.advance(1_001);
    expect(tier.peek('key')?.left).toBe(-1);
    expect(tier.usage().entries).toBe(1);
  });

  test('keeps a variant beside the answer, counts it, and drops it with the answer', async () => {
    const { tier, clock } = compressing(10_000, 700);
    const answer = storedAnswer({ requestedAt: clock.wall(), body: LONG });
    tier.set('key', answer, DIGESTS);
    const before = tier.usage().bytes;
    expect(gzipOf(tier, 'key', answer)).toBeUndefined();
    await quiet();
    expect(gzipOf(tier, 'key', answer)).toEqual(variantOf(700));
    expect(tier.usage()).toEqual({ entries: 1, bytes: before + 700 });
    expect(tier.get('key')).toBe(answer);
    expect(tier.peek('key')).toMatchObject({ digests: DIGESTS, left: 60_000 });
    tier.set('key', storedAnswer({ requestedAt: clock.wall() + 1, body: LONG }), DIGESTS);
    expect(tier.usage().bytes).toBe(before);
  });

  test('never puts the variant of one answer beside another one', async () => {
    const { tier, bodies } = compressing(10_000, 700);
    const [old, later] = [storedAnswer({ body: LONG }), storedAnswer({ body: LONG })];
    tier.set('key', old, DIGESTS);
    gzipOf(tier, 'key', old);
    tier.set('key', later, DIGESTS);
    await quiet();
    expect(bodies).toEqual([LONG]);
    expect(gzipOf(tier, 'key', old)).toBeUndefined();
    expect(gzipOf(tier, 'key', later)).toBeUndefined();
    tier.clear();
    await quiet();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });

  test('drops what was not used for longest for a variant, and never the answer it belongs to', async () => {
    const { tier } = compressing(4_700, 900);
    const answer = storedAnswer({ body: LONG });
    tier.set('key 0', answer, DIGESTS);
    tier.set('key 1', answer, DIGESTS);
    gzipOf(tier, 'key 1', answer);
    await quiet();
    expect([tier.get('key 0'), tier.get('key 1')]).toEqual([undefined, answer]);
    expect(gzipOf(tier, 'key 1', answer)).toEqual(variantOf(900));
    expect(tier.usage().bytes).toBeLessThanOrEqual(4_700);

    const small = compressing(4_700, 4_700).tier;
    small.set('key', answer, DIGESTS);
    gzipOf(small, 'key', answer);
    await quiet();
    expect([small.get('key'), gzipOf(small, 'key', answer)]).toEqual([answer, undefined]);
  });

  test('is empty when it was cleared', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock, account });
    tier.set('key', storedAnswer(), DIGESTS);
    tier.clear();
    expect(tier.get('key')).toBeUndefined();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });

  test('of no bytes holds nothing', () => {
    const tier = createMemoryTier({ maxBytes: 0, clock: handClock(), account });
    tier.set('key', storedAnswer(), DIGESTS);
    tier.clear();
    expect(tier.get('key')).toBeUndefined();
    expect(gzipOf(tier, 'key', storedAnswer())).toBeUndefined();
    expect([tier.peek('key'), ...tier.peekRecent(10)]).toEqual([undefined]);
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });
});

test('entries are listed over many turns, in which some are used, replaced, dropped and added', async () => {
  const clock = handClock();
  const tier = createMemoryTier({ maxBytes: 1_000_000, clock, account: bodyAccount() });
  const digest = (of: string) => '0'.repeat(500) + of;
  const put = (key: string) =>
    tier.set(key, storedAnswer({ requestedAt: clock.wall() }), digest(key));
  const keys = [...'abcdefgh'];
  for (const key of keys) put(key);
  const seen: string[] = [];
  const changes = [
    () => keys.toReversed().forEach((key) => tier.get(key, true)),
    () => put('a'),
    () => put('new'),
    () => tier.get('h', true),
  ];
  const { total, each } = tier.list();
  for (const { digest: of } of each) {
    seen.push(of);
    changes.shift()?.();
  }
  expect(total).toBe(keys.length);
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen).toHaveLength(keys.length);
  const again: string[] = [];
  for (const { digest: of } of tier.list().each) {
    if (again.length === 2) tier.clear();
    again.push(of);
  }
  expect(again).toHaveLength(3);
  expect([...tier.list().each]).toEqual([]);
});
