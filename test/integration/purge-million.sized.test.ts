import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import '../support/patient-redis.ts';
import { onConnection } from '../support/redis-client.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { sizes } from '../support/sizes.ts';
import { gate } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { purge, startDataEngine, untilHit, type DataEngine } from './cache/gateways.ts';
import { until } from './cache/redis-house.ts';

const FEW = 100;
const MANY = sizes.purgedEntries;
/** Keys that one step of the script makes, so that Redis answers others in between. */
const STEP = 10_000;
/** A shorter pause is none of a purge (ms). */
const PURGE_WAIT = 100;
/** Filling and sweeping a Redis may take long on a busy machine (ms). */
const PATIENCE = 1_800_000;
/** What this test sends, and what depends on the moment: signs of life, and notes of leases that are over. */
const OF_OTHERS = /^(?:info|client\|.*|config\|.*|ping|zadd|zrem|zremrangebyscore)$/u;
/** What looks at every key, in one go or in steps. */
const OF_ALL_KEYS = ['keys', 'scan', 'flushdb', 'dbsize'];
/** What looking at the counts adds to them. */
const OF_LOOKS = /^(?:info|client\|.*)$/u;
/** The most that a sweep sends between two pauses: the same for any number of entries. */
const BETWEEN_PAUSES = 1_000;

interface World {
  readonly entries: number;
  readonly redis: RedisServer;
  readonly gateway: TestGateway;
  /** Lets the sweeps go on; `paused` is called in each pause. */
  sweep(paused: () => Promise<void>): void;
}

let engine: DataEngine;
let few: World;
let many: World;
const cleanups: (() => Promise<void>)[] = [];

beforeAll(async () => {
  engine = await startDataEngine();
  cleanups.push(engine.close);
  few = await startWorld(FEW);
  many = await startWorld(MANY);
}, PATIENCE);
afterAll(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A gateway with a Redis in which so many entries lie, half of them of the project that is purged. */
async function startWorld(entries: number): Promise<World> {
  const redis = await startRedis();
  cleanups.push(redis.close);
  const onward = gate();
  let paused = async () => {};
  const gateway = await startTestGateway(
    {
      engine: { url: `${engine.url}/{project}` },
      cache: { lease: '100ms', redis: { url: redis.url } },
    },
    {
      async sleep(milliseconds) {
        if (milliseconds >= PURGE_WAIT) return delay(milliseconds);
        await onward.opened;
        await paused();
      },
    },
  );
  cleanups.push(gateway.close);
  for (const project of ['a', 'b']) {
    const before = await keysIn(redis);
    await untilHit(gateway, { project });
    await until(
      () => keysIn(redis),
      (count) => count > before,
    );
  }
  await fill(redis, entries);
  return {
    entries,
    redis,
    gateway,
    sweep(next) {
      paused = next;
      onward.open();
    },
  };
}

/** How many entries lie there. */
async function keysIn({ port }: RedisServer): Promise<number> {
  const found = await askRedis(port, `EVAL "return #redis.call('KEYS', ARGV[1])" 0 mdx:entry:*`);
  return Number(found.slice(1));
}

/** Copies the two entries that are there, each as often as the other, until there are so many. */
async function fill({ port }: RedisServer, entries: number): Promise<void> {
  const list = await askRedis(port, `EVAL "return redis.call('KEYS', ARGV[1])" 0 mdx:entry:*`);
  const models = list.split('\r\n').filter((line) => line.startsWith('mdx:entry:'));
  expect(models).toHaveLength(2);
  const script = [
    `local values = { redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) }`,
    `for i = ARGV[1], ARGV[2] do`,
    `local name = 'mdx:entry:' .. redis.sha1hex(tostring(i)) .. 'abc'`,
    `redis.call('SET', name, values[1 + i % 2], 'PX', 36000000)`,
    `end return 1`,
  ].join(' ');
  for (let made = models.length; made < entries; made += STEP) {
    const last = Math.min(made + STEP, entries) - 1;
    const reply = await askRedis(port, `EVAL "${script}" 2 ${models.join(' ')} ${made} ${last}`);
    expect(reply).toBe(':1\r\n');
  }
}

/** How often each command was carried out since the last reset. */
async function commands({ port }: RedisServer): Promise<ReadonlyMap<string, number>> {
  const stats = await onConnection(port, {}, (redis) => redis.info('commandstats'));
  return new Map(
    [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gmu)].map(([, name = '', calls]) => [
      name,
      Number(calls),
    ]),
  );
}

interface Measured {
  /** Until the answer, less what was waited for the lease (ms). */
  readonly work: number;
  readonly total: number;
  readonly commands: Readonly<Record<string, number>>;
}

/** One purge, with the commands that it sent. A busy machine may miss the deadline of Redis; then it is repeated. */
async function measurePurge({ redis, gateway }: World): Promise<Measured> {
  for (;;) {
    await askRedis(redis.port, 'CONFIG RESETSTAT');
    const started = performance.now();
    const { status, text } = await purge(gateway, 'a', { accept: 'application/json' });
    const total = performance.now() - started;
    // What follows the answer, too.
    const sent = await quietCommands(redis);
    // Now and then the gateway also looks whether it still has its rights, for which it subscribes.
    if (status !== 200 || sent.has('subscribe')) continue;
    const { waited } = JSON.parse(text) as { waited: number };
    const own = [...sent].filter(([name]) => !OF_OTHERS.test(name)).sort();
    return { work: total - waited, total, commands: Object.fromEntries(own) };
  }
}

/** The commands when for some looks none has come. */
async function quietCommands(redis: RedisServer): Promise<ReadonlyMap<string, number>> {
  let calm = 0;
  let last = new Map<string, number>() as ReadonlyMap<string, number>;
  while (calm < 5) {
    await delay(10);
    const now = await commands(redis);
    const sum = (counts: typeof now) =>
      [...counts].reduce((all, [name, count]) => (OF_LOOKS.test(name) ? all : all + count), 0);
    calm = sum(now) === sum(last) ? calm + 1 : 0;
    last = now;
  }
  return last;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? NaN;
}

const ratio = (one: readonly number[], other: readonly number[]) =>
  (median(one) / median(other)).toFixed(2);

test(
  `a purge of one project sends Redis the same for ${MANY} entries as for ${FEW}`,
  async () => {
    const measured = { few: [] as Measured[], many: [] as Measured[] };
    // The first one makes what later ones find, scripts and keys of its own, and begins a sweep, which is held.
    for (const world of [few, many]) await measurePurge(world);
    for (let round = 0; round < sizes.purgeRounds; round += 1) {
      measured.few.push(await measurePurge(few));
      measured.many.push(await measurePurge(many));
    }
    const timesOf = (list: readonly Measured[], which: 'work' | 'total') =>
      list.map((one) => one[which]);
    console.log(
      (['total', 'work'] as const)
        .map((which) => {
          const [less, more] = [timesOf(measured.few, which), timesOf(measured.many, which)];
          return `${which}: ${median(less).toFixed(1)} ms with ${FEW} entries, ${median(more).toFixed(1)} ms with ${MANY}; ratio ${ratio(more, less)}`;
        })
        .join('\n') + `\n${JSON.stringify(measured.many[0]?.commands)}`,
    );
    expect(await keysIn(many.redis)).toBeGreaterThanOrEqual(MANY);
    const [expected] = measured.few;
    expect(Object.keys(expected?.commands ?? {})).toContain('evalsha');
    for (const one of [...measured.few, ...measured.many]) {
      expect(one.commands).toEqual(expected?.commands);
      expect(OF_ALL_KEYS.filter((name) => name in one.commands)).toEqual([]);
    }
  },
  PATIENCE,
);

test(
  'what the purge made unreachable is dropped in the background, in bounded steps',
  async () => {
    const { redis, gateway } = many;
    const steps: number[] = [];
    let before = 0;
    many.sweep(async () => {
      const sum = [...(await commands(redis))].reduce((all, [, count]) => all + count, 0);
      steps.push(sum - before);
      before = sum;
    });
    const meanwhile = await measuredWhile(() =>
      gateway.events.some(({ type }) => type === 'swept'),
    );
    await until(
      () => gateway.events.filter(({ type }) => type === 'swept').length,
      (count) => count > 0,
    );
    const swept = gateway.events.find((event) => event.type === 'swept');
    const longest = steps.slice(1).reduce((most, step) => Math.max(most, step), 0);
    console.log(
      `${JSON.stringify(swept)} in ${steps.length} steps of at most ${longest} commands; ` +
        `hits meanwhile: ${meanwhile}`,
    );
    expect(swept).toMatchObject({ unlinked: expect.any(Number) });
    // Of b nothing was purged.
    expect(await keysIn(redis)).toBe(MANY / 2);
    expect((await untilHit(gateway, { project: 'b' })).map(({ status }) => status)).toContain(200);
    expect(longest).toBeLessThan(BETWEEN_PAUSES);
  },
  PATIENCE,
);

/** Asks until it is over; resolves to the number of hits. */
async function measuredWhile(over: () => boolean): Promise<number> {
  let hits = 0;
  while (!over()) {
    const answers = await untilHit(many.gateway, { project: 'b' });
    hits += answers.length;
    await delay(5);
  }
  return hits;
}
