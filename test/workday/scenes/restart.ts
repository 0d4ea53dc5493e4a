import { clicks, newStatement, programOfNumber, workbook } from '../habits.ts';
import { createCast, KINDS } from '../plan.ts';
import { bySize, momentOf, type Scene } from '../scene.ts';

/** Until nginx has seen that its connections to a process are closed (ms). */
const NOTICING = 500;

/** One gateway is ended as an operator ends it, later the other one is killed; both are started again. */
export const restart: Scene = {
  name: 'restart',
  title: 'SIGTERM for one gateway, kill -9 for the other',
  play(stage) {
    const { below } = stage;
    const [people, ended, back, killed, up, until] = bySize(
      stage,
      [24, 2.5, 4.5, 7, 8.5, 11] as const,
      [48, 10, 16, 20, 26, 40] as const,
    );
    const cast = createCast();
    for (let number = 0; number < people; number += 1) {
      const [from, end, every] = [below(1_000), until * 1_000, 1_500];
      cast.join({
        program: programOfNumber(number),
        kind: KINDS[number % KINDS.length] ?? 'generic',
        acts: [
          ...workbook(stage, { from, until: end, every }),
          // Half of what is under way is at the engine.
          ...clicks(stage, { from: from + every, until: end, every }, () => newStatement(below)),
        ],
      });
    }
    return {
      cast,
      events: [
        {
          at: 0,
          name: 'weather',
          work: ({ engine }) => engine.call('weather', { least: 50, most: 500, refusesOneIn: 0 }),
        },
        { at: ended * 1_000, name: 'ended', work: ({ gateways }) => gateways[0].end('SIGTERM') },
        { at: back * 1_000, name: 'back', work: ({ gateways }) => gateways[0].start() },
        {
          at: killed * 1_000,
          pause: 2_000,
          name: 'killed',
          work: ({ gateways }) => gateways[1].end('SIGKILL'),
        },
        { at: up * 1_000, name: 'up', work: ({ gateways }) => gateways[1].start() },
      ],
      /** What was under way when the process was killed, or was sent on a connection whose end nginx had not seen yet. */
      allows({ sent, answered }, moments) {
        const kill = momentOf(moments, 'killed');
        return sent <= kill.ended + NOTICING && answered >= kill.began;
      },
    };
  },
};
