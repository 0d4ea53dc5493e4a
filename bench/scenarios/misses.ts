import { datasetOf, wholeAnswer } from '../answers.ts';
import { askOnce, expectHit, requestTo, type LoadShape } from '../contest.ts';
import { figureOf } from '../figures.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, type Subject } from '../house.ts';
import { sendLoad } from '../load/wrk.ts';
import { template } from '../questions.ts';
import type { Scenario } from './scenario.ts';

const MIB = 1024 * 1024;
const DELAY = 'event-loop delay, 99th percentile';
/** So many numbers are there for the questions of one round: more than any server answers in it. */
const OF_A_ROUND = 1_000_000;

/** Each request asks what was never asked. */
export const newQuestions =
  (size: number, connections: number) =>
  (subject: Subject, round: number): LoadShape => ({
    connections,
    requests: [requestTo(subject, template({ size, name: '@NUMBER@' }))],
    numbers: { from: (round + 1) * OF_A_ROUND, count: OF_A_ROUND },
  });

/** That what is asked is stored, so that a miss is one and stays none. */
export async function expectStored(subject: Subject, size: number): Promise<void> {
  const body = template({ size, name: '@NUMBER@' });
  for (const number of [1, 2, 3]) {
    await expectHit(subject, body, wholeAnswer(datasetOf(size)), { number });
  }
}

/** How late the event loop is while longer answers are stored, one at a time. */
function lateLoop(name: string, title: string, size: number): Scenario {
  return {
    name,
    title,
    async run(house) {
      const engine = await startEngine(house);
      const gateway = await startGateway(house, engine.port, { probe: true });
      await expectStored(gateway, size);
      const load = newQuestions(size, 1);
      const late: number[] = [];
      const { rounds, seconds } = house.settings;
      for (let round = 0; round <= rounds; round++) {
        await gateway.asked('delay');
        const shape = { ...load(gateway, round), port: gateway.port, seconds };
        await sendLoad(shape, house.folder('load'));
        const { p99 } = await gateway.asked('delay');
        // The first one is a warm-up.
        if (round > 0) late.push(p99);
      }
      return { rows: [{ title: DELAY, unit: 'ms', figure: figureOf(late) }] };
    },
  };
}

/** Very long answers, one after the other, each of them stored. */
const veryLong: Scenario = {
  name: 'stores-50m',
  title: 'event-loop delay while answers of 50 MB are stored, max_entry raised',
  async run(house) {
    const size = 50 * MIB;
    const engine = await startEngine(house);
    const gateway = await startGateway(house, engine.port, {
      probe: true,
      settings: {
        cache: { memory: '512MiB', max_entry: '64MiB' },
        limits: { in_flight: '1GiB' },
      },
    });
    const body = template({ size, name: '@NUMBER@' });
    await expectHit(gateway, body, wholeAnswer(datasetOf(size)), { number: 0 });
    const late: number[] = [];
    const most: number[] = [];
    const seconds: number[] = [];
    for (let number = 1; number <= house.settings.rounds; number++) {
      await gateway.asked('delay');
      const began = performance.now();
      await askOnce(gateway, body, { number });
      seconds.push((performance.now() - began) / 1000);
      const delay = await gateway.asked('delay');
      late.push(delay.p99);
      most.push(delay.most);
      await expectHit(gateway, body, wholeAnswer(datasetOf(size)), { number });
    }
    return {
      rows: [
        { title: DELAY, unit: 'ms', figure: figureOf(late) },
        { title: 'event-loop delay, longest', unit: 'ms', figure: figureOf(most) },
        { title: 'time of one such answer', unit: 's', figure: figureOf(seconds) },
      ],
    };
  },
};

export const misses: readonly Scenario[] = [
  lateLoop('miss-50k', 'miss and store, 50 KB, 1 connection', 51_200),
  lateLoop('miss-2m', 'miss and store, 2 MB, 1 connection', 2 * MIB),
  veryLong,
];
