import { afterEach, expect, test } from '@jest/globals';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { askXmla, portOf, send, shortStatus } from '../support/http-client.ts';
import { onConnection } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sampled, sizes } from '../support/sizes.ts';
import {
  startAttackedGateway,
  type AttackedGateway,
} from '../support/under-attack/attacked-gateway.ts';
import { ATTACKS } from '../support/under-attack/attacks.ts';
import type { Attack, AttackReport } from '../support/under-attack/attacker.ts';
import { answerTo, asking } from '../support/under-attack/remembered.ts';
import type { UserSettings, UserReport } from '../support/under-attack/user.ts';
import { execute } from '../support/envelopes.ts';

/** MiB: what bodies under way may take, what an attack may cost beside that, and what of the heap may stay. */
const IN_FLIGHT = 128;
const RESIDENT = 200e6 / 1024 ** 2;
const HEAP = 50e6 / 1024 ** 2;
/** What an attacker may leave in Redis: keys, and MiB. */
const KEYS = 5_000;
const REDIS = 64;
/** Bytes of /metrics, whatever was asked for. */
const METRICS = 1024 ** 2;

const [ATTACKER, USER] = ['alice', 'bob'];
/** Connections of the attacker have other addresses. */
const ADDRESS_OF_USER = '127.0.0.200';
const PATIENCE = 120_000 + 4 * sizes.attacked + sizes.afterAttack;
/** MiB that may still be resident a while after an attack. */
const LEFT = 100;

let children: ChildProcess[] = [];
let gateway: AttackedGateway | undefined;
let redis: RedisServer | undefined;

afterEach(async () => {
  await gateway?.close();
  for (const child of children) child.kill('SIGKILL');
  await redis?.close();
  [children, gateway, redis] = [[], undefined, undefined];
});

/** Runs a program of the folder test/support/under-attack. */
function run(name: string, argument: string): ChildProcess {
  const path = fileURLToPath(new URL(`../support/under-attack/${name}.ts`, import.meta.url));
  const child = fork(path, [argument], { execArgv: [] });
  children.push(child);
  return child;
}

/** What a program tells next. */
async function told(child: ChildProcess): Promise<unknown> {
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${child.spawnargs.join(' ')} ended`);
  });
  const [message] = (await Promise.race([once(child, 'message'), ended])) as [unknown];
  ended.catch(() => {});
  return message;
}

interface Started {
  readonly url: string;
  readonly gateway: AttackedGateway;
}

async function start(options: {
  readonly invented?: 'rows' | 'faults';
  /** Whether the engine is told of projects. */
  readonly tellsProjects?: boolean;
  readonly withRedis?: boolean;
  /** What entries may take in the memory of the gateway, and in Redis. */
  readonly memory?: string;
  readonly redisMemory?: string;
}): Promise<Started> {
  const { invented = 'rows', tellsProjects = false, withRedis = false, redisMemory } = options;
  const { memory = '32MiB' } = options;
  const enginePort = await told(run('engine', invented));
  const args = ['--maxmemory', redisMemory ?? '0', '--maxmemory-policy', 'allkeys-lru'];
  if (withRedis) redis = await startRedis({ args });
  gateway = await startAttackedGateway(
    {
      engine: { url: `http://127.0.0.1:${enginePort}/xmla${tellsProjects ? '/{project}' : ''}` },
      listen: { open: ['metrics'] },
      // What entries may take is a limit of its own.
      cache: {
        memory,
        ...(redis !== undefined && { redis: { url: redis.url } }),
      },
      limits: { in_flight: `${IN_FLIGHT}MiB` },
      projects: { FoodMart: {} },
    },
    [ATTACKER, USER],
  );
  const { url } = gateway;
  for (const user of [ATTACKER, USER]) {
    await askXmla(url, BEGIN, { user });
    await askXmla(url, asking('Warm', { catalog: user }), { user });
  }
  await send(url, { path: '/metrics' });
  return { url, gateway };
}

const BEGIN = execute({
  statement: '',
  session: { kind: 'begin' },
  properties: { Catalog: 'FoodMart' },
});

const megabytes = (mebibytes: number) => `${mebibytes.toFixed(0)} MiB`;

/** A user who asks what is remembered, from now until `end` is called. */
async function askOn({ url }: Started, path: string): Promise<() => Promise<UserReport>> {
  const settings: UserSettings = { port: portOf(url), address: ADDRESS_OF_USER, name: USER, path };
  const user = run('user', JSON.stringify(settings));
  await told(user);
  user.send('begin');
  return async () => {
    user.send('end');
    return (await told(user)) as UserReport;
  };
}

/** Attacks a gateway whose other user asks on and on, and holds what it promises against what was seen. */
async function attacked(
  started: Started,
  what: string,
  attack: Pick<Attack, 'kind'> & Partial<Attack>,
  path = '/mdx/xmla',
): Promise<void> {
  const { url, gateway } = started;
  if (sizes.attackedWarm) {
    // Connections and queries of the user are known.
    const warm = await askOn(started, path);
    await sleep(500);
    await warm();
  }
  const endAsking = await askOn(started, path);
  // Before the collection that the next line has made: nobody has made one when it is read again.
  const quiet = gateway.resident();
  const before = await gateway.usedHeap();
  const begun = gateway.resident();
  const attacker = run(
    'attacker',
    JSON.stringify({
      port: portOf(url),
      name: ATTACKER,
      addresses: ['127.0.0.1'],
      connections: 16,
      least: 0,
      ...attack,
    } satisfies Attack),
  );
  const bodies = mostInFlight(url);
  await Promise.race([sleep(sizes.attacked), gateway.ends]);
  attacker.send('end');
  const { sent, ends } = (await told(attacker)) as AttackReport;
  const { hits, failed, failures, longest } = await endAsking();
  const inFlight = await bodies();
  await Promise.race([sleep(sizes.afterAttack), gateway.ends]);
  const left = gateway.resident();
  const after = await gateway.usedHeap();
  const allowed = begun + IN_FLIGHT + RESIDENT;
  process.stdout.write(
    `${what}: resident ${megabytes(quiet)} when it was quiet, ${megabytes(begun)} at the start, ${megabytes(gateway.peak())} at most, ${megabytes(allowed)} allowed, ${megabytes(left)} at the end; bodies ${megabytes(inFlight)} at most; ` +
      `heap ${megabytes(before)} before, ${megabytes(after)} after; attacker sent ${sent}; ` +
      `hits ${hits}, failed ${failed}; the longest took ${longest.kept.toFixed(0)} ms, on a new connection ${longest.anew.toFixed(0)} ms\n` +
      `  ${JSON.stringify(ends)}${failures.length > 0 ? `\n  ${failures.join('\n  ')}` : ''}\n`,
  );
  expect(gateway.ended()).toBeUndefined();
  expect(failures).toEqual([]);
  expect(hits).toBeGreaterThan(0);
  expect(sent).toBeGreaterThan(0);
  expect(gateway.peak()).toBeLessThanOrEqual(allowed);
  expect(inFlight).toBeLessThanOrEqual(IN_FLIGHT);
  if (sizes.afterAttack > 0) expect(left).toBeLessThanOrEqual(quiet + LEFT);
  expect(after - before).toBeLessThanOrEqual(HEAP);
}

/** @returns ends the watch and tells what bodies took of memory at most by /metrics (MiB) */
function mostInFlight(url: string): () => Promise<number> {
  let most = 0;
  const ending = new AbortController();
  async function watch(): Promise<void> {
    while (!ending.signal.aborted) {
      const { text } = await send(url, { path: '/metrics' });
      const bytes = [...text.matchAll(/^mdx_gateway_in_flight_bytes\{.*\} (\d+)$/gm)];
      most = Math.max(most, bytes.reduce((sum, [, one]) => sum + Number(one), 0) / 1024 ** 2);
      await sleep(100);
    }
  }
  const watching = watch();
  // It is seen by what is asked beside it that the gateway has ended.
  watching.catch(() => {});
  return () => {
    ending.abort();
    return watching.then(
      () => most,
      () => NaN,
    );
  };
}

/** What lies in Redis: keys, and MiB. */
async function inRedis(): Promise<{ readonly keys: number; readonly memory: number }> {
  return onConnection(redis?.port ?? 0, { patience: 20_000 }, async (connection) => {
    const memory = /used_memory:(\d+)/.exec(await connection.info('memory'))?.[1];
    return { keys: await connection.dbsize(), memory: Number(memory) / 1024 ** 2 };
  });
}

/** The same of a gateway without Redis. */
async function attackedAlone(what: string, attack: Pick<Attack, 'kind'>): Promise<void> {
  await attacked(await start({}), what, attack);
}

/** The same, and whether Redis keeps no more than an attacker may leave there. */
async function attackedWithRedis(what: string, attack: Pick<Attack, 'kind'>): Promise<void> {
  const started = await start({ withRedis: true });
  const before = await inRedis();
  const [ends] = await Promise.allSettled([attacked(started, what, attack)]);
  const after = await inRedis();
  process.stdout.write(
    `  Redis: ${before.keys} keys and ${megabytes(before.memory)} before, ${after.keys} keys and ${megabytes(after.memory)} after\n`,
  );
  if (ends.status === 'rejected') throw ends.reason;
  expect(after.keys - before.keys).toBeLessThanOrEqual(KEYS);
  expect(after.memory - before.memory).toBeLessThanOrEqual(REDIS);
}

/** Asks as the user and says how it was answered; other bytes than the right ones are told as such. */
async function asked(started: Started, question: string, ...how: AskedHow): Promise<string> {
  const [spec = {}, path = '/mdx/xmla'] = how;
  const answer = await askXmla(started.url, asking(question, spec), { user: USER, path });
  return answer.text === answerTo(question) ? shortStatus(answer) : answer.text;
}
type AskedHow = [spec?: Parameters<typeof asking>[1], path?: string];

test.each(
  sampled([
    ['long names of catalogs and projects, with Redis', 'long-names', attackedWithRedis],
    ['long names of catalogs', 'long-catalogs', attackedAlone],
    ['long names of projects', 'long-projects', attackedAlone],
  ] as const),
)(
  '%s take no memory, and the hits of others go on',
  (what, kind, attack) => attack(what, { kind }),
  PATIENCE,
);

test.each(
  sampled<[string, string[]]>([
    ['from one address', ['127.0.0.1']],
    ['from eight addresses', Array.from({ length: 8 }, (_, number) => `127.0.0.${number + 1}`)],
  ]),
)(
  'unfinished heads %s take no memory without end, and the hits of others go on',
  async (what, addresses) => {
    await attacked(await start({}), `unfinished heads ${what}`, {
      kind: 'unfinished-heads',
      addresses,
      connections: sizes.unfinishedHeads,
    });
  },
  PATIENCE,
);

/** In catalogs for which the user does not ask while others are invented. */
const quiet = (started: Started) =>
  Promise.all(
    Array.from({ length: 10 }, (_, number) =>
      asked(started, `Quiet ${number}`, { catalog: `Quiet ${number}` }),
    ),
  );

test.each(
  sampled([
    ['invented catalogs, with Redis', attackedWithRedis],
    ['invented catalogs', attackedAlone],
  ] as const),
)(
  '%s take no memory, and the hits of others go on',
  (what, attack) => attack(what, { kind: 'many-catalogs' }),
  PATIENCE,
);

test(
  'invented catalogs that the engine refuses purge nothing',
  async () => {
    const started = await start({ invented: 'faults' });
    await quiet(started);
    await attacked(started, 'invented catalogs, refused', { kind: 'many-catalogs' });
    expect(new Set(await quiet(started))).toEqual(new Set(['hit']));
  },
  PATIENCE,
);

test(
  'sessions that one user begins without end leave those of others known',
  async () => {
    const started = await start({});
    const begun = await askXmla(started.url, BEGIN, { user: USER });
    const id = /SessionId="([^"]+)"/.exec(begun.text)?.[1] ?? '';
    const inSession = () => asked(started, 'In the session', { session: { kind: 'in', id } });
    await inSession();
    expect(await inSession()).toBe('hit');
    await attacked(started, 'sessions', { kind: 'sessions', least: sizes.attackersSessions });
    expect(await inSession()).toBe('hit');
  },
  PATIENCE + 2 * sizes.attackersSessions,
);

test.each(sampled(['faults', 'rows'] as const))(
  'invented projects, to which the engine says %s, leave /metrics short, and real projects their label',
  async (invented) => {
    const started = await start({ invented, tellsProjects: true });
    await attacked(
      started,
      `invented projects, ${invented}`,
      { kind: 'projects' },
      '/mdx/xmla/FoodMart',
    );
    await asked(started, 'First asked now', {}, '/mdx/xmla/Real');
    const { text } = await send(started.url, { path: '/metrics' });
    process.stdout.write(`  /metrics: ${text.length} bytes\n`);
    expect(text.length).toBeLessThanOrEqual(METRICS);
    const labels = new Set([...text.matchAll(/project="([^"]*)"/g)].map(([, label]) => label));
    expect(labels).toContain('FoodMart');
    // Where the engine answers invented ones as if they were real, nothing tells them apart.
    if (invented === 'faults') expect(labels).toContain('Real');
  },
  PATIENCE,
);

test(
  'nested namespace declarations leave the hits of others right',
  async () => {
    const started = await start({});
    if (sizes.attackedWarm) {
      const end = await askOn(started, '/mdx/xmla');
      await sleep(sizes.attacked);
      const { longest } = await end();
      process.stdout.write(
        `without an attack the longest hit took ${longest.kept.toFixed(0)} ms, on a new connection ${longest.anew.toFixed(0)} ms\n`,
      );
    }
    await attacked(started, 'eight bodies of nested declarations', {
      kind: 'nested-declarations',
      connections: 8,
      least: 16,
    });
  },
  PATIENCE,
);

test.each(
  sampled<[string, Pick<Attack, 'kind'> & Partial<Attack>]>([
    ['pipelined requests without a login', { kind: 'pipelined', connections: 60 }],
    ['pipelined requests', { kind: 'pipelined-with-login', connections: 800 }],
    ['queries of paths that change', { kind: 'query-strings' }],
    ['long heads, and bodies with many values that do not count', { kind: 'layouts' }],
    ['300 bodies at once that take long to be read', { kind: 'slow-bodies', connections: 300 }],
  ]),
)(
  '%s take no memory, and the hits of others go on',
  async (what, attack) => attacked(await start({}), what, attack),
  PATIENCE,
);

/** An attack by asks for long answers, which are in the cache when it begins. */
async function attackedByAsks(
  started: Started,
  what: string,
  attack: Parameters<typeof attacked>[2] & { readonly kind: keyof typeof ATTACKS },
): Promise<void> {
  const { url } = started;
  const asAttacker = { user: ATTACKER, headers: { 'content-type': 'text/xml' } };
  // Each answer is kept behind its end.
  for (const { body } of [0, 1].map((number) => ATTACKS[attack.kind](number))) {
    while (shortStatus(await askXmla(url, body, asAttacker)) !== 'hit') await sleep(100);
  }
  await attacked(started, what, attack);
}

test.each(sampled([...new Set([60, sizes.longAskers])]))(
  '%d connections that ask for a long answer without gzip, and partly take nothing of it, get their share of the memory',
  async (connections) => {
    await attackedByAsks(await start({}), `${connections} asks for a long answer`, {
      kind: 'long-answer',
      connections,
      reads: 'most',
    });
  },
  PATIENCE,
);

test(
  'many who ask for long answers that lie in Redis drive nothing out of it',
  async () => {
    // Of the two the memory of the gateway has room for one, and Redis for three.
    const started = await start({ withRedis: true, memory: '24MiB', redisMemory: '48mb' });
    await attackedByAsks(started, `${sizes.redisAskers} asks for answers in Redis`, {
      kind: 'incompressible-answers',
      connections: sizes.redisAskers,
      reads: 'none',
    });
    const stats = await onConnection(redis?.port ?? 0, { patience: 20_000 }, (connection) =>
      connection.info('stats'),
    );
    expect(stats).toContain('\nevicted_keys:0\r');
  },
  PATIENCE,
);
