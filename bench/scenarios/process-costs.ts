import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../test/support/free-port.ts';
import { datasetOf, wholeAnswer } from '../answers.ts';
import {
  askOnce,
  contest,
  expectBytes,
  expectHit,
  isHit,
  requestTo,
  type LoadShape,
} from '../contest.ts';
import { ANALYST, basic } from '../credentials.ts';
import { figureOf } from '../figures.ts';
import { launch, startGateway, writeConfig } from '../gateway.ts';
import { startEngine, type Subject } from '../house.ts';
import { ask } from '../http.ts';
import { inLanes } from '../lanes.ts';
import type { Running } from '../processes.ts';
import { template, XMLA_HEADERS } from '../questions.ts';
import type { Scenario } from './scenario.ts';

/** From the start of a process to the last byte of its first answer. */
const coldStart: Scenario = {
  name: 'cold-start',
  title: 'cold start to the first answer, embedded defaults',
  async run(house) {
    const engine = await startEngine(house);
    const folder = house.folder('cold');
    const port = await freePort();
    await writeConfig(folder, port, engine.port);
    const expected = wholeAnswer(datasetOf(2048));
    const start = () => firstAnswer(() => launch(house.settings.gateway, folder), port, expected);
    // The first start makes the storage, and has the system read the files.
    await start();
    const took: number[] = [];
    for (let round = 0; round < house.settings.rounds; round++) took.push(await start());
    return {
      rows: [{ title: 'cold start', unit: 'ms', figure: figureOf(took) }],
      notes: ['the first login, a bcrypt of cost 10, is in the figure'],
    };
  },
};

/** Milliseconds. Asks until there is an answer, then ends the process. */
export async function firstAnswer(
  begin: () => Running,
  port: number,
  expected?: Buffer,
): Promise<number> {
  const headers = { ...XMLA_HEADERS, ...basic(ANALYST) };
  const body = template({ size: 2048 });
  const began = performance.now();
  const running = begin();
  try {
    for (;;) {
      try {
        const answer = await ask(port, { path: '/mdx/xmla', headers, body });
        const took = performance.now() - began;
        if (answer.status !== 200) throw new Error(`status ${answer.status} after the start`);
        if (expected !== undefined) expectBytes('first answer', answer.body, expected);
        return took;
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? error.code : undefined;
        if (code !== 'ECONNREFUSED' || performance.now() - began > 30_000) throw error;
        await delay(1);
      }
    }
  } finally {
    await running.stop();
  }
}

/** What an entry takes beside its body: memory after garbage collection, with entries less without them. */
const entryMemory: Scenario = {
  name: 'entry-memory',
  title: 'memory beside the body, entries of 2 KB',
  async run(house) {
    const size = 2048;
    const count = house.settings.quick ? 2_000 : 30_000;
    const WARM = 5_000;
    const engine = await startEngine(house);
    const gateway = await startGateway(house, engine.port, { probe: true });
    const body = template({ size, name: '@NUMBER@' });
    // What is made once, code and tables that grow, must not be counted with the entries.
    const fill = (from: number, many: number) =>
      inLanes(many, async (at) => void (await askOnce(gateway, body, { number: from + at })));
    await fill(90_000_000, Math.min(WARM, count));
    const before = await gateway.asked('memory');
    await fill(0, count);
    const after = await gateway.asked('memory');
    for (let number = 0; number < count; number += Math.ceil(count / 500)) {
      const answer = await askOnce(gateway, body, { number });
      if (!isHit(gateway, answer)) throw new Error(`entry ${number} is not stored`);
    }
    const grown = (of: 'heapUsed' | 'external' | 'rss') => (after[of] - before[of]) / count / 1024;
    const beside = grown('heapUsed') + grown('external') - size / 1024;
    return {
      rows: [
        {
          title: 'memory beside the body',
          unit: 'KiB',
          figure: figureOf([beside]),
        },
        {
          title: 'resident memory beside the body',
          unit: 'KiB',
          figure: figureOf([grown('rss') - size / 1024]),
        },
      ],
      notes: [
        `${count} entries; heap ${grown('heapUsed').toFixed(2)} KiB, outside of it ${grown('external').toFixed(2)} KiB each`,
      ],
    };
  },
};

const workers: Scenario = {
  name: 'workers',
  title: 'two workers: CPU time of a memory hit, 2 KB',
  async run(house) {
    const size = 2048;
    const engine = await startEngine(house);
    const one = await startGateway(house, engine.port, { name: 'one process' });
    const two = await startGateway(house, engine.port, {
      name: 'two workers',
      settings: { workers: 2 },
    });
    const body = template({ size });
    const expected = wholeAnswer(datasetOf(size));
    await expectHit(one, body, expected);
    // Each worker has a memory of its own, and a new connection goes to the next one.
    for (let turn = 0; turn < 8; turn++)
      expectBytes('two workers', (await askOnce(two, body)).body, expected);
    await expectHit(two, body, expected);
    const load = (subject: Subject): LoadShape => ({
      connections: 32,
      requests: [requestTo(subject, body)],
    });
    const results = await contest(house, [one, two], load, { engine, reaches: 'none' });
    return {
      subjects: results.subjects,
      rows: [
        results.ratio('CPU time of one answer', {
          of: two,
          to: one,
          quantity: 'cpu',
          unit: '× one process',
        }),
      ],
      notes: ['all processes on one core; what keeps the epochs is counted with the workers'],
    };
  },
};

export const processCosts: readonly Scenario[] = [coldStart, entryMemory, workers];
