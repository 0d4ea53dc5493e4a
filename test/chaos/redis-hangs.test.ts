import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { rowsetAnswer } from '../support/answers.ts';
import { startBlackHole, type BlackHole } from '../support/black-hole.ts';
import { discover, execute, type SessionSpec } from '../support/envelopes.ts';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { shortStatus } from '../support/http-client.ts';
import { onConnection } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sizes } from '../support/sizes.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';
import { byOutcome, percentile, table, type Timed } from '../support/timed-requests.ts';

/** Clients that ask at one time, each one request after the other. */
const CLIENTS = 4;
/** After so many failures in a row Redis is not asked for a while (src/compose/cache.ts). */
const BREAKER = { failures: 5, pause: 1_000 };
/** A phase lasts for some trials of Redis at least (ms). */
const PHASE = 3.5 * BREAKER.pause;
/** What a look-up may wait for Redis (ms). */
const READ_DEADLINE = 100;
/** How much the percentile may grow while Redis hangs. */
const MOST_GROWTH = 2;
const PATIENCE = 600_000;

let redis: RedisServer;
let hole: BlackHole;
let engine: StubEngine;
let folder: ConfigFolder;
let gateway: GatewayProcess;
let url: string;
const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });

beforeEach(async () => {
  redis = await startRedis();
  hole = await startBlackHole(redis.port);
  // The answer names the cube that was asked for.
  engine = await startStubEngine((response, seen) => {
    const text = seen.body.toString();
    const cube = /<CUBE_NAME>(.*?)<\/CUBE_NAME>/u.exec(text)?.[1] ?? 'none';
    const begun = text.includes('BeginSession') ? SESSION : '';
    void sendXml(rowsetAnswer({ names: [cube], header: begun }))(response, seen);
  });
  folder = await configFolder();
  const file = folder.write({
    engine: { url: engine.url, kind: 'mondrian' },
    cache: { lease: '2s', redis: { url: `redis://127.0.0.1:${hole.port}` } },
    storage: { path: './gateway.sqlite' },
    log: { level: 'debug' },
  });
  gateway = runMain(['serve', '--config', file]);
  url = await listening(gateway);
});
afterEach(async () => {
  gateway?.kill('SIGKILL');
  await gateway?.ended;
  folder?.remove();
  await engine?.close();
  await hole?.close();
  await redis?.close();
});

const ID = 'a-session-of-the-engine';
const SESSION = `<Session xmlns="urn:schemas-microsoft-com:xml-analysis" SessionId="${ID}"/>`;

/** Kinds of requests, by what becomes of them in calm. */
const KINDS: Readonly<Record<Kind, (count: number) => Question>> = {
  hit: () => question('Kept'),
  'passed through': (count: number) => question(`Cube ${count}`, { RealTimeOlap: 'true' }),
  'passed through in a session': (count: number) =>
    question(`Cube ${count}`, { RealTimeOlap: 'true' }, { kind: 'in', id: ID }),
  'hit in a session': () => question('Kept', {}, { kind: 'in', id: ID }),
};

type Kind = 'hit' | 'passed through' | 'passed through in a session' | 'hit in a session';
interface Question {
  readonly cube: string;
  readonly body: Buffer;
}

function question(
  cube: string,
  properties: Record<string, string> = {},
  session?: SessionSpec,
): Question {
  const body = discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: { CATALOG_NAME: 'Sales', CUBE_NAME: cube },
    properties: { Catalog: 'Sales', ...properties },
    ...(session && { session }),
  });
  return { cube, body };
}

/** Asks without the checks of other tests, whose time would hide what is measured. */
function ask({ cube, body }: Question): Promise<Timed> {
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const asking = request(
      `${url}/mdx/xmla`,
      {
        agent,
        method: 'POST',
        headers: {
          authorization: basic('alice'),
          'content-type': 'text/xml; charset=utf-8',
          'content-length': body.length,
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const milliseconds = performance.now() - started;
          const text = Buffer.concat(chunks).toString();
          if (response.statusCode !== 200 || text !== rowsetAnswer({ names: [cube] })) {
            reject(new Error(`wrong answer to ${cube}: ${response.statusCode} ${text}`));
            return;
          }
          resolve({ status: shortStatus(response), milliseconds });
        });
      },
    );
    asking.on('error', reject);
    asking.end(body);
  });
}

/** Begins the session in which is asked, and fills the cache. */
async function warm(): Promise<void> {
  const begin = execute({
    statement: '',
    properties: { Catalog: 'Sales' },
    session: { kind: 'begin' },
  });
  await fetch(`${url}/mdx/xmla`, {
    method: 'POST',
    headers: { authorization: basic('alice'), 'content-type': 'text/xml' },
    body: new Uint8Array(begin),
  });
  for (const kind of ['hit', 'hit in a session'] as const) {
    while ((await ask(KINDS[kind](0))).status !== 'hit');
  }
}

/** All kinds in turn, by some clients, for a number of requests and some time. */
async function phase(): Promise<ReadonlyMap<Kind, readonly Timed[]>> {
  const seen = new Map((Object.keys(KINDS) as Kind[]).map((kind) => [kind, [] as Timed[]]));
  const started = performance.now();
  let count = 0;
  const client = async () => {
    while (
      performance.now() - started < PHASE ||
      [...seen.values()].some(({ length }) => length < sizes.hangRequests)
    ) {
      for (const [kind, list] of seen) {
        count += 1;
        list.push(await ask(KINDS[kind](count)));
      }
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  return seen;
}

/** Whether Redis was not even asked. */
const isOpen = (line: Record<string, unknown>) =>
  (line['err'] as { type?: string } | undefined)?.type === 'CircuitOpenError';

/** Operations that failed because Redis was asked and did not answer, in their order. */
function failures(log: readonly Record<string, unknown>[]) {
  return log.filter((line) => line['msg'] === 'redis-failed' && !isOpen(line));
}

describe('while Redis hangs', () => {
  test(
    'nobody waits for it, but for the first few requests and one trial in each pause',
    async () => {
      await warm();
      await phase();
      // On a busy machine Redis may have missed its deadlines before.
      const state = () => gateway.log.findLast(({ msg }) => msg === 'redis-state')?.['state'];
      while (state() === 'down') await ask(KINDS['hit in a session'](0));
      const before = gateway.log.length;
      const started = performance.now();
      await hole.set('hang');
      const seen = await phase();
      const lasted = performance.now() - started;
      const log = gateway.log.slice(before);
      const asked = failures(log);
      const opened = log.findIndex(({ msg, state }) => msg === 'redis-state' && state === 'down');
      const firstOnes = failures(log.slice(0, opened + 1));
      const refused = log.filter((line) => line['msg'] === 'redis-failed' && isOpen(line)).length;
      console.log(
        `${table('hung', seen)}\n  ${asked.length} operations waited for Redis, ${refused} did not, ` +
          `in ${Math.round(lasted)} ms; it was left alone after ${firstOnes.length}`,
      );
      // Those that were under way when it was noticed fail, too; nobody else is sent after them but the trials.
      expect(opened).toBeGreaterThan(-1);
      expect(firstOnes.length).toBeLessThanOrEqual(BREAKER.failures + 2 * CLIENTS);
      const trials = lasted / BREAKER.pause + 1;
      expect(asked.length).toBeLessThanOrEqual(BREAKER.failures + 2 * CLIENTS + trials);
      expect(refused).toBeGreaterThan(0);
      // Each request was answered, and by the engine where nothing says that an entry is still true.
      const outcomes = [...byOutcome(seen).keys()];
      expect(outcomes).toContain('hit: hit');
      expect(outcomes).toContain('hit: bypass epochs-unknown');
      await hole.set('forward');
      // The log comes by another way than the answers.
      while (state() === 'down') await ask(KINDS['hit in a session'](0));
    },
    PATIENCE,
  );

  test(
    'a request that is passed through outside sessions asks Redis for nothing',
    async () => {
      await warm();
      const counted = async () => {
        const stats = await onConnection(redis.port, {}, (client) => client.info('commandstats'));
        // What looking at the counts adds to them, the signs of life of connections, and looks at what is configured.
        return stats
          .split('\r\n')
          .filter((line) => /^cmdstat_(?!info|ping|client|hello|config|acl)/u.test(line))
          .map((line) => line.replace(/,.*$/u, ''));
      };
      // What was written for the answers before comes after them.
      let before = await counted();
      for (let calm = 0; calm < 5; calm += 1) {
        await delay(50);
        const now = await counted();
        if (now.join() !== before.join()) calm = 0;
        before = now;
      }
      for (let count = 0; count < sizes.hangRequests; count += 1) {
        const { status } = await ask(KINDS['passed through'](count));
        expect(status).toBe('bypass real-time');
      }
      expect(await counted()).toEqual(before);
    },
    PATIENCE,
  );

  test(
    'the slowest hundredth of hits and of passed-through requests takes no more than twice its time in calm',
    async () => {
      await warm();
      await phase();
      const growth = new Map<string, number[]>();
      const late: number[] = [];
      for (let round = 0; round < (sizes.hangTimes ? 5 : 1); round += 1) {
        await hole.set('forward');
        while ((await ask(KINDS.hit(0))).status !== 'hit');
        const calm = await phase();
        await hole.set('hang');
        const hung = await phase();
        console.log(`${table('calm', calm)}\n${table('hung', hung)}`);
        for (const kind of Object.keys(KINDS) as Kind[]) {
          const usual = calm.get(kind) ?? [];
          for (const [outcome, list] of byOutcome(hung)) {
            if (!outcome.startsWith(`${kind}:`) || list.length < usual.length / 20) continue;
            const ratios = growth.get(outcome) ?? [];
            growth.set(outcome, [...ratios, percentile(list, 99) / percentile(usual, 99)]);
          }
        }
        const longest = (phaseOf: typeof calm) => percentile([...phaseOf.values()].flat(), 100);
        late.push(longest(hung) - longest(calm));
      }
      console.log(
        [...growth]
          .map(
            ([outcome, ratios]) => `${outcome}: × ${ratios.map((one) => one.toFixed(2)).join(' ')}`,
          )
          .join('\n') + `\nlongest wait beyond calm: ${late.map(Math.round).join(' ')} ms`,
      );
      if (!sizes.hangTimes) return;
      // A busy machine spoils some rounds.
      for (const outcome of [
        'hit: hit',
        'passed through: bypass real-time',
        'passed through in a session: bypass real-time',
      ]) {
        const best = Math.min(...(growth.get(outcome) ?? []));
        expect({ outcome, fits: best <= MOST_GROWTH, best }).toMatchObject({ fits: true });
      }
      expect(Math.min(...late)).toBeLessThanOrEqual(READ_DEADLINE);
    },
    PATIENCE,
  );
});
