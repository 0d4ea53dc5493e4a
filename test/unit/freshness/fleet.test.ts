import { describe, expect, test } from '@jest/globals';
import { createMemoryFleet, createOnce, fleetOf } from '../../../src/freshness/fleet.ts';
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

describe('what is done once', () => {
  const fleetOfOne = (shared: ReturnType<typeof createMemoryFleet>, holder: string) =>
    fleetOf(async (method, ...args) =>
      (shared[method] as (...given: readonly unknown[]) => unknown)(holder, ...args),
    );

  test('is done by one of several, until its time is over or it was not done after all', async () => {
    const clock = handClock();
    const shared = createMemoryFleet(clock);
    const [one, other] = ['one', 'other'].map((name) =>
      createOnce(fleetOfOne(shared, name), clock, 1_000),
    ) as [ReturnType<typeof createOnce>, ReturnType<typeof createOnce>];
    expect(await one.begin('message')).toBe(true);
    expect(await one.begin('message')).toBe(false);
    expect(await other.begin('message')).toBe(false);
    await other.undo('message');
    expect(await one.begin('message')).toBe(false);
    await one.undo('message');
    expect(await other.begin('message')).toBe(true);
    expect(await one.begin('message')).toBe(false);
    clock.advance(1_000);
    expect(await one.begin('message')).toBe(true);
  });

  test('is done once by each while the store does not answer', async () => {
    const away = fleetOf(() => Promise.reject(new Error('away')));
    const once = createOnce(away, handClock(), 1_000);
    expect(await once.begin('message')).toBe(true);
    expect(await once.begin('message')).toBe(false);
    await once.undo('message');
    expect(await once.begin('message')).toBe(true);
  });
});
