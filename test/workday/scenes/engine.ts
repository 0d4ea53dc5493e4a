import { clicks, pivotsUpTo, newStatement, programOfNumber, workbook } from '../habits.ts';
import { createCast, KINDS, type Cast } from '../plan.ts';
import { bySize, type Scene, type Stage } from '../scene.ts';
import { ENDLESS, slowStatement } from '../weather.ts';

/** People who work with what is cached, and ask something new now and then. */
export function joinUsual(
  cast: Cast,
  stage: Stage,
  options: Record<'count' | 'until' | 'every', number> & { readonly pivots?: number },
) {
  const { count, ...habit } = options;
  const { until, every, pivots } = habit;
  const { below } = stage;
  for (let number = 0; number < count; number += 1) {
    const from = below(1_500);
    cast.join({
      program: programOfNumber(number),
      kind: KINDS[number % KINDS.length] ?? 'generic',
      acts: [
        ...workbook(stage, { ...habit, from, closes: false }),
        ...(pivots === undefined
          ? []
          : [{ do: 'ask', at: from + 200, questions: pivotsUpTo(pivots) } as const]),
        ...clicks(stage, { from: from + every, until, every: every * 4 }, () =>
          newStatement(below),
        ),
      ],
    });
  }
}

export const minute: Scene = {
  name: 'minute',
  title: 'an engine that takes a minute, and is overloaded',
  play(stage) {
    const { below } = stage;
    const [seconds, until, every] = bySize(
      stage,
      [6, 11_000, 1_500] as const,
      [60, 80_000, 4_000] as const,
    );
    const cast = createCast();
    joinUsual(cast, stage, { count: 16, until, every });
    for (let number = 0; number < 8; number += 1) {
      // Two ask the same, and each asks again when the answer has come.
      const questions = Array.from({ length: 2 }, () =>
        slowStatement(seconds * 1_000, `[${number >> 1}]`),
      );
      const acts = [{ do: 'ask', at: 1_000 + below(2_000), questions } as const];
      cast.join({ program: 'olap4j', kind: 'generic', acts, patience: seconds * 1_000 + 60_000 });
    }
    return {
      cast,
      events: [
        {
          at: until / 2,
          name: 'overloaded',
          work: ({ engine }) =>
            engine.call('weather', { least: 100, most: 1_500, refusesOneIn: 4 }),
        },
      ],
    };
  },
};

/** Seconds of engine.timeout, and how long its askers wait at most: their turn and the timeout, and a breath. */
const TIMEOUT = 5;
const DEADLINE = 2 * TIMEOUT * 1_000 + 2_000;

export const neverEnds: Scene = {
  name: 'never-ends',
  title: 'a query that never ends, asked by 24',
  play(stage) {
    const { below } = stage;
    const [until, every, again] = bySize(
      stage,
      [12_000, 1_500, []] as const,
      [60_000, 3_000, [20_000, 40_000]] as const,
    );
    const cast = createCast();
    joinUsual(cast, stage, { count: 24, until, every });
    for (let number = 0; number < 24; number += 1) {
      const acts = [1_500, ...again].map(
        (from) => ({ do: 'ask', at: from + below(2_000), questions: [ENDLESS] }) as const,
      );
      cast.join({ program: 'olap4j', kind: 'generic', acts, patience: DEADLINE });
    }
    return {
      cast,
      settings: {
        engine: { login: 'none', timeout: `${TIMEOUT}s` },
        cache: { share: 'everyone' },
      },
      /** Those who ask for it, when they are told in time. */
      allows: ({ asked, words }) =>
        asked === ENDLESS && /^504\b.*(?:engine-timeout|query-times-out)/.test(words),
    };
  },
};
