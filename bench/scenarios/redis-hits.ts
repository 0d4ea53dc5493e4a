import { setTimeout as delay } from 'node:timers/promises';
import { startRedis } from '../../test/support/redis-server.ts';
import { datasetOf, wholeAnswer } from '../answers.ts';
import { askOnce, atLeast, contest, expectBytes, requestTo, type LoadShape } from '../contest.ts';
import { startGateway } from '../gateway.ts';
import { startEngine, startServer, type Subject } from '../house.ts';
import { inLanes } from '../lanes.ts';
import { CLIENT_CORE, pinProcess } from '../processes.ts';
import { template } from '../questions.ts';
import type { Scenario } from './scenario.ts';

/** Until all answers are in Redis (ms). */
const PATIENCE = 120_000;
/** On a machine with other load Redis is now and then too late to answer, and the engine is asked. */
const LATE = 0.01;

/**
 * Many questions in turn, more than the memory tier holds: what is asked again was dropped from it long before, so
 * each answer comes from Redis.
 * @param count of questions; their answers must take several times 1 MiB, the smallest memory tier
 */
function redisHits(name: string, title: string, size: number, count: number): Scenario {
  return {
    name,
    title,
    async run(house) {
      const redis = await startRedis();
      house.defer(redis.close);
      await pinProcess(redis.pid, CLIENT_CORE);
      const engine = await startEngine(house);
      const bare = await startServer(house, 'bare with getBuffer', 'redis-reader.ts', [
        redis.port,
        count,
        size,
      ]);
      const gateway = await startGateway(house, engine.port, {
        settings: { cache: { memory: '1MiB', max_entry: '512KiB', redis: { url: redis.url } } },
      });
      const body = template({ size, name: '@NUMBER@' });
      const expected = wholeAnswer(datasetOf(size));
      await inLanes(count, async (number) => {
        expectBytes('gateway', (await askOnce(gateway, body, { number })).body, expected);
      });
      await allInRedis(gateway, body, count);
      const load = (subject: Subject): LoadShape => ({
        connections: 32,
        requests: [requestTo(subject, body)],
        numbers: { from: 0, count },
      });
      const tolerated = house.settings.quick ? 1 : LATE;
      const options = { engine, reaches: 'none', tolerated } as const;
      const results = await contest(house, [bare, gateway], load, options);
      return {
        subjects: results.subjects,
        rows: [
          results.ratio('Redis hit', {
            of: gateway,
            to: bare,
            unit: '× bare with one getBuffer',
            target: atLeast(0.8),
          }),
        ],
        notes: [`${count} questions in turn over cache.memory of 1 MiB`],
      };
    },
  };
}

/** Waits until each question is answered from Redis: what is stored there is written after its answer. */
export async function allInRedis(gateway: Subject, body: string, count: number): Promise<void> {
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

export const redisHitScenarios: readonly Scenario[] = [
  redisHits('redis-2k', 'Redis hits, 2 KB', 2048, 2_000),
  redisHits('redis-50k', 'Redis hits, 50 KB', 51_200, 200),
];
