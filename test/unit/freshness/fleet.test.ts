import { expect, test } from '@jest/globals';
import { createMemoryFleet } from '../../../src/freshness/fleet.ts';
import { handClock } from '../cache/fakes.ts';

test('one holder has a task, until it leaves it or its time is over', () => {
  const clock = handClock();
  const fleet = createMemoryFleet(clock);
  expect(fleet.hold('a', 'watch', 1_000)).toBe(true);
  expect(fleet.hold('b', 'watch', 1_000)).toBe(false);
  expect(fleet.hold('b', 'warm', 1_000)).toBe(true);
  clock.advance(900);
  expect(fleet.hold('a', 'watch', 1_000)).toBe(true);
  clock.advance(900);
  expect(fleet.hold('b', 'watch', 1_000)).toBe(false);
  clock.advance(100);
  expect(fleet.hold('b', 'watch', 1_000)).toBe(true);
  fleet.leave('a', 'watch');
  expect(fleet.hold('a', 'watch', 1_000)).toBe(false);
  fleet.leave('b', 'watch');
  expect(fleet.hold('a', 'watch', 1_000)).toBe(true);
});

test('who has lost its task writes no note of it', () => {
  const clock = handClock();
  const fleet = createMemoryFleet(clock);
  fleet.hold('a', 'watch', 1_000);
  expect(fleet.write('a', 'signature', 'one', 'watch')).toBe(true);
  expect(fleet.write('b', 'signature', 'of another', 'watch')).toBe(false);
  clock.advance(1_000);
  expect(fleet.write('a', 'signature', 'late', 'watch')).toBe(false);
  expect(fleet.note('b', 'signature')).toBe('one');
  expect(fleet.write('b', 'signature', 'without a task')).toBe(true);
  expect(fleet.note('a', 'signature')).toBe('without a task');
});
