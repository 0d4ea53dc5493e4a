import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { hash } from 'bcrypt';
import { mddatasetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import {
  type ConfigFolder,
  configFolder,
  type GatewayProcess,
  listening,
  MAIN,
  runCommand,
  runMain,
} from '../support/gateway-process.ts';
import { askXmla, send, shortStatus, until } from '../support/http-client.ts';
import '../support/patient-redis.ts';
import { certain, onConnection } from '../support/redis-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { beginSession, inSession } from '../support/stamped-client.ts';
import { startSessionEngine } from '../support/session-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { endedRuns, nextRun, purge, readWarmUp, warmNow } from '../support/warm-up.ts';

const query = (name: string) =>
  execute({ statement: `SELECT FROM [${name}]`, properties: { Catalog: 'Shop' } });
const NAMES = ['Sales', 'Store', 'Stock'];

let redis: RedisServer;
let engine: StubEngine;
let gateways: TestGateway[];
let running: GatewayProcess | undefined;
let folder: ConfigFolder | undefined;

beforeEach(async () => {
  [redis, engine] = await Promise.all([startRedis(), startStubEngine(sendXml(mddatasetAnswer()))]);
  gateways = [];
});
afterEach(async () => {
  for (const one of gateways) await one.close();
  running?.kill('SIGKILL');
  await running?.ended;
  folder?.remove();
  [running, folder] = [undefined, undefined];
  await Promise.all([redis.close(), engine.close()]);
});

const settings = (warm: object = {}) => ({
  engine: { url: engine.url },
  cache: { share: 'everyone', lease: '100ms', redis: { url: redis.url } },
  warm: { mode: 'auto', settle: '1s', ...warm },
});

async function start(warm: object = {}): Promise<TestGateway> {
  const one = await startTestGateway(settings(warm));
  gateways.push(one);
  return one;
}

async function askTwice(url: string): Promise<void> {
  for (const name of [...NAMES, ...NAMES]) await askXmla(url, query(name));
}

const statusesAt = async (url: string) => {
  const statuses = [];
  for (const name of NAMES) statuses.push(shortStatus(await askXmla(url, query(name))));
  return statuses;
};

describe('gateways that share a Redis', () => {
  test('make one run for all, and each finds its answers', async () => {
    const [one, other] = [await start(), await start()];
    await askTwice(one.url);
    // The other one has to be told.
    await certain(async () => (await readWarmUp(one)).candidates.length === 3, 'no candidates');
    const run = await nextRun(one, () => purge(one), [one, other]);
    expect(run).toMatchObject({ planned: 3, stored: 3 });
    for (const { url } of [one, other]) {
      expect(new Set(await statusesAt(url))).toEqual(new Set(['hit']));
    }
    // Longer than the other one would wait for.
    await nextRun(other, () => warmNow(other), [one, other]);
    expect([one, other].flatMap(({ events }) => endedRuns(events))).toHaveLength(2);
    const told = await Promise.all([readWarmUp(one), readWarmUp(other)]);
    expect(told.map(({ runs }) => runs.map(({ by }) => by))).toEqual([
      ['ADMIN', null],
      ['ADMIN', null],
    ]);
  });

  test('have one list, which outlives them', async () => {
    const first = await start();
    await askTwice(first.url);
    await readWarmUp(first);
    await first.close();
    gateways.pop();
    const next = await start();
    const run = await nextRun(next, () => purge(next));
    expect(run).toMatchObject({ stored: 3, cut: null });
  });

  test('go on with a run whose gateway was killed, which is told', async () => {
    folder = await configFolder();
    const open = gate();
    running = runMain(['serve', '--config', folder.write(settings({ concurrency: 1 }))]);
    const url = await listening(running);
    await askTwice(url);
    await certain(async () => (await readWarmUp({ url })).candidates.length === 3, 'no candidates');
    engine.answerWith(async (...exchange) => {
      await open.opened;
      await sendXml(mddatasetAnswer())(...exchange);
    });
    await purge({ url });
    await certain(async () => (await readWarmUp({ url })).run?.planned === 3, 'no run');
    const other = await start();
    running.kill('SIGKILL');
    await running.ended;
    open.open();
    const run = await nextRun(other, async () => {});
    expect(run).toMatchObject({ planned: 3, cut: null });
    expect(run.stored + run.there).toBe(3);
    const { runs } = await readWarmUp(other);
    expect(runs).toMatchObject([{ id: run.id }, { cut: 'gateway-gone', purge: run.purge }]);
    expect(runs[0]?.gateway).not.toBe(runs[1]?.gateway);
  }, 60_000);

  test('make none while Redis is away, and say that they do not know all', async () => {
    const one = await start();
    await askTwice(one.url);
    await redis.stop();
    expect(await readWarmUp(one)).toMatchObject({ complete: false, candidates: [] });
    const { status } = await warmNow(one);
    expect(status).toBe(409);
    await redis.restart();
    await certain(async () => (await readWarmUp(one)).complete, 'Redis is not back');
    const run = await nextRun(one, () => certain(async () => purgedAt(one), 'not purged'));
    expect(run.failed).toEqual({});
  }, 60_000);
});

const purgedAt = (one: TestGateway) =>
  purge(one).then(
    () => true,
    () => false,
  );

test('workers without Redis fill their memory one after the other', async () => {
  folder = await configFolder();
  const { cache, ...others } = settings();
  const file = folder.write({ ...others, workers: 2, cache: { ...cache, redis: {} } });
  running = runMain(['serve', '--config', file]);
  const url = await listening(running);
  for (let times = 0; times < 4; times += 1) await askTwice(url);
  await certain(async () => (await readWarmUp({ url })).candidates.length === 3, 'no candidates');
  await purge({ url });
  const ended = async () => (await readWarmUp({ url })).runs;
  await certain(async () => (await ended()).length === 2, 'not both');
  const [one, other] = await ended();
  expect([one?.purge, one?.cut, other?.cut]).toEqual([expect.any(String), null, null]);
  expect(other?.purge).toBe(one?.purge);
  expect(one?.gateway).not.toBe(other?.gateway);
  expect(Date.parse(String(one?.begun))).toBeGreaterThanOrEqual(Date.parse(String(other?.ended)));
}, 60_000);

describe('what is kept for the warm-up', () => {
  const PASSWORD = 'correct-horse-7391';
  const LOGIN = `Basic ${Buffer.from(`ADMIN:${PASSWORD}`).toString('base64')}`;

  test('holds no login after a run that an administrator asked for, nor does anything else', async () => {
    folder = await configFolder();
    writeFileSync(join(folder.path, 'users.htpasswd'), `ADMIN:${await hash(PASSWORD, 4)}\n`);
    const file = folder.write({
      ...settings(),
      engine: { url: engine.url, login: 'forward' },
      cache: { share: 'user', lease: '100ms', redis: { url: redis.url } },
      auth: { verified_for: '1s' },
      log: { level: 'trace', statements: 'all' },
    });
    const words = [process.execPath, '--heapsnapshot-signal=SIGUSR2', MAIN, 'serve'];
    running = runCommand([...words, '--config', file], { cwd: folder.path });
    const url = await listening(running);
    const headers = { authorization: LOGIN };
    for (const name of [...NAMES, ...NAMES]) await askXmla(url, query(name), { headers });
    await send(url, { path: '/mdx/xmla/clearCache', headers });
    const { status } = await send(url, { method: 'POST', path: '/admin/warm', headers });
    expect(status).toBe(202);
    const told = () =>
      running?.log.find(({ msg, state }) => msg === 'warm-run' && state === 'ended');
    await until(() => told() !== undefined);
    expect(told()).toMatchObject({ stored: 3, by: 'ADMIN' });
    // What ordinary requests keep, verified logins and connections to the engine, is over.
    await engine.close();
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await askXmla(url, query('other'), { headers: { authorization: basic('nobody') } });
    running.kill('SIGUSR2');
    const snapshots = () =>
      readdirSync(folder?.path ?? '').filter((name) => name.endsWith('.heapsnapshot'));
    await until(() => snapshots().length === 1);
    const [snapshot = ''] = snapshots();
    const read = () => readFileSync(join(folder?.path ?? '', snapshot), 'utf8');
    await until(() => read().trimEnd().endsWith('}'));
    const found = (text: string) => [text.includes(LOGIN.slice(6)), text.includes(PASSWORD)];
    expect(read()).toContain('SELECT FROM [Stock]');
    expect(found(read())).toEqual([false, false]);
    expect(found(JSON.stringify(running.log))).toEqual([false, false]);
    const kept = await onConnection(redis.port, {}, async (client) => {
      const keys = await client.keys('*');
      return Promise.all(keys.map(async (key) => `${key} ${String(await client.dump(key))}`));
    });
    expect(kept.length).toBeGreaterThan(3);
    expect(found(kept.join('\n'))).toEqual([false, false]);
  }, 120_000);

  test('holds no session id and no id of a client', async () => {
    const sessions = await startSessionEngine({ kind: 'emondrian' });
    const one = await startTestGateway({
      ...settings(),
      engine: { url: sessions.url, kind: 'emondrian' },
    });
    gateways.push(one);
    const id = '11111111-2222-4333-8444-555555555555';
    const properties = { Catalog: 'Shop', DbpropMsmdActivityID: id, SspropInitWsid: id };
    const begun = await beginSession(one.url, { properties });
    for (const statement of ['SELECT FROM [A]', 'SELECT FROM [A]']) {
      await askXmla(one.url, execute({ statement, properties, session: inSession(begun) }));
    }
    const secret = { DataSourceInfo: 'Provider=x;Password=hush' };
    await askXmla(one.url, discover({ requestType: 'MDSCHEMA_CUBES', properties: secret }));
    const { candidates } = await readWarmUp(one);
    expect(candidates).toHaveLength(1);
    const note = await onConnection(redis.port, {}, async (client) => {
      const [key = ''] = await client.keys('*note:warm:candidates');
      return client.get(key);
    });
    const text = inflateRawSync(Buffer.from(String(note), 'base64')).toString();
    expect(text).toContain('SELECT FROM [A]');
    expect([begun, id, 'hush', basic('alice')].filter((one) => text.includes(one))).toEqual([]);
    await sessions.close();
  });
});
