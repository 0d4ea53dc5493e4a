import { randomFrom } from '../support/mutate.ts';

/** Draws a whole number from 0 to below a bound. */
export type Random = (below: number) => number;

/**
 * Sources of random numbers that do not disturb each other: one more draw of a client leaves the weather as it was.
 * @returns the source of that number, the same for the same seed
 */
export const randomSources =
  (seed: number) =>
  (number: number): Random =>
    randomFrom(seed + number * 7_919);

/** Whether a thing happens that happens once in so many times. */
export const oneIn = (random: Random, many: number): boolean => many > 0 && random(many) === 0;

/** @throws Error for an empty list */
export function pick<T>(random: Random, list: readonly T[]): T {
  const at = random(list.length || 1);
  if (at in list) return list[at] as T;
  throw new Error('there is nothing to draw from');
}
