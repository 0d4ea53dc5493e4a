import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createSemaphore } from '../../../src/common/semaphore.ts';
import { sizes } from '../../support/sizes.ts';

const signal = () => new AbortController().signal;

/** Lets everything run that waits for nothing but its turn. */
const quiet = () => new Promise((resolve) => setImmediate(resolve));

/** Takes one out of a set; undefined when it is empty. */
function pick<T>(from: Set<T>, who: number): T | undefined {
  const picked = [...from][who % Math.max(from.size, 1)];
  if (picked !== undefined) from.delete(picked);
  return picked;
}

describe('a semaphore', () => {
  test('lets so many in, and the others in the order they came', async () => {
    const semaphore = createSemaphore(2);
    const entered: number[] = [];
    const leaves: (() => void)[] = [];
    for (const number of [1, 2, 3, 4]) {
      void semaphore.acquire(signal()).then((leave) => {
        entered.push(number);
        leaves.push(leave);
      });
    }
    await quiet();
    expect(entered).toEqual([1, 2]);
    expect(semaphore.usage()).toEqual({ held: 2, waiting: 2 });
    leaves[1]?.();
    await quiet();
    expect(entered).toEqual([1, 2, 3]);
    leaves[0]?.();
    await quiet();
    expect(entered).toEqual([1, 2, 3, 4]);
    expect(semaphore.usage()).toEqual({ held: 2, waiting: 0 });
  });

  test('gives a place back once, however often that is said', async () => {
    const semaphore = createSemaphore(1);
    const leave = await semaphore.acquire(signal());
    leave();
    leave();
    expect(semaphore.usage()).toEqual({ held: 0, waiting: 0 });
    await semaphore.acquire(signal());
    leave();
    expect(semaphore.usage()).toEqual({ held: 1, waiting: 0 });
  });

  test('lets go whoever gives up waiting, and passes nothing on to them', async () => {
    const semaphore = createSemaphore(1);
    const leave = await semaphore.acquire(signal());
    const impatient = new AbortController();
    const givesUp = semaphore.acquire(impatient.signal);
    const waits = semaphore.acquire(signal());
    impatient.abort(new Error('gave up'));
    await expect(givesUp).rejects.toThrow('gave up');
    expect(semaphore.usage()).toEqual({ held: 1, waiting: 1 });
    leave();
    await waits;
    expect(semaphore.usage()).toEqual({ held: 1, waiting: 0 });
  });

  test('does not let in who gave up before they came', async () => {
    const semaphore = createSemaphore(1);
    await expect(semaphore.acquire(AbortSignal.abort(new Error('gave up')))).rejects.toThrow(
      'gave up',
    );
    expect(semaphore.usage()).toEqual({ held: 0, waiting: 0 });
  });

  test('does not lose a place to one who gives up in the moment it is passed on', async () => {
    const semaphore = createSemaphore(1);
    const leave = await semaphore.acquire(signal());
    const impatient = new AbortController();
    const next = semaphore.acquire(impatient.signal);
    leave();
    impatient.abort(new Error('gave up'));
    (await next)();
    expect(semaphore.usage()).toEqual({ held: 0, waiting: 0 });
  });

  test('never holds more than it may, and is empty when all have left or given up', async () => {
    const action = fc.record({
      do: fc.constantFrom('enter', 'leave', 'give up'),
      who: fc.nat({ max: 1_000 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(action, { maxLength: 40 }),
        async (permits, actions) => {
          const semaphore = createSemaphore(permits);
          const inside = new Set<() => void>();
          const waiting = new Set<AbortController>();
          const enter = () => {
            const controller = new AbortController();
            waiting.add(controller);
            semaphore.acquire(controller.signal).then(
              (leave) => {
                inside.add(leave);
                waiting.delete(controller);
              },
              () => {},
            );
          };
          for (const { do: what, who } of actions) {
            if (what === 'enter') enter();
            else if (what === 'leave') pick(inside, who)?.();
            else pick(waiting, who)?.abort(new Error('gave up'));
            await quiet();
            expect(semaphore.usage()).toEqual({ held: inside.size, waiting: waiting.size });
            expect(inside.size).toBeLessThanOrEqual(permits);
            // Nobody waits while there is a place.
            expect(waiting.size === 0 || inside.size === permits).toBe(true);
          }
          while (inside.size + waiting.size > 0) {
            pick(waiting, 0)?.abort(new Error('gave up'));
            pick(inside, 0)?.();
            await quiet();
          }
          expect(semaphore.usage()).toEqual({ held: 0, waiting: 0 });
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });
});
