import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../src/common/clock.ts';
import { tryConnections } from '../../src/compose/try-connections.ts';
import { ask, dataAnswer, untilHit } from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { checkedFetch } from '../support/checked-requests.ts';
import { askRedis, startRedis, type RedisServer } from '../support/redis-server.ts';
import '../support/patient-redis.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { startWatchedEngine, type WatchedEngine } from '../support/watched-engine.ts';
import { load } from '../unit/config/fake-files.ts';

let engine: WatchedEngine;
let folder: string;
const gateways: TestGateway[] = [];

beforeAll(async () => {
  engine = await startWatchedEngine();
  folder = mkdtempSync(join(tmpdir(), 'mdx-watched-'));
});
beforeEach(() => void Object.assign(engine, { data: 'old', away: false, looks: 0 }));
afterEach(async () => {
  await Promise.all(gateways.splice(0).map((one) => one.close()));
  engine.seen.splice(0);
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const settings = (watch: object, redis = '', more: Record<string, unknown> = {}) => ({
  engine: { url: `${engine.url}/{project}` },
  cache: { lease: '100ms', redis: { url: redis } },
  auth: { viewers: ['bob'] },
  projects: { a: { watch: { kind: 'xmla', every: '1s', ...watch } } },
  ...more,
});

async function start(...given: Parameters<typeof settings>): Promise<TestGateway> {
  const gateway = await startTestGateway(settings(...given));
  gateways.push(gateway);
  return gateway;
}

interface Told {
  readonly project: string;
  readonly state: string;
  readonly why: string;
  readonly failures: number;
  readonly due: boolean;
  readonly signature: string;
  readonly seen_at: string | null;
}

async function get(gateway: TestGateway, path: string, user = 'bob') {
  const answer = await checkedFetch(gateway.url + path, {
    headers: { authorization: basic(user) },
  });
  return { status: answer.status, text: await answer.text() };
}
const watches = async (gateway: TestGateway) =>
  (JSON.parse((await get(gateway, '/admin/watches')).text) as { watches: readonly Told[] }).watches;
const untilState = (gateway: TestGateway, state: string) =>
  until(
    () => watches(gateway),
    ([one]) => one?.state === state,
  );
const causes = ({ events }: TestGateway) =>
  events.flatMap((event) => (event.type === 'purged' ? `${event.principal} ${event.cause}` : []));
const untilPurges = (gateway: TestGateway, count: number) =>
  until(
    () => causes(gateway),
    (all) => all.length >= count,
  );

test('a change is seen without any call: a hit before, a miss after, and once more when the load is over', async () => {
  const gateway = await start({});
  await untilPurges(gateway, 1);
  await untilHit(gateway);
  engine.data = 'new';
  await until(
    () => ask(gateway),
    ({ body }) => body === dataAnswer('new'),
  );
  await untilPurges(gateway, 3);
  expect(causes(gateway)).toEqual(Array(3).fill('watch:a watch'));
  const { purges } = JSON.parse((await get(gateway, '/admin/purges')).text) as { purges: object[] };
  const purge = {
    principal: 'watch:a',
    cause: 'watch',
    scope: { project: 'a' },
    result: 'cleared',
  };
  expect(purges).toEqual(Array(3).fill(expect.objectContaining(purge)));
  // It goes on, and purges no more.
  const looked = engine.looks;
  await until(
    () => engine.looks,
    (looks) => looks > looked + 2,
  );
  expect(causes(gateway)).toHaveLength(3);
  const users = engine.seen.length - engine.looks;
  const asked = gateway.events.filter(({ type }) => type === 'engine-answered');
  expect(asked).toHaveLength(users);
});

test('with when_blind: bypass no remembered hit is answered while the source is away', async () => {
  const kept = settings({}).projects.a;
  const { projects } = settings({ when_blind: 'bypass' });
  const gateway = await start({}, '', { projects: { ...projects, kept } });
  await untilPurges(gateway, 2);
  for (const project of ['a', 'b', 'kept']) {
    await untilHit(gateway, { project });
    // From the second hit on it is recognised by its bytes.
    for (let hits = 0; hits < 3; hits += 1) await ask(gateway, { project });
  }
  engine.away = true;
  const asked = () => ask(gateway).then(({ cache }) => cache);
  await until(asked, (cache) => cache === 'fwd=bypass; detail=watch-blind');
  const blind = { state: 'blind', why: 'it answered with status 503' };
  await until(
    () => watches(gateway),
    ([, other]) => other?.state === 'blind',
  );
  expect(await watches(gateway)).toMatchObject([blind, blind]);
  for (const project of ['b', 'kept']) {
    expect((await ask(gateway, { project })).cache).toMatch(/^hit/);
  }
  const { findings } = JSON.parse((await get(gateway, '/admin/overview')).text) as {
    findings: readonly { kind: string }[];
  };
  expect(findings).toContainEqual(expect.objectContaining({ kind: 'watch-blind' }));
  engine.away = false;
  await until(asked, (cache) => cache.startsWith('hit'));
  expect(causes(gateway)).toHaveLength(2);
  engine.away = true;
  await until(asked, (cache) => cache === 'fwd=bypass; detail=watch-blind');
  Object.assign(engine, { data: 'new', away: false });
  const first = await until(
    () => ask(gateway),
    ({ cache }) => !cache.includes('watch-blind'),
  );
  expect(first.cache).not.toMatch(/^hit/);
  const states = gateway.events.flatMap((one) =>
    one.type === 'watch-state' && one.project === 'a' ? one.state : [],
  );
  expect(states).toEqual(['blind', 'seeing', 'blind', 'seeing']);
});

test('a reload goes on with what it does not change, and stops what is gone', async () => {
  const path = join(folder, 'loaded');
  writeFileSync(path, '');
  const b = { watch: { kind: 'file', path, every: '1s' } };
  const gateway = await start({}, '', { projects: { a: settings({}).projects.a, b } });
  await untilPurges(gateway, 2);
  const ages = async () =>
    [
      ...(await get(gateway, '/metrics')).text.matchAll(/watch_age_seconds\{project="(.*?)"\}/g),
    ].map(([, project]) => project);
  expect(await ages()).toEqual(['a', 'b']);
  await gateway.reload(
    settings({ every: '2s' }, '', { projects: { a: settings({ every: '2s' }).projects.a, b } }),
  );
  await untilState(gateway, 'seeing');
  const looked = engine.looks;
  await until(
    () => engine.looks,
    (looks) => looks > looked,
  );
  expect(causes(gateway)).toHaveLength(2);
  await gateway.reload(settings({}, '', { projects: { b } }));
  expect(await ages()).toEqual(['b']);
  expect((await watches(gateway)).map(({ project }) => project)).toEqual(['b']);
  writeFileSync(path, 'more');
  await untilPurges(gateway, 4);
  expect(causes(gateway).slice(2)).toEqual(['watch:b watch', 'watch:b watch']);
});

test('sources that hang keep no other waiting', async () => {
  let looks = 0;
  const server = createServer((request, response) => {
    if (request.url === '/hangs') return;
    looks += 1;
    response.setHeader('etag', '"1"').end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const watchOf = (path: string) => ({
    watch: { kind: 'url', url: `http://127.0.0.1:${port}/${path}`, every: '1s' },
  });
  const hanging = Array.from({ length: 20 }, (_, at) => [`h${at}`, watchOf('hangs')] as const);
  const projects = { ...Object.fromEntries(hanging), seen: watchOf('answers') };
  try {
    await start({}, '', { projects });
    await until(
      async () => looks,
      (count) => count > 3,
    );
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('GET /admin/watches is for those who may see purges, and shows no source', async () => {
  const gateway = await start({ user: 'QQZZ', password: 'QQZZ' });
  await untilState(gateway, 'seeing');
  const { text } = await get(gateway, '/admin/watches');
  expect(text).not.toMatch(/QQZZ|old/);
  expect(await watches(gateway)).toEqual([
    {
      project: 'a',
      kind: 'xmla',
      every_ms: 1_000,
      state: 'seeing',
      seen_at: expect.any(String),
      changed_at: null,
      purged_at: expect.any(String),
      due: false,
      failures: 0,
      why: '',
      signature: expect.stringMatching(/^[\da-f]{12}$/),
    },
  ]);
  expect((await get(gateway, '/admin/watches', 'alice')).status).toBe(403);
});

describe('two gateways on one Redis', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.close());

  test('ask once, purge both, tell the same, and go on when the one that asks is gone', async () => {
    const one = await start({}, redis.url);
    await untilPurges(one, 1);
    const other = await start({}, redis.url);
    await untilState(other, 'seeing');
    await untilHit(other);
    engine.data = 'new';
    await until(
      () => ask(other),
      ({ body }) => body === dataAnswer('new'),
    );
    await untilPurges(one, 3);
    expect(causes(other)).toEqual([]);
    await one.close();
    gateways.splice(gateways.indexOf(one), 1);
    engine.data = 'newer';
    await untilPurges(other, 1);
    expect(await watches(other)).toMatchObject([{ project: 'a', failures: 0 }]);
    expect(await askRedis(redis.port, 'GET {mdx}:2:note:watch:a')).not.toContain('newer');
  });

  test('that lost all that it knew is purged once more', async () => {
    const gateway = await start({}, redis.url);
    await untilState(gateway, 'seeing');
    const before = causes(gateway).length;
    await askRedis(redis.port, 'FLUSHALL');
    await untilPurges(gateway, before + 1);
    expect(causes(gateway)).toHaveLength(before + 1);
  });
});

test('check --connect says what each watcher sees, and refuses one that differs each time', async () => {
  const path = join(folder, 'seen');
  writeFileSync(path, '');
  const config = load({
    yaml: JSON.stringify({
      engine: { url: `${engine.url}/{project}` },
      storage: { path: join(folder, 'none.sqlite') },
      projects: {
        Good: { watch: { kind: 'xmla' } },
        Gone: { watch: { kind: 'file', path: join(folder, 'gone') } },
        Seen: { watch: { kind: 'file', path } },
      },
    }),
  });
  const parts = {
    clock: systemClock,
    random: Math.random,
    randomBytes: (count: number) => Buffer.alloc(count),
    emit() {},
  };
  const sleep = async () => {
    while (engine.looks === 0) await delay(1);
    engine.data = 'new';
  };
  const { ok, lines } = await tryConnections(config, { ...parts, sleep });
  expect(ok).toBe(false);
  expect(lines.filter((line) => line.startsWith('watch'))).toEqual([
    'watch Good (xmla): down: it differs at each question: [" Sales old "], then [" Sales new "]',
    'watch Gone (file): down: the file is not there',
    expect.stringMatching(/^watch Seen \(file\): up: it sees written \d+, 0 bytes, inode \d+$/),
  ]);
});
