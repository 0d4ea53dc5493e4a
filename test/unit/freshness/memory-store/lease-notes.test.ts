import { expect, test } from '@jest/globals';
import { createLeaseNotes } from '../../../../src/freshness/memory-store.ts';
import { handClock } from '../../cache/fakes.ts';

test('a lease that was made shorter or longer counts as both, for ten leases each', () => {
  const clock = handClock();
  const notes = createLeaseNotes(clock);
  notes.note('one', 500);
  notes.note('one', 100);
  expect(notes.longest()).toBe(500);
  clock.advance(1_000);
  expect(notes.longest()).toBe(500);
  notes.note('one', 100);
  clock.advance(4_000);
  expect(notes.longest()).toBe(0);
});

test('the longest lease is that of all holders, or of all but one', () => {
  const notes = createLeaseNotes(handClock());
  expect(notes.longest()).toBe(0);
  notes.note('one', 700);
  notes.note('other', 300);
  expect([notes.longest(), notes.longest('one'), notes.longest('other')]).toEqual([700, 300, 700]);
});

test('a note counts for as long as it was asked for', () => {
  const clock = handClock();
  const notes = createLeaseNotes(clock);
  notes.note('one', 700, 50);
  clock.advance(49);
  expect(notes.longest()).toBe(700);
  clock.advance(1);
  expect(notes.longest()).toBe(0);
});

test('notes that are over are forgotten, however many holders there were', () => {
  const clock = handClock();
  const notes = createLeaseNotes(clock);
  for (let holder = 0; holder < 10_000; holder += 1) {
    notes.note(`holder ${holder}`, 100);
    clock.advance(1);
  }
  expect(notes.longest()).toBe(100);
  clock.advance(1_000);
  expect(notes.longest()).toBe(0);
});
