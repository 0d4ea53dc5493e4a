import type { Clock } from '../../src/common/clock.ts';
import { shortStatus, type Answer } from './http-client.ts';

/** How a hit was found: by what is remembered of its bytes, or by its key. */
export type AnsweringPath = 'memo' | 'key';

/** By the steps that ask for the time that an entry has left, as each must. Timers of the cache ask for the time too. */
const ASKED_BY: readonly (readonly [AnsweringPath, RegExp])[] = [
  ['memo', /\breplayKnown \(.*line\/handler\.ts/],
  ['key', /\btake \(.*cache\/cache\.ts/],
];

export interface WatchfulClock {
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  /** Who answered the last hit. */
  answeredBy(): AnsweringPath | undefined;
}

/** Queries are learnt while nobody waits; with so many hits a gateway that learns has learnt. */
const MOST_HITS = 2_000;

/**
 * Asks until a hit was answered in one of these ways, which takes as many hits as it takes to learn.
 * @returns all of them, the one that was answered so last
 * @throws when an answer is no hit, or too many are answered in other ways
 */
export async function hitsUntil(
  { answeredBy }: WatchfulClock,
  ways: readonly AnsweringPath[],
  ask: () => Promise<Answer>,
): Promise<[...Answer[], Answer]> {
  const hits: Answer[] = [];
  while (hits.length < MOST_HITS) {
    const hit = await ask();
    if (shortStatus(hit) !== 'hit') throw new Error(`this is no hit: ${shortStatus(hit)}`);
    const by = answeredBy();
    if (by !== undefined && ways.includes(by)) return [...hits, hit];
    hits.push(hit);
  }
  throw new Error(`no hit of ${MOST_HITS} was answered by: ${ways.join(', ')}`);
}

/**
 * A clock that sees who asks it. Which way a hit was answered must show in nothing that leaves the gateway: so tests
 * read it from the calls of the one thing that every way needs and that they hand in.
 */
export function watchfulClock(clock: Pick<Clock, 'now' | 'wall'>): WatchfulClock {
  let last: AnsweringPath | undefined;
  return {
    clock: {
      now: () => clock.now(),
      wall() {
        const { stack = '' } = new Error('who asks');
        last = ASKED_BY.find(([, caller]) => caller.test(stack))?.[0] ?? last;
        return clock.wall();
      },
    },
    answeredBy: () => last,
  };
}
