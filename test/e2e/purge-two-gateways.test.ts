import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  ask,
  dataAnswer,
  purge,
  startDataEngine,
  startGateway,
  untilHit,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import '../support/patient-redis.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { gate } from '../support/stub-engine.ts';
import type { TestGateway } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

let redis: RedisServer;
let engine: DataEngine;
let hearing: TestGateway;
/** May not subscribe: it hears of no purge, and tells nobody of its own. */
let deaf: TestGateway;

beforeAll(async () => {
  redis = await startRedis();
  await askRedis(redis.port, 'ACL SETUSER deaf on >secret ~* resetchannels +@all');
  engine = await startDataEngine();
  hearing = await startGateway(engine, redis.url);
  deaf = await startGateway(engine, `redis://deaf:secret@127.0.0.1:${redis.port}`);
});
beforeEach(async () => {
  engine.data = 'old';
  await purge(hearing);
  engine.seen.splice(0);
});
afterAll(async () => {
  await hearing?.close();
  await deaf?.close();
  await engine?.close();
  await redis?.close();
});

/** Asks a gateway without pause, so that it holds epochs that are as young as can be. */
function keepAsking(gateway: TestGateway): () => Promise<void> {
  const stop = new AbortController();
  const asking = (async () => {
    while (!stop.signal.aborted) await ask(gateway);
  })();
  return async () => {
    stop.abort();
    await asking;
  };
}

describe('two gateways on one Redis', () => {
  test('one of which cannot be told of purges', async () => {
    await until(
      () => deaf.events,
      (told) => told.some(({ type }) => type === 'redis-failed'),
    );
    await until(
      () => askRedis(redis.port, 'PUBSUB NUMSUB {mdx}:2:forget'),
      (reply) => reply.endsWith(':1\r\n'),
    );
  });

  test.each([
    ['the one that hears, through the other', () => deaf, 'a'],
    ['the one that hears nothing, through the other', () => hearing, 'a'],
    ['all of it, through the one that hears', () => hearing, undefined],
    ['all of it, through the one that hears nothing', () => deaf, undefined],
  ] as const)(
    'answer nothing of before once a purge was acknowledged: %s',
    async (_which, through, project) => {
      const stop = [keepAsking(hearing), keepAsking(deaf)];
      for (const round of sampled([1, 2, 3, 4, 5, 6, 7, 8], 4)) {
        await Promise.all([untilHit(hearing), untilHit(deaf)]);
        engine.data = `data ${round}`;
        const { status, text } = await purge(through(), project);
        expect([status, text]).toEqual([
          200,
          project === undefined ? 'Cache has been cleared.' : 'a Cache has been cleared.',
        ]);
        const after = await Promise.all([ask(hearing), ask(deaf)]);
        expect(after.map(({ body }) => body)).toEqual(Array(2).fill(dataAnswer(`data ${round}`)));
      }
      for (const stopOne of stop) await stopOne();
    },
  );

  test('keep what is not concerned', async () => {
    await untilHit(hearing, { project: 'b' });
    await untilHit(deaf, { project: 'b' });
    engine.data = 'new';
    await purge(hearing, 'a');
    for (const gateway of [hearing, deaf]) {
      const answers = await untilHit(gateway, { project: 'b' });
      expect(answers.at(-1)?.body).toBe(dataAnswer('old', { project: 'b' }));
    }
  });

  test('purge a project however its name is spelt', async () => {
    await untilHit(deaf, { project: 'caf%C3%A9' });
    engine.data = 'new';
    await purge(hearing, 'CAFE\u0301');
    const after = await ask(deaf, { project: 'caf%C3%A9' });
    expect(after.body).toContain('new');
  });

  test('do not let a slow answer of before come back after the purge', async () => {
    const [asked, release] = [gate(), gate()];
    engine.answerWith(async (response) => {
      const body = dataAnswer(engine.data);
      response.writeHead(200, { 'content-type': 'text/xml' });
      response.write(body.slice(0, 50));
      asked.open();
      await release.opened;
      response.end(body.slice(50));
    });
    const slow = ask(deaf);
    await asked.opened;
    engine.data = 'new';
    await purge(hearing, 'a');
    release.open();
    expect((await slow).body).toBe(dataAnswer('old'));
    for (const gateway of [deaf, hearing, deaf]) {
      expect((await ask(gateway)).body).toBe(dataAnswer('new'));
    }
  });
});
