import { FINE } from '../weather.ts';
import type { Act } from '../plan.ts';
import { createCast, KINDS } from '../plan.ts';
import { programOfNumber } from '../habits.ts';
import { isHit } from '../history.ts';
import {
  bySize,
  momentOf,
  paceOf,
  seconds,
  type Moments,
  type Scene,
  type Stage,
} from '../scene.ts';
import type { Outcome } from '../outcome.ts';

const PEOPLE = 12;

/** Everybody asks a few things, and then one of them again each time. */
function comingBack({ below }: Stage, times: readonly number[]) {
  const cast = createCast();
  for (let number = 0; number < PEOPLE; number += 1) {
    const shift = below(1_500);
    const acts: Act[] = times.map((at) => ({ do: 'ask', at: at + shift, questions: [7] }));
    cast.join({
      program: programOfNumber(number),
      kind: KINDS[number % KINDS.length] ?? 'generic',
      acts: [{ do: 'open', at: shift, questions: [7, 8], catalogLater: false }, ...acts],
    });
  }
  return cast;
}

/** Longer apart than a login is believed, where that is limited. */
export const everyHalfMinute: Scene = {
  name: 'clicks',
  title: 'a click every half minute',
  play(stage) {
    const [count, every] = bySize(stage, [4, 2_500] as const, [6, 30_000] as const);
    const times = Array.from({ length: count }, (_, at) => (at + 1) * every);
    const settings = bySize(stage, { auth: { verified_for: '1s' } }, {});
    return { cast: comingBack(stage, times), settings };
  },
};

export const lunch: Scene = {
  name: 'lunch',
  title: 'back from lunch, with logins that the engine checks',
  play(stage) {
    // Back while the entries still live, and again when their ttl is over.
    const pace = paceOf(stage);
    const [gone = 0, back = 0, over = 0, again = 0] = bySize(
      stage,
      [2_500, 5_000, 8_500, 10_500],
      [10_000, 90_000, 130_000, 150_000],
    ).map((at) => Math.round(at * pace));
    return {
      cast: comingBack(stage, [gone - 500, back, again]),
      settings: {
        auth: { provider: 'engine', verified_for: bySize(stage, '1s', '60s') },
        cache: { ttl: seconds(bySize(stage, 9, 120) * pace) },
      },
      events: [
        // Until the checks that wait for the engine have to wait long, or are refused.
        {
          at: gone + 1_500,
          name: 'busy',
          work: ({ engine }) => engine.call('weather', { ...FINE, refusesOneIn: 3 }),
        },
        { at: over, name: 'fine', work: ({ engine }) => engine.call('weather', FINE) },
      ],
      // Where Redis was not heard for a moment, on a busy machine.
      allows: (outcome, moments, wasAnswered) =>
        isAtLunch(outcome, moments) && !wasAnswered(outcome),
      misses: (outcomes, moments, { wasAnswered }) =>
        outcomes
          .filter((one) => isAtLunch(one, moments) && wasAnswered(one) && !isHit(one))
          .map(({ words }) => `back from lunch it was no hit: ${words}`),
    };
  },
};

const isAtLunch = ({ sent, answered }: Outcome, moments: Moments): boolean =>
  answered > momentOf(moments, 'busy').began && sent < momentOf(moments, 'fine').ended;
