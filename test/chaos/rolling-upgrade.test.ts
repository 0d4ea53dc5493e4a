import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { execute, type SessionSpec } from '../support/envelopes.ts';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { send } from '../support/http-client.ts';
import { fuzzSeed, randomFrom } from '../support/mutate.ts';
import { otherVersion, type Otherwise } from '../support/other-version.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import { startSessionEngine, type SessionEngine } from '../support/session-engine.ts';
import { sampled, sizes } from '../support/sizes.ts';
import { askStamped, inSession, type StampedAnswer } from '../support/stamped-client.ts';
import { basic } from '../support/test-gateway.ts';

const CATALOGS = ['East', 'West', 'North'] as const;
const CUBES = 5;
const USERS = ['alice', 'bob'] as const;
const CLIENTS = 8;
/** Of a hundred requests so many begin a load with a purge, and so many are asked in a session. */
const LOADS = 2;
const IN_SESSION = 30;

/** For all requests; the machine may be busy (ms). */
const PATIENCE = 1_800_000;

interface Version {
  readonly name: string;
  readonly url: string;
  readonly process: GatewayProcess;
}

const VARIANTS: readonly (readonly [what: string, differs: readonly Otherwise[]])[] = [
  ['key and value', ['key', 'value']],
  ['value', ['value']],
];

describe.each(sampled(VARIANTS))(
  'two versions that differ in %s, on one Redis',
  (_what, differs) => {
    let redis: RedisServer;
    let engine: SessionEngine;
    let versions: readonly [Version, Version];
    const cleanups: (() => Promise<unknown> | void)[] = [];

    beforeAll(async () => {
      redis = await startRedis();
      cleanups.push(redis.close);
      engine = await startSessionEngine({ kind: 'mondrian' });
      cleanups.push(engine.close);
      const other = otherVersion(differs);
      cleanups.push(other.remove);
      versions = [await start('this version'), await start('the other version', other.main)];
    });
    afterAll(async () => {
      for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
    });

    async function start(name: string, main?: string): Promise<Version> {
      const folder: ConfigFolder = await configFolder();
      cleanups.push(folder.remove);
      const file = folder.write({
        engine: { url: engine.url, kind: 'mondrian', login: 'forward' },
        cache: { lease: '100ms', redis: { url: redis.url } },
        storage: { path: './gateway.sqlite' },
      });
      const process = runMain(['serve', '--config', file], { main });
      cleanups.push(async () => {
        process.kill('SIGKILL');
        await process.ended;
      });
      const url = await listening(process);
      return { name, url, process };
    }

    const told = ({ process }: Version, message: string) =>
      process.log.filter(({ msg }) => msg === message);

    const entries = () =>
      askRedis(redis.port, 'EVAL "return #redis.call(\'KEYS\', ARGV[1])" 0 mdx:entry:*');

    /** Asks until Redis was there in time. */
    async function askKnown(version: Version, statement: string): Promise<StampedAnswer> {
      for (;;) {
        const answer = await askStamped(
          version.url,
          execute({ statement, properties: { Catalog: 'East' } }),
        );
        if (!answer.status.startsWith('bypass')) return answer;
      }
    }

    test('take what the other stored for a miss, and say so where they share its key', async () => {
      const [one, other] = versions;
      let count = 0;
      for (const [first, second] of [
        [one, other],
        [other, one],
      ] as const) {
        const expected = differs.includes('key') ? [] : ['another version'];
        let found: readonly unknown[] | undefined;
        while (found === undefined)
          found = await rejectionsOf(first, second, `Once ${(count += 1)}`);
        expect(found).toEqual(expected);
      }
    });

    /** Why what the first one stored was refused by the second; undefined when that was too busy to look, or to say. */
    async function rejectionsOf(first: Version, second: Version, cube: string) {
      const [before, failed] = [told(second, 'entry-rejected'), told(second, 'redis-failed')];
      const failedToStore = told(first, 'redis-failed').length;
      const entriesBefore = await entries();
      const statement = `SELECT FROM [${cube}]`;
      while ((await askKnown(first, statement)).status !== 'hit') await delay(1);
      // It is written there after its client has its answer.
      while ((await entries()) === entriesBefore) {
        if (told(first, 'redis-failed').length > failedToStore) return undefined;
        await delay(1);
      }
      const { status } = await askKnown(second, statement);
      expect([second.name, status]).toEqual([
        second.name,
        expect.stringMatching(/^miss(?: stored)?$/u),
      ]);
      const rejections = () => told(second, 'entry-rejected').slice(before.length);
      const hasFailed = () => told(second, 'redis-failed').length > failed.length;
      // The log comes by another way than the answer.
      if (!differs.includes('key')) {
        while (rejections().length === 0 && !hasFailed()) await delay(1);
      }
      if (status === 'miss' || (rejections().length === 0 && hasFailed())) return undefined;
      // More than once, when the lease ran out while it was looked up.
      return [...new Set(rejections().map(({ why }) => why))];
    }

    test('hear of the purges of each other', async () => {
      for (const { url } of versions) {
        // Who hears late is not counted.
        let replicas: unknown;
        do {
          const { text } = await send(url, {
            path: '/mdx/xmla/East/clearCache',
            headers: { authorization: basic('ADMIN'), accept: 'application/json' },
          });
          ({ replicas } = JSON.parse(text) as { replicas?: unknown });
        } while (replicas !== 2);
      }
    });

    test(
      'give no wrong answer, whoever purges and wherever a session was begun',
      async () => {
        const seed = fuzzSeed();
        const below = randomFrom(seed);
        const pick = <T>(list: readonly T[]) => list[below(list.length)] as T;
        const floors = new Map(CATALOGS.map((name) => [name, 1]));
        const wrong: unknown[] = [];
        const outcomes = new Map<string, number>();
        let data = 1;
        let left = sizes.upgradeRequests;
        let purges = 0;

        async function ask(
          user: string,
          statement: string,
          catalog: (typeof CATALOGS)[number],
          session?: SessionSpec,
        ): Promise<StampedAnswer> {
          const version = pick(versions);
          const floor = floors.get(catalog) ?? 0;
          const body = execute({
            statement,
            properties: { Catalog: catalog },
            ...(session && { session }),
          });
          const answer = await askStamped(version.url, body, { user });
          const { stamp, status } = answer;
          const outcome = `${version.name}: ${status}`;
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
          if (answer.answer.status >= 500) return answer;
          if (stamp === undefined) {
            if (statement.startsWith('SELECT')) wrong.push({ status, text: answer.answer.text });
            return answer;
          }
          const fits =
            stamp.data >= floor &&
            stamp.user === user &&
            stamp.catalog === catalog &&
            stamp.asked.includes(JSON.stringify(statement).slice(1, -1));
          if (!fits) wrong.push({ version: version.name, status, stamp, floor, user, statement });
          return answer;
        }

        async function load(): Promise<void> {
          const body = execute({ statement: 'x' })
            .toString()
            .replace(/<Statement>.*<\/Statement>/u, '<Process/>');
          await (await fetch(engine.url, { method: 'POST', body })).text();
          data += 1;
          const loaded = data;
          const catalog = below(3) === 0 ? undefined : pick(CATALOGS);
          const answer = await send(pick(versions).url, {
            path: `/mdx/xmla${catalog === undefined ? '' : `/${catalog}`}/clearCache`,
            headers: { authorization: basic('ADMIN') },
          });
          if (answer.status !== 200) {
            expect(answer.text).not.toMatch(/cleared/iu);
            return;
          }
          purges += 1;
          for (const one of catalog === undefined ? CATALOGS : [catalog]) {
            floors.set(one, Math.max(floors.get(one) ?? 0, loaded));
          }
        }

        /** One session from its beginning to its end, each request through any of both. */
        async function inOneSession(user: string): Promise<void> {
          const catalog = pick(CATALOGS);
          const { session } = await ask(user, '', catalog, { kind: 'begin' });
          if (session === undefined) return;
          const created: string[] = [];
          for (let i = below(8); i > 0; i -= 1) {
            left -= 1;
            if (below(5) === 0) {
              const statement = `CREATE SESSION MEMBER [Measures].[M ${left}] AS '1'`;
              const { answer } = await ask(user, statement, catalog, inSession(session));
              if (answer.status === 200) created.push(statement);
              continue;
            }
            const statement = `SELECT FROM [Cube ${below(CUBES)}]`;
            const { stamp, status } = await ask(user, statement, catalog, inSession(session));
            if (stamp !== undefined && stamp.created.join() !== created.join()) {
              wrong.push({ status, stamp, created });
            }
          }
          if (below(2) === 0) await ask(user, '', catalog, { kind: 'end', id: session });
        }

        async function client(): Promise<void> {
          while (left > 0) {
            left -= 1;
            const user = pick(USERS);
            const turn = below(100);
            if (turn < LOADS) await load();
            else if (turn < LOADS + IN_SESSION / 4) await inOneSession(user);
            else await ask(user, `SELECT FROM [Cube ${below(CUBES)}]`, pick(CATALOGS));
          }
        }

        await Promise.all(Array.from({ length: CLIENTS }, client));
        console.log(
          `seed ${seed}, ${purges} purges, rejected ${versions.map((one) => told(one, 'entry-rejected').length).join(' and ')}\n` +
            [...outcomes]
              .sort()
              .map(([outcome, count]) => `${outcome} ${count}`)
              .join('\n'),
        );
        expect({ seed, wrong: wrong.slice(0, 3) }).toEqual({ seed, wrong: [] });
        expect(purges).toBeGreaterThan(0);
        for (const version of versions) {
          expect(outcomes.get(`${version.name}: hit`)).toBeGreaterThan(0);
          expect(told(version, 'internal-error')).toEqual([]);
          const why = new Set(told(version, 'entry-rejected').map((line) => line['why']));
          expect([...why]).toEqual(differs.includes('key') ? [] : ['another version']);
          // It still runs.
          expect((await askKnown(version, 'SELECT FROM [At last]')).answer.status).toBe(200);
        }
      },
      PATIENCE,
    );
  },
);
