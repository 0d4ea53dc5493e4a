import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { checkedFetch } from '../support/checked-requests.ts';
import {
  ask,
  dataAnswer,
  purge,
  redisHealth,
  startDataEngine,
  startGateway,
  untilHit,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { basic, type TestGateway } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

/** The machine may be busy (ms). */
const PATIENCE = 300_000;
/** What this Redis lets the gateway do that purges, beside what a fault takes from it. */
const ALL_RIGHTS = 'ACL SETUSER limited on >limited ~* &* +@all';

let redis: RedisServer;
let hole: BlackHole;
let engine: DataEngine;
/** Its purges are not confirmed. It comes to Redis through the hole, as the user limited. */
let purger: TestGateway;
let other: TestGateway;

beforeEach(async () => {
  redis = await startRedis();
  await askRedis(redis.port, ALL_RIGHTS);
  hole = await startBlackHole(redis.port);
  engine = await startDataEngine();
  purger = await startGateway(engine, `redis://limited:limited@127.0.0.1:${hole.port}`);
  other = await startGateway(engine, redis.url);
});
afterEach(async () => {
  await purger?.close();
  await other?.close();
  await engine?.close();
  await hole?.close();
  await redis?.close();
});

interface Fault {
  readonly name: string;
  begin(): Promise<unknown>;
  end(): Promise<unknown>;
  /** Whether Redis carries the purge out all the same. */
  readonly carriedOut?: boolean;
}

const without = (right: string): Fault => ({
  name: `the right to ${right} is missing`,
  begin: () => askRedis(redis.port, `ACL SETUSER limited ${right}`),
  end: () => askRedis(redis.port, ALL_RIGHTS),
});

const FAULTS: readonly Fault[] = [
  {
    name: 'Redis has ended',
    begin: () => redis.stop('SIGKILL'),
    async end() {
      await redis.restart();
      await askRedis(redis.port, ALL_RIGHTS);
    },
  },
  { name: 'Redis hangs', begin: () => hole.set('hang'), end: () => hole.set('forward') },
  {
    name: 'the reply is swallowed',
    begin: () => hole.set('mute'),
    end: () => hole.set('forward'),
    carriedOut: true,
  },
  {
    name: 'Redis is a read-only replica',
    // Of nobody: what it holds stays.
    begin: () => askRedis(redis.port, 'REPLICAOF 127.0.0.1 1'),
    end: () => askRedis(redis.port, 'REPLICAOF NO ONE'),
  },
  {
    name: 'Redis is full and evicts nothing',
    begin: () => askRedis(redis.port, 'CONFIG SET maxmemory 1'),
    end: () => askRedis(redis.port, 'CONFIG SET maxmemory 0'),
  },
  ...['-evalsha', '-info', '-get', '-set', '-zadd', '-time', 'resetkeys'].map(without),
  // It comes after the new epoch was set.
  { ...without('-pexpire'), carriedOut: true },
];

const epochOfA = () => askRedis(redis.port, 'GET {mdx}:2:epoch:project:a');

async function memoryEntries(): Promise<string | undefined> {
  const response = await checkedFetch(`${purger.url}/metrics`, {
    headers: { authorization: basic('alice') },
  });
  return /^mdx_gateway_memory_entries (\d+)/mu.exec(await response.text())?.[1];
}

describe.each(sampled(FAULTS).map((fault) => [fault.name, fault] as const))(
  'when %s',
  (_name, fault) => {
    test(
      'a purge says that it was not done, and is done before any epoch is used again',
      async () => {
        await untilHit(purger);
        await untilHit(other);
        const before = await epochOfA();
        expect(before).toMatch(/^\$\d+\r\n/u);
        await fault.begin();
        engine.data = 'new';

        for (const headers of [{}, { accept: 'application/json' }]) {
          const refused = await purge(purger, 'a', headers);
          expect(refused.status).toBe(503);
          expect(refused.text).not.toMatch(/cleared/iu);
        }
        if (fault.carriedOut === true) await until(epochOfA, (epoch) => epoch !== before);
        expect(await memoryEntries()).toBe('0');
        expect((await redisHealth(purger)).purges_owed).toBe(2);
        for (let i = 0; i < 3; i += 1) {
          const { cache, body } = await ask(purger);
          expect([cache, body]).toEqual(['fwd=bypass; detail=epochs-unknown', dataAnswer('new')]);
        }

        await fault.end();
        const first = await until(
          () => ask(purger),
          ({ cache, body }) => {
            expect(body).toBe(dataAnswer('new'));
            return !cache.startsWith('fwd=bypass');
          },
        );
        // It uses an epoch, so none is owed.
        expect([first.status, (await redisHealth(purger)).purges_owed]).toEqual([200, 0]);
        expect(await epochOfA()).not.toBe(before);
        await until(
          () => ask(other),
          ({ body }) => body === dataAnswer('new'),
        );
        expect(new Set((await untilHit(other)).map(({ body }) => body))).toEqual(
          new Set([dataAnswer('new')]),
        );
      },
      PATIENCE,
    );
  },
);

describe.each(sampled(['-publish', '-subscribe', 'resetchannels']))(
  'when the right to send or hear messages is missing (%s)',
  (right) => {
    test(
      'a purge is confirmed, and nobody answers from before it',
      async () => {
        // Rights are asked for at the subscription.
        await askRedis(redis.port, `ACL SETUSER limited ${right}`);
        await askRedis(redis.port, 'CLIENT KILL USER limited');
        await untilHit(purger);
        await untilHit(other);
        for (const [from, data] of [
          [purger, 'new'],
          [other, 'newer'],
        ] as const) {
          engine.data = data;
          // A busy machine may miss the deadline of Redis.
          await until(
            () => purge(from, 'a'),
            ({ status }) => status === 200,
          );
          for (const gateway of [purger, other]) {
            const answers = await untilHit(gateway);
            expect(new Set(answers.map(({ body }) => body))).toEqual(new Set([dataAnswer(data)]));
          }
        }
      },
      PATIENCE,
    );
  },
);
