import { clicks, programOfNumber, workbook } from '../habits.ts';
import { createCast, KINDS } from '../plan.ts';
import { bySize, type Scene } from '../scene.ts';

/** Data is loaded and purged while everybody asks, and many want one wide report. */
export const loadJob: Scene = {
  name: 'load-job',
  title: 'a load job purges while people ask, and many open a wide report',
  play(stage) {
    const { below } = stage;
    const [until, every, readers, megabytes, loads] = bySize(
      stage,
      [11_000, 1_200, 6, 8, [3_000, 6_000, 8_500]] as const,
      [40_000, 1_500, 30, 34, [8_000, 14_000, 20_000, 26_000, 32_000]] as const,
    );
    const cast = createCast();
    for (let number = 0; number < 24; number += 1) {
      const from = below(1_500);
      cast.join({
        program: programOfNumber(number),
        kind: KINDS[number % KINDS.length] ?? 'generic',
        acts: [
          ...workbook(stage, { from, until, every }),
          ...clicks(stage, { from: from + every, until, every }, () => below(60)),
        ],
      });
    }
    for (let number = 0; number < readers; number += 1) {
      const questions = [`SELECT {[Measures].[Unit Sales]} ON 0 FROM [Report of ${megabytes} MB]`];
      const at = until / 2 + below(5_000);
      const program = number % 2 === 0 ? 'XmlaClient' : 'Saiku';
      cast.join({ program, kind: 'generic', acts: [{ do: 'ask', at, questions }] });
    }
    cast.joinLoadJob(loads.map((at) => ({ do: 'load', at })));
    return { cast };
  },
};
