import type { Clock } from '../../src/clock.ts';

/** Who answered a hit: the hot path; the line of a request, which recognised the body; or the whole line. */
export type AnsweringPath = 'hot path' | 'recognised' | 'line';

/** By who asks for the time that an entry has left. Whoever answers a hit must. */
const ASKED_BY: readonly (readonly [AnsweringPath, RegExp])[] = [
  ['hot path', /\brecall \(.*known-answers\.ts/],
  ['recognised', /\bfetch \(.*known-answers\.ts/],
  ['line', /query-cache\.ts/],
];

/**
 * A clock that sees who asks it. Which way a hit was answered must show in nothing that leaves the gateway: so tests
 * read it from the calls of the one thing that every way needs and that they hand in.
 */
export function watchfulClock(clock: Clock): {
  readonly clock: Clock;
  /** Who answered the last hit. */
  answeredBy(): AnsweringPath | undefined;
} {
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
