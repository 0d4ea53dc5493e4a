import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createLeaseCache, leaseHolds, leaseStart } from '../../../src/common/leases.ts';
import { handClock } from '../cache/fakes.ts';

const LEASE = 1_000;

test('what may be used is never older than its lease, however slow the look at it is', () => {
  const hand = handClock();
  const now = () => {
    hand.advance(1);
    return hand.now();
  };
  const options = { lease: () => LEASE, max: 9, ownerOf: () => '', onError: () => {} };
  const cache = createLeaseCache<string>({ ...options, clock: { now, wall: () => 0 } });
  for (const name of ['a', 'b', 'c']) cache.keep(name, name, cache.begin());
  for (let looks = 0; looks < 2 * LEASE; looks += 1) {
    const age = cache.age() ?? 0;
    if (age >= LEASE) throw new Error(`an age of ${age} ms`);
  }
});

test('what was leased holds only as long as it is what is kept under its name, whatever happened since', () => {
  const step = fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    does: fc.constantFrom('keep', 'keep unusable', 'forget', 'forget all', 'drop', 'wait'),
    value: fc.constantFrom('alice 1', 'alice 2', 'bob 1'),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const clock = handClock();
      const cache = createLeaseCache<string>({
        lease: () => LEASE,
        // One owner may have two: the third drops the one used least recently.
        max: 8,
        ownerOf: (value) => value.split(' ')[0] ?? '',
        onError: () => {},
        clock,
      });
      const leases: (readonly [string, NonNullable<ReturnType<typeof cache.leased>>])[] = [];
      for (const { name, does, value } of steps) {
        if (does === 'keep') cache.keep(name, value, cache.begin());
        if (does === 'keep unusable') cache.keep(name, value, undefined);
        if (does === 'forget') cache.forget([name]);
        if (does === 'forget all') cache.forget('all');
        if (does === 'drop') cache.drop(name);
        if (does === 'wait') clock.advance(LEASE / 3);
        const leased = cache.leased(name);
        if (leased !== undefined) leases.push([name, leased]);
        for (const [of, one] of leases) {
          if (cache.holds(one) && cache.leased(of) !== one) throw new Error(`${of}: ${one.value}`);
        }
      }
    }),
  );
});

describe('a lease', () => {
  test.each([
    ['at its start', 0, 0, true],
    ['one millisecond before its end', 999, 0, true],
    ['at its end', 1_000, 0, false],
    ['past its end', 5_000, 0, false],
    ['when the wall clock stepped back', 1, -2, false],
    ['when the wall clock stepped back to the very start', 1, -1, true],
    ['when the wall clock alone says that it is over', 1, 999, false],
    ['when the wall clock says that a moment is left', 1, 998, true],
    ['when only the monotonic clock says that it is over', 1_000, -1_000, false],
  ])('%s', (_when, milliseconds, step, holds) => {
    const clock = handClock();
    const start = leaseStart(clock);
    clock.advance(milliseconds);
    clock.stepWall(step);
    expect(leaseHolds(start, LEASE, leaseStart(clock))).toBe(holds);
  });

  test('without an end holds for ever, unless the wall clock stepped back', () => {
    const clock = handClock();
    const start = leaseStart(clock);
    clock.advance(Number.MAX_SAFE_INTEGER / 4);
    expect(leaseHolds(start, Infinity, leaseStart(clock))).toBe(true);
    clock.stepWall(-Number.MAX_SAFE_INTEGER / 3);
    expect(leaseHolds(start, Infinity, leaseStart(clock))).toBe(false);
  });
});
