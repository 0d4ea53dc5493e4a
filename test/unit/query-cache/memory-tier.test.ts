import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createMemoryTier } from '../../../src/query-cache/memory-tier.ts';
import { sizes } from '../../support/sizes.ts';
import { handClock, storedAnswer } from './fakes.ts';

describe('the memory tier', () => {
  test('gives back what it was given, until its time is over', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock });
    const answer = storedAnswer({ requestedAt: clock.wall(), lifetime: 1_000 });
    tier.set('key', answer);
    clock.advance(999);
    expect(tier.get('key')).toBe(answer);
    clock.advance(1);
    expect(tier.get('key')).toBeUndefined();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });

  test('gives nothing back for longer because the wall clock was set back', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock });
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 10_000 }));
    clock.stepWall(-5_000);
    clock.advance(9_999);
    expect(tier.get('key')).toBeDefined();
    clock.advance(1);
    expect(tier.get('key')).toBeUndefined();
  });

  test('takes an answer from the future for too old, and lets a newer one replace it', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock });
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 3_600_000 }));
    clock.stepWall(-3_600_000);
    expect(tier.get('key')).toBeUndefined();
    tier.set('key', storedAnswer({ requestedAt: clock.wall(), lifetime: 3_600_000 }));
    expect(tier.get('key')).toBeDefined();
  });

  test('keeps the answer whose engine request began later, in whatever order they come', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock });
    const older = storedAnswer({ requestedAt: clock.wall() });
    const later = storedAnswer({ requestedAt: clock.wall() + 1 });
    tier.set('key', later);
    tier.set('key', older);
    expect(tier.get('key')).toBe(later);
    const sameMoment = storedAnswer({ requestedAt: clock.wall() + 1 });
    tier.set('key', sameMoment);
    expect(tier.get('key')).toBe(sameMoment);
  });

  test('never holds more bytes than it may, and counts them', () => {
    const clock = handClock();
    const maxBytes = 20_000;
    const entry = fc.record({ key: fc.nat({ max: 40 }), bytes: fc.nat({ max: 30_000 }) });
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 60 }), (entries) => {
        const tier = createMemoryTier({ maxBytes, clock });
        for (const { key, bytes } of entries) {
          tier.set(`key ${key}`, storedAnswer({ body: Buffer.alloc(bytes) }));
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
    const tier = createMemoryTier({ maxBytes: 2_500, clock });
    const answer = storedAnswer({ body: Buffer.alloc(500) });
    tier.set('one', answer);
    tier.set('two', answer);
    tier.get('one');
    tier.set('three', answer);
    expect(['one', 'two', 'three'].map((key) => tier.get(key) !== undefined)).toEqual([
      true,
      false,
      true,
    ]);
  });

  test('leaves out what alone is larger than all it may hold, and keeps the rest', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 2_000, clock });
    tier.set('small', storedAnswer());
    tier.set('large', storedAnswer({ body: Buffer.alloc(2_000) }));
    expect(tier.get('large')).toBeUndefined();
    expect(tier.get('small')).toBeDefined();
  });

  test('is empty when it was cleared', () => {
    const clock = handClock();
    const tier = createMemoryTier({ maxBytes: 10_000, clock });
    tier.set('key', storedAnswer());
    tier.clear();
    expect(tier.get('key')).toBeUndefined();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });

  test('of no bytes holds nothing', () => {
    const tier = createMemoryTier({ maxBytes: 0, clock: handClock() });
    tier.set('key', storedAnswer());
    tier.clear();
    expect(tier.get('key')).toBeUndefined();
    expect(tier.usage()).toEqual({ entries: 0, bytes: 0 });
  });
});
