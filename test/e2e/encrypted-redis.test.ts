import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { constants, inflateRawSync } from 'node:zlib';
import {
  ask,
  askKnown,
  purge,
  startDataEngine,
  untilHit,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { execute } from '../support/envelopes.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { askStamped, beginSession, inSession } from '../support/stamped-client.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const KEY = 'a secret of more than thirty-two letters';
const PROJECT = 'Payroll';
const SHORT = 'the salary of somebody';

let redis: RedisServer;
let client: Redis;
let engine: DataEngine;
const gateways: TestGateway[] = [];

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  engine = await startDataEngine();
});
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
  await client.flushall();
});
afterAll(async () => {
  client?.disconnect();
  await engine?.close();
  await redis?.close();
});

async function gatewayWith(
  encryption_key: string | undefined,
  url = `${engine.url}/{project}`,
  kind = 'generic',
): Promise<TestGateway> {
  const gateway = await startTestGateway({
    engine: { url, kind },
    cache: {
      lease: '100ms',
      max_entry: '8MiB',
      redis: { url: redis.url, ...(encryption_key && { encryption_key }) },
    },
  });
  gateways.push(gateway);
  return gateway;
}

/** Every name in Redis with all that lies there under it. */
async function dump(): Promise<ReadonlyMap<string, Buffer>> {
  const found = new Map<string, Buffer>();
  for (const name of (await client.keys('*')).sort()) {
    const type = await client.type(name);
    if (type === 'string') found.set(name, (await client.getBuffer(name)) ?? Buffer.of());
    else if (type === 'hash') {
      const fields = Object.entries(await client.hgetallBuffer(name));
      found.set(name, Buffer.concat(fields.flatMap(([field, text]) => [Buffer.from(field), text])));
    } else if (type === 'list') {
      found.set(name, Buffer.concat(await client.lrangeBuffer(name, 0, -1)));
    } else if (type === 'zset') {
      found.set(name, Buffer.concat(await client.zrangeBuffer(name, '0', '-1')));
    } else if (type !== 'none') throw new Error(`nobody knows how to read a ${type}: ${name}`);
  }
  return found;
}

/** What the bytes say, and what is packed in them. */
function shownIn(bytes: Buffer): string[] {
  const shown = [bytes.toString('latin1'), bytes.toString('utf16le')];
  // The body of an entry stands behind its description, which is JSON. In front of that stand random bytes.
  const description = bytes.indexOf('{"sessionHeader"');
  if (description >= 0) {
    const packed = bytes.indexOf('}', description) + 1;
    try {
      const finishFlush = constants.Z_SYNC_FLUSH;
      shown.push(inflateRawSync(bytes.subarray(packed), { finishFlush }).toString());
    } catch (error) {
      // What is not packed, or is encrypted.
      if (!(error as NodeJS.ErrnoException).code?.startsWith('Z_')) throw error;
    }
  }
  return shown;
}

/**
 * The names under which one of the texts lies: as it is spelt, in small letters or in capitals. In any mixture of both
 * five letters are found in a megabyte of random bytes now and then.
 */
async function namesThatShow(...texts: readonly string[]): Promise<string[]> {
  const letters = texts.flatMap((text) => [text, text.toLowerCase(), text.toUpperCase()]);
  return [...(await dump())]
    .filter(([, bytes]) => {
      const shown = shownIn(bytes);
      return letters.some((text) => shown.some((one) => one.includes(text)));
    })
    .map(([name]) => name);
}

const count = async (pattern: string) => (await client.keys(pattern)).length;

/** Asks until the answer lies in Redis: it is written after the client has its own, and a busy machine may miss it. */
async function askUntilKept(gateway: TestGateway, cube: string, entries: number): Promise<void> {
  await until(
    async () => {
      const { cache } = await askKnown(gateway, { project: PROJECT, cube });
      if (!cache.startsWith('fwd=miss')) await purge(gateway, PROJECT);
      return until(
        async () => ({
          kept: await count('mdx:entry:*'),
          failed: gateway.events.some((e) => e.type === 'redis-failed' && e.operation === 'set'),
        }),
        ({ kept, failed }) => kept >= entries || failed,
      );
    },
    ({ kept }) => kept >= entries,
  );
}

describe('a Redis with an encryption key', () => {
  test('shares a long answer, and shows neither data nor user nor catalog', async () => {
    const one = await gatewayWith(KEY);
    // Long enough also when it was compressed.
    engine.data = `${SHORT} ${randomBytes(600_000).toString('hex')}`;
    await askUntilKept(one, 'Sales', 1);
    // A gateway that a busy machine kept from reading it in time has it from the engine: then another one tries.
    const found = await until(
      async () => (await untilHit(await gatewayWith(KEY), { project: PROJECT })).at(-1),
      (answer) => answer?.cache.endsWith('detail=redis') === true,
    );
    expect(found?.body.length).toBeGreaterThan(1_200_000);
    expect(found?.body).toContain(engine.data);

    engine.data = SHORT;
    await askUntilKept(one, 'HR', 2);
    await purge(one, PROJECT);
    await until(
      () => count('{mdx}:2:purges'),
      (there) => there === 1,
    );
    expect(await namesThatShow(SHORT, 'alice', 'ADMIN', PROJECT, 'text/xml', '<root')).toEqual([]);
    // Any gateway must find the epoch of a project, also one without the key: its name stands in the name of it.
    const named = (await client.keys('*')).filter((name) => /payroll/iu.test(name));
    expect(named).toEqual(['{mdx}:2:epoch:project:payroll']);
  });

  test('shows nothing of who is in which session and catalog', async () => {
    const sessions = await startSessionEngine({ kind: 'emondrian' });
    try {
      const [one, other] = [
        await gatewayWith(KEY, sessions.url, 'emondrian'),
        await gatewayWith(KEY, sessions.url, 'emondrian'),
      ];
      const properties = { Catalog: PROJECT };
      const id = await beginSession(one.url, { properties });
      const statement = 'SELECT FROM [Sales]';
      const inIt = () =>
        askStamped(other.url, execute({ statement, properties, session: inSession(id) }));
      await until(inIt, ({ status }) => status === 'hit');
      expect(await count('{mdx}:2:session:*')).toBe(1);
      expect(await namesThatShow('alice', PROJECT, id, 'SELECT', sessions.url)).toEqual([]);

      // Whoever has no key, or another one, does not know the session; that is no failure of Redis.
      for (const key of [undefined, `another ${KEY}`]) {
        const stranger = await gatewayWith(key, sessions.url, 'emondrian');
        const { status } = await until(
          () =>
            askStamped(stranger.url, execute({ statement, properties, session: inSession(id) })),
          (answer) => !/unavailable|epochs-unknown/u.test(answer.status),
        );
        expect(status).toMatch(/unknown-session/u);
        const failures = stranger.events.filter(
          (e) => e.type === 'redis-failed' && !String(e.error).includes('timed out'),
        );
        expect(failures).toEqual([]);
      }
      // It stays known to the others.
      await until(inIt, ({ status }) => status === 'hit');
    } finally {
      await sessions.close();
    }
  });

  test('has no key with which gateways read those of others, and none is wrong', async () => {
    const keys = [KEY, undefined, `another ${KEY}`];
    const all = await Promise.all(keys.map((key) => gatewayWith(key)));
    for (const [i, gateway] of all.entries()) {
      const answer = await askKnown(gateway, { project: PROJECT });
      expect([answer.status, answer.cache]).toEqual([200, 'fwd=miss; stored']);
      if (i > 0) {
        // Or it had no time to look.
        const refused = gateway.events.find(
          (e) =>
            e.type === 'entry-rejected' || (e.type === 'redis-failed' && e.operation === 'get'),
        );
        expect(refused).toBeDefined();
      }
      // The entry of before is there when the next one asks.
      await until(
        () => count('mdx:entry:*'),
        (there) => there === 1,
      );
    }
    // They purge the same epochs, whatever they can read.
    engine.data = 'new';
    expect((await purge(all[1] as TestGateway, PROJECT)).status).toBe(200);
    for (const gateway of all) {
      expect((await ask(gateway, { project: PROJECT })).body).toContain('new');
    }
  });
});

test('a Redis without an encryption key shows what lies there, so that these tests can see it', async () => {
  const one = await gatewayWith(undefined);
  engine.data = SHORT;
  await askUntilKept(one, 'HR', 1);
  expect(await namesThatShow(SHORT)).toEqual([expect.stringContaining('mdx:entry:')]);
  // Where the next one is not kept at once, a purge has this one swept at some moment.
  await client.del(await client.keys('mdx:entry:*'));
  engine.data = `${SHORT} ${randomBytes(600_000).toString('hex')}`;
  await askUntilKept(one, 'Sales', 1);
  expect(await namesThatShow(SHORT)).toEqual([expect.stringContaining('mdx:entry:')]);
  await purge(one, PROJECT);
  await until(
    async () => String((await dump()).get('{mdx}:2:purges')),
    (purges) => purges.includes('ADMIN'),
  );
});

test('a purge makes room in Redis: the entries that it made unreachable are dropped', async () => {
  const one = await gatewayWith(KEY);
  engine.data = randomBytes(600_000).toString('hex');
  await askUntilKept(one, 'Sales', 1);
  await until(
    async () => {
      await purge(one, PROJECT);
      return until(
        () =>
          one.events.filter(
            (e) => e.type === 'swept' || (e.type === 'redis-failed' && e.operation === 'sweep'),
          ).length,
        (told) => told > 0,
      );
    },
    () => one.events.some(({ type }) => type === 'swept'),
  );
  await until(
    () => count('mdx:entry:*'),
    (left) => left === 0,
  );
});
