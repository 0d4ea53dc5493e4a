import { datasetOf, wholeAnswer } from '../answers.ts';
import {
  askOnce,
  atLeast,
  atMost,
  contest,
  expectHit,
  requestTo,
  type LoadShape,
} from '../contest.ts';
import { figureOf } from '../figures.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, startServer, type Subject } from '../house.ts';
import { sendLoad } from '../load/wrk.ts';
import { startNginx } from '../peers/nginx.ts';
import { startVarnish } from '../peers/varnish.ts';
import { template } from '../questions.ts';
import type { Row } from '../report.ts';
import { withPeers, type Scenario } from './scenario.ts';

const MIB = 1024 * 1024;
const DELAY = 'event-loop delay, 99th percentile';
/** So many numbers are there for the questions of one round: more than any server answers in it. */
const OF_A_ROUND = 1_000_000;

/** Between two requests of one client (ms): a user looks at an answer, and what is done after it is done by then. */
const PAUSE = 20;
const PAUSED_ROUNDS = 50;

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

const small: Scenario = {
  name: 'miss-2k',
  title: 'miss and store, 2 KB, 32 connections',
  async run(house) {
    const size = 2048;
    const engine = await startEngine(house);
    const undici = await startServer(house, 'bare with undici', 'forward.ts', [engine.port]);
    const gateway = await startGateway(house, engine.port);
    const nginx = house.settings.peers ? (await startNginx(house, engine.port)).PLAIN : undefined;
    const varnish = house.settings.peers ? await startVarnish(house, engine.port) : undefined;
    const subjects = [undici, gateway, nginx, varnish].filter((one) => one !== undefined);
    for (const subject of subjects) await expectStored(subject, size);
    const load = newQuestions(size, 32);
    const results = await contest(house, subjects, load, { engine, reaches: 'all' });
    return {
      subjects: results.subjects,
      rows: [
        ...withPeers(house, () => [
          results.ratio('miss and store', { of: gateway, to: nginx, target: atLeast(1.3) }),
          results.ratio('miss and store', { of: gateway, to: varnish }),
        ]),
        results.ratio('miss and store', { of: gateway, to: undici, target: atLeast(0.6) }),
      ],
    };
  },
};

/** Longer answers, one at a time: how much later their last byte comes, and how late the event loop is meanwhile. */
function lastByte(name: string, title: string, size: number): Scenario {
  return {
    name,
    title,
    async run(house) {
      const engine = await startEngine(house);
      const undici = await startServer(house, 'bare with undici', 'forward.ts', [engine.port]);
      const gateway = await startGateway(house, engine.port);
      const probed = await startGateway(house, engine.port, {
        name: 'gateway with probe',
        probe: true,
      });
      for (const subject of [undici, gateway]) await expectStored(subject, size);
      const load = newQuestions(size, 1);
      const paused = (subject: Subject, round: number) => ({
        // Other questions than those of the rounds without a pause.
        ...load(subject, PAUSED_ROUNDS + round),
        pause: PAUSE,
      });
      const asked = { engine, reaches: 'all' } as const;
      const results = await contest(house, [undici, gateway], paused, asked);
      const busy = await contest(house, [undici, gateway], load, asked);
      const late: number[] = [];
      const { rounds, seconds } = house.settings;
      for (let round = 0; round <= rounds; round++) {
        await probed.asked('delay');
        await sendLoad(
          { ...load(probed, round), port: probed.port, seconds },
          house.folder('load'),
        );
        const { p99 } = await probed.asked('delay');
        // The first one is a warm-up.
        if (round > 0) late.push(p99);
      }
      return {
        subjects: [...results.subjects, ...busy.subjects],
        rows: [
          results.ratio(`client's last byte, ${PAUSE} ms between two requests`, {
            of: gateway,
            to: undici,
            quantity: 'p50',
            target: atMost(1.25),
          }),
          busy.ratio("client's last byte, one request after the other", {
            of: gateway,
            to: undici,
            quantity: 'p50',
          }),
          delayRow(late),
        ],
      };
    },
  };
}

function delayRow(values: readonly number[]): Row {
  return {
    title: DELAY,
    unit: 'ms',
    figure: figureOf(values),
    target: atMost(20),
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
        // What is promised is promised up to 2 MB.
        { title: DELAY, unit: 'ms', figure: figureOf(late) },
        { title: 'event-loop delay, longest', unit: 'ms', figure: figureOf(most) },
        { title: 'time of one such answer', unit: 's', figure: figureOf(seconds) },
      ],
    };
  },
};

export const misses: readonly Scenario[] = [
  small,
  lastByte('miss-50k', 'miss and store, 50 KB, 1 connection', 51_200),
  lastByte('miss-2m', 'miss and store, 2 MB, 1 connection', 2 * MIB),
  veryLong,
];
