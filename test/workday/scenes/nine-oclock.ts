import { createCast, KINDS } from '../plan.ts';
import { programOfNumber } from '../habits.ts';
import { bySize, type Scene } from '../scene.ts';

/** The part of what the machine can check that comes in a second. */
const LOAD = 0.6;

/** All come at once, and when they are in, more come for a minute as fast as the machine can check them. */
export const nineOclock: Scene = {
  name: 'nine-oclock',
  title: 'logins: seconds of checking at once, then a steady stream',
  play(stage) {
    const { below, bcrypt } = stage;
    const [atOnce, pause, seconds] = bySize(stage, [6, 3, 5] as const, [10, 20, 60] as const);
    const cast = createCast();
    const comes = (at: number) => {
      const number = cast.people.length;
      cast.join({
        program: programOfNumber(number),
        kind: KINDS[number % KINDS.length] ?? 'generic',
        acts: [{ do: 'open', at, questions: [0, 1, 2], catalogLater: below(2) === 0 }],
      });
    };
    for (let n = 0; n < bcrypt * atOnce; n += 1) comes(500 + below(200));
    const stream = 500 + (atOnce + pause) * 1_000;
    for (let n = 0; n < bcrypt * LOAD * seconds; n += 1) comes(stream + below(seconds * 1_000));
    return { cast };
  },
};
