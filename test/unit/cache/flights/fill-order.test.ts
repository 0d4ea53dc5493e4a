import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createFillOrder, type OrderedFill } from '../../../../src/cache/flights.ts';
import type { StoredAnswer } from '../../../../src/cache/stored-answer.ts';
import { sizes } from '../../../support/sizes.ts';
import { storedAnswer } from '../fakes.ts';

describe('the fills of one key', () => {
  test('that began at one moment count in the order in which they were entered, whichever lands first', () => {
    for (const landing of [
      [0, 1],
      [1, 0],
    ]) {
      const order = createFillOrder();
      const fills = [order.enter('key'), order.enter('key')];
      const answers = [storedAnswer(), storedAnswer()];
      for (const i of landing) fills[i]?.landed(answers[i] ?? storedAnswer(), 5);
      expect(fills.map((fill) => fill.latest() === answers[1])).toEqual([true, true]);
    }
  });

  test('count by when their engine requests began, whenever they were entered', () => {
    const order = createFillOrder();
    const [first, second] = [order.enter('key'), order.enter('key')];
    const [later, sooner] = [storedAnswer(), storedAnswer()];
    second.landed(sooner, 5);
    expect(first.latest()).toBe(sooner);
    first.landed(later, 6);
    expect([first.latest() === later, second.latest() === later]).toEqual([true, true]);
  });

  test('know nothing of other keys, nor of what landed before they were entered', () => {
    const order = createFillOrder();
    const [before, elsewhere] = [order.enter('key'), order.enter('other key')];
    before.landed(storedAnswer(), 5);
    const after = order.enter('key');
    expect([elsewhere.latest(), after.latest()]).toEqual([undefined, undefined]);
  });

  test('are forgotten when they end', () => {
    const order = createFillOrder();
    const [ended, other] = [order.enter('key'), order.enter('key')];
    ended.landed(storedAnswer(), 5);
    ended.end();
    other.landed(storedAnswer(), 6);
    expect(ended.latest()).toBeUndefined();
  });

  test('show each the last of those that landed beside it, in any order of events', () => {
    const step = fc.record({
      what: fc.constantFrom('enter', 'landed', 'end'),
      which: fc.nat({ max: 5 }),
      began: fc.nat({ max: 3 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const order = createFillOrder();
        const open: { fill: OrderedFill; entered: number; seen: Seen[] }[] = [];
        let entered = 0;
        for (const { what, which, began } of steps) {
          const one = open[which % Math.max(1, open.length)];
          if (what === 'enter' || one === undefined) {
            open.push({ fill: order.enter('key'), entered: (entered += 1), seen: [] });
          } else if (what === 'end') {
            one.fill.end();
            open.splice(open.indexOf(one), 1);
          } else {
            const answer = storedAnswer();
            one.fill.landed(answer, began);
            for (const { seen } of open) seen.push({ answer, began, entered: one.entered });
          }
        }
        for (const { fill, seen } of open) {
          const last = seen.toSorted((a, b) => a.began - b.began || a.entered - b.entered).at(-1);
          const best = seen.filter(
            (one) => one.began === last?.began && one.entered === last.entered,
          );
          const latest = fill.latest();
          expect(best.length === 0 ? latest === undefined : best.some(isOf(latest))).toBe(true);
        }
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});

interface Seen {
  readonly answer: StoredAnswer;
  readonly began: number;
  readonly entered: number;
}

const isOf = (answer: StoredAnswer | undefined) => (seen: Seen) => seen.answer === answer;
