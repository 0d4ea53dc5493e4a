import { setTimeout as delay } from 'node:timers/promises';
import { startRedis } from '../../test/support/redis-server.ts';
import { datasetOf, wholeAnswer } from '../answers.ts';
import { askOnce, contest, expectBytes, expectHit, requestTo, type LoadShape } from '../contest.ts';
import { freePort } from '../../test/support/free-port.ts';
import { ANALYST, basic } from '../credentials.ts';
import { figureOf } from '../figures.ts';
import { ask, type Answer } from '../http.ts';
import { launch, startGateway, writeConfig } from '../gateway.ts';
import { startEngine, type House, type Subject } from '../house.ts';
import { inLanes } from '../lanes.ts';
import { CLIENT_CORE, pinProcess } from '../processes.ts';
import { template, type Question } from '../questions.ts';
import { beginSession } from '../sessions.ts';
import { expectStored, newQuestions } from './misses.ts';
import { expectMixed, mixedLoadOf } from './mixed.ts';
import { firstAnswer } from './process-costs.ts';
import type { Scenario } from './scenario.ts';

const THIS_VERSION = 'this version';
/** So much more CPU time than the other version's is too much. */
const WORSE = 1.1;
const SIZE = 2048;
const SESSIONS = 16;
/** More than a memory tier of 1 MiB holds. */
const IN_REDIS = 2_000;
/** Until all answers are there (ms). */
const PATIENCE = 120_000;

/** One load, and how it is made sure that a gateway answers it as is meant. */
interface Comparison {
  readonly name: string;
  readonly title: string;
  readonly reaches?: 'none' | 'all';
  readonly tolerated?: number;
  /** Settings of a gateway that are not its defaults; each gateway gets its own. */
  settings?(house: House): Promise<Readonly<Record<string, unknown>>>;
  /** @returns the load of this gateway. @throws Error where an answer is not the engine's */
  prepare(house: House, gateway: Subject): Promise<(round: number) => LoadShape>;
}

function otherOf({ settings }: House): string {
  if (settings.other === undefined) throw new Error('--against names no other version');
  return settings.other;
}

/** This version, the other one, and the other one a second time, which shows how far the machine swings. */
function compared(comparison: Comparison): Scenario {
  const { name, title, reaches, tolerated } = comparison;
  return {
    name,
    title: `${title}, beside another version`,
    async run(house) {
      const other = otherOf(house);
      const engine = await startEngine(house);
      const subjects: Subject[] = [];
      const loads = new Map<Subject, (round: number) => LoadShape>();
      for (const [named, main] of [
        [THIS_VERSION, house.settings.gateway],
        ['other version', other],
        ['other version again', other],
      ] as const) {
        const settings = (await comparison.settings?.(house)) ?? {};
        const subject = await startGateway(house, engine.port, { name: named, main, settings });
        subjects.push(subject);
        loads.set(subject, await comparison.prepare(house, subject));
      }
      const load = (subject: Subject, round: number): LoadShape => {
        const made = loads.get(subject);
        if (made === undefined) throw new Error(`${subject.name} has no load`);
        return made(round);
      };
      const results = await contest(house, subjects, load, {
        engine,
        ...(reaches !== undefined && { reaches }),
        ...(tolerated !== undefined && { tolerated }),
      });
      const cpu = (of: Subject | undefined) =>
        results.ratio('', { of, to: subjects[1], quantity: 'cpu', unit: '× the other version' });
      const itself = {
        ...cpu(subjects[2]),
        title: 'CPU time of an answer, the other version and itself',
      };
      return {
        subjects: results.subjects,
        rows: [
          {
            ...cpu(subjects[0]),
            title: 'CPU time of an answer',
            // By as much as the other version differs from itself the machine swings.
            most: WORSE + Math.abs(itself.figure.median - 1),
          },
          itself,
        ],
      };
    },
  };
}

const sameBody = (body: string) => (gateway: Subject) => (): LoadShape => ({
  connections: 32,
  requests: [requestTo(gateway, body)],
});

function hit(name: string, title: string, size: number): Scenario {
  const body = template({ size });
  return compared({
    name,
    title,
    reaches: 'none',
    async prepare(_house, gateway) {
      await expectHit(gateway, body, wholeAnswer(datasetOf(size)));
      return sameBody(body)(gateway);
    },
  });
}

/** How often an open console asks, and what its first page asks for (ms). */
const POLLS_EVERY = 5_000;
const POLLED = ['/admin/status', '/admin/overview'];

/** Rounds must last longer than the time between two polls: `--seconds 6`. */
const polledHit = compared({
  name: 'against-hit-polled',
  title: 'memory hit, 2 KB, while a console polls',
  reaches: 'none',
  // A console asks now and then whether the engine answers.
  tolerated: 0.001,
  settings: async () => ({ auth: { users: './users.htpasswd', admins: [ANALYST] } }),
  async prepare(house, gateway) {
    const body = template({ size: SIZE });
    await expectHit(gateway, body, wholeAnswer(datasetOf(SIZE)));
    if (gateway.name === THIS_VERSION) {
      const headers = basic(ANALYST);
      const polls = POLLED.map((path) => ({ method: 'GET', path, headers }));
      for (const poll of polls) expectStatus(poll.path, await ask(gateway.port, poll));
      const polling = setInterval(() => {
        for (const poll of polls) void ask(gateway.port, poll).catch(() => {});
      }, POLLS_EVERY);
      house.defer(async () => clearInterval(polling));
    }
    return sameBody(body)(gateway);
  },
});

function expectStatus(path: string, { status }: Answer): void {
  if (status !== 200) throw new Error(`${path} was answered with status ${status}`);
}

const freshIds = compared({
  name: 'against-fresh-ids',
  title: 'memory hit, fresh ids in sessions, 2 KB',
  reaches: 'none',
  async prepare(_house, gateway) {
    const body = template({ size: SIZE, session: '@SESSION@', freshIds: true });
    const sessions: string[] = [];
    for (let at = 0; at < SESSIONS; at++) sessions.push(await beginSession(gateway));
    for (const session of sessions) {
      await expectHit(gateway, body, wholeAnswer(datasetOf(SIZE), session), { session });
    }
    return () => ({ connections: 32, requests: [requestTo(gateway, body)], sessions });
  },
});

function pass(name: string, title: string, question: Question): Scenario {
  const body = template(question);
  return compared({
    name,
    title,
    reaches: 'all',
    async prepare(_house, gateway) {
      const answer = await askOnce(gateway, body);
      expectBytes(gateway.name, answer.body, wholeAnswer(datasetOf(question.size)));
      return sameBody(body)(gateway);
    },
  });
}

const miss = compared({
  name: 'against-miss',
  title: 'miss and store, 2 KB',
  reaches: 'all',
  async prepare(_house, gateway) {
    await expectStored(gateway, SIZE);
    const load = newQuestions(SIZE, 32);
    return (round) => load(gateway, round);
  },
});

const mixed = compared({
  name: 'against-mixed',
  title: 'mixed',
  async prepare(house, gateway) {
    await expectMixed(house, gateway);
    const load = mixedLoadOf(house);
    return (round) => load(gateway, round);
  },
});

const redisHit = compared({
  name: 'against-redis',
  title: 'Redis hit, 2 KB',
  reaches: 'none',
  tolerated: 0.01,
  async settings(house) {
    const redis = await startRedis();
    house.defer(redis.close);
    await pinProcess(redis.pid, CLIENT_CORE);
    return { cache: { memory: '1MiB', max_entry: '512KiB', redis: { url: redis.url } } };
  },
  async prepare(_house, gateway) {
    const body = template({ size: SIZE, name: '@NUMBER@' });
    const expected = wholeAnswer(datasetOf(SIZE));
    await inLanes(IN_REDIS, async (number) => {
      expectBytes(gateway.name, (await askOnce(gateway, body, { number })).body, expected);
    });
    await allInRedis(gateway, body, IN_REDIS);
    return () => ({
      connections: 32,
      requests: [requestTo(gateway, body)],
      numbers: { from: 0, count: IN_REDIS },
    });
  },
});

/** Waits until each question is answered from Redis: what is stored there is written after its answer. */
async function allInRedis(gateway: Subject, body: string, count: number): Promise<void> {
  const deadline = performance.now() + PATIENCE;
  await inLanes(count, async (number) => {
    for (;;) {
      const said = await statusOf(gateway, body, number);
      // The last questions are still in memory the first time around.
      if (said.includes('; hit;')) return;
      if (performance.now() > deadline) throw new Error(`question ${number}: ${said}`);
      await delay(5);
    }
  });
  const said = await statusOf(gateway, body, 0);
  if (!said.endsWith('detail=redis')) throw new Error(`not from Redis: ${said}`);
}

async function statusOf(gateway: Subject, body: string, number: number): Promise<string> {
  const { headers } = await askOnce(gateway, body, { number });
  return String(headers['cache-status']);
}

/** From the start of a process to the last byte of its first answer. */
const coldStart: Scenario = {
  name: 'against-cold-start',
  title: 'cold start to the first answer, beside another version',
  async run(house) {
    const other = otherOf(house);
    const engine = await startEngine(house);
    const expected = wholeAnswer(datasetOf(SIZE));
    const starts = await Promise.all(
      [house.settings.gateway, other, other].map(async (main, at) => {
        const folder = house.folder(`cold-${at}`);
        const port = await freePort();
        await writeConfig(folder, port, engine.port);
        return () => firstAnswer(() => launch(main, folder), port, expected);
      }),
    );
    // The first start makes the storage, and has the system read the files.
    for (const start of starts) await start();
    const rounds: number[][] = [];
    for (let round = 0; round < house.settings.rounds; round++) {
      const times: number[] = [];
      for (const start of starts) times.push(await start());
      rounds.push(times);
    }
    const later = (by: number) =>
      figureOf(rounds.map((times) => (times[by] ?? NaN) - (times[1] ?? NaN)));
    const of = (at: number) => figureOf(rounds.map((times) => times[at] ?? NaN));
    return {
      rows: [
        { title: 'cold start, later than', unit: 'ms', figure: later(0) },
        { title: 'the other version later than itself', unit: 'ms', figure: later(2) },
        { title: 'this version', unit: 'ms', figure: of(0) },
        { title: 'other version', unit: 'ms', figure: of(1) },
      ],
    };
  },
};

export const againstOther: readonly Scenario[] = [
  hit('against-hit', 'memory hit, 2 KB', SIZE),
  polledHit,
  hit('against-hit-50k', 'memory hit, 50 KB', 51_200),
  freshIds,
  redisHit,
  pass('against-pass', 'pass-through, DRILLTHROUGH, 2 KB', { size: SIZE, kind: 'drillthrough' }),
  mixed,
  miss,
  coldStart,
];
