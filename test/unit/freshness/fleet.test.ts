import { describe, expect, test } from '@jest/globals';
import { createMemoryFleet, createOnce, fleetOf } from '../../../src/freshness/fleet.ts';
import { handClock } from '../cache/fakes.ts';

const twoOf = (fleetFor: ReturnType<typeof createMemoryFleet>) =>
  [fleetFor('a'), fleetFor('b')] as const;

test('one holder has a task, until it leaves it or its time is over', async () => {
  const clock = handClock();
  const [a, b] = twoOf(createMemoryFleet(clock));
  expect(await a.hold('watch', 1_000)).toBe(true);
  expect(await b.hold('watch', 1_000)).toBe(false);
  expect(await b.hold('warm', 1_000)).toBe(true);
  clock.advance(900);
  expect(await a.hold('watch', 1_000)).toBe(true);
  clock.advance(900);
  expect(await b.hold('watch', 1_000)).toBe(false);
  clock.advance(100);
  expect(await b.hold('watch', 1_000)).toBe(true);
  await a.leave('watch');
  expect(await a.hold('watch', 1_000)).toBe(false);
  await b.leave('watch');
  expect(await a.hold('watch', 1_000)).toBe(true);
});

test('of a holder that has ended others go on with the tasks, and not with what counts as done', async () => {
  const [a, b] = twoOf(createMemoryFleet(handClock()));
  await a.hold('watch', 65_000);
  await a.hold('message', 65_000, true);
  await b.hold('warm', 65_000);
  a.gone();
  expect(await b.hold('watch', 1_000)).toBe(true);
  expect(await b.hold('message', 1_000)).toBe(false);
  expect(await a.hold('warm', 1_000)).toBe(false);
});

test('who has lost its task writes no note of it', async () => {
  const clock = handClock();
  const [a, b] = twoOf(createMemoryFleet(clock));
  await a.hold('watch', 1_000);
  expect(await a.write('signature', 'one', 'watch')).toBe(true);
  expect(await b.write('signature', 'of another', 'watch')).toBe(false);
  clock.advance(1_000);
  expect(await a.write('signature', 'late', 'watch')).toBe(false);
  expect(await b.note('signature')).toBe('one');
  expect(await b.write('signature', 'without a task')).toBe(true);
  expect(await a.note('signature')).toBe('without a task');
});

describe('what is done once', () => {
  test('is done by one of several, until its time is over or it was not done after all', async () => {
    const clock = handClock();
    const [a, b] = twoOf(createMemoryFleet(clock));
    const [one, other] = [createOnce(a, clock, 1_000), createOnce(b, clock, 1_000)];
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
