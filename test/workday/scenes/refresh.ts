import { isHit } from '../history.ts';
import { createCast, type Act } from '../plan.ts';
import { bySize, paceOf, seconds, type Scene } from '../scene.ts';
import { slowStatement } from '../weather.ts';

/** Longer than what is asked anew ahead of its end (ms). */
const SLOW = 300;
/** The part of its ttl that an entry lives at least before it is asked anew. */
const LEAST_LIFE = 0.8;

/** People ask slow queries through the end of their ttl: somebody has asked before, and from then on nobody waits. */
export const refreshAhead: Scene = {
  name: 'refresh',
  title: 'slow queries are asked through the end of their ttl',
  play(stage) {
    const { below } = stage;
    const [ttl = 0, until = 0, every = 0] = bySize(
      stage,
      [10_000, 13_500, 400],
      [20_000, 90_000, 500],
    ).map((time) => Math.round(time * paceOf(stage)));
    const cast = createCast();
    const statements: string[] = [];
    // In sessions, and without.
    for (const program of ['Excel', 'Saiku']) {
      const statement = slowStatement(SLOW, program);
      statements.push(statement);
      for (let number = 0; number < 6; number += 1) {
        const acts: Act[] = [{ do: 'open', at: 0, questions: [0, 1], catalogLater: false }];
        // The first one asks alone.
        const first = number === 0 ? 1_500 : 3_000 * paceOf(stage) + below(every);
        for (let at = first; at < until; at += every / 2 + below(every)) {
          acts.push({ do: 'ask', at, questions: [statement] });
        }
        cast.join({ program, kind: 'generic', acts });
      }
    }
    return {
      cast,
      settings: {
        engine: { login: 'none' },
        cache: { share: 'everyone', ttl: seconds(ttl / 1_000) },
        warm: { mode: 'auto' },
      },
      misses(outcomes, _moments, { wasAnswered, slow }) {
        const asked = outcomes.filter((one) => statements.includes(one.asked));
        // On a busy machine Redis may not be heard for a moment: then the engine answers.
        const bypassed = asked.filter(({ words }) => /\bbypass\b/.test(words));
        const waited = asked.filter(
          (one) => !bypassed.includes(one) && wasAnswered(one) && !isHit(one),
        );
        const most = 1 + Math.floor(until / (LEAST_LIFE * ttl)) + bypassed.length;
        return [
          ...waited.map(({ words }) => `one waited for the engine: ${words}`),
          ...statements.flatMap((statement) => {
            const times = slow[statement] ?? 0;
            if (times > 1 && times <= most) return [];
            return [`${statement} reached the engine ${times} times, and not 2 to ${most}`];
          }),
        ];
      },
    };
  },
};
