import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { mddatasetAnswer } from '../support/answers.ts';
import { makeAuthority, type Certificate } from '../support/certificates.ts';
import { execute } from '../support/envelopes.ts';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';

let engine: StubEngine;
let folder: ConfigFolder;
let started: GatewayProcess[] = [];
let pids = new Set<number>();
const query = execute({ statement: 'SELECT FROM [Sales]' });
const OLD = mddatasetAnswer({ members: ['old'] });
const NEW = mddatasetAnswer({ members: ['new'] });

beforeAll(async () => {
  engine = await startStubEngine(() => {});
});
afterAll(() => engine.close());
beforeEach(async () => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(OLD));
  folder = await configFolder();
});
afterEach(async () => {
  for (const running of started) running.kill('SIGKILL');
  for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  started = [];
  pids = new Set();
  folder.remove();
});

/** The processes that this one has forked and that still run. */
function workersOf({ pid }: GatewayProcess): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  const found = text === '' ? [] : text.split(' ').map(Number);
  for (const each of found) pids.add(each);
  return found;
}

/** A process that has ended, and that nobody has taken notice of, counts as ended. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

const run = (file: string) => {
  const running = runMain(['serve', '--config', file]);
  started.push(running);
  return running;
};
async function serve(settings: Record<string, unknown> = {}) {
  const file = folder.write({
    workers: 2,
    engine: { url: engine.url },
    cache: { lease: '100ms' },
    ...settings,
  });
  const running = run(file);
  const url = await listening(running);
  return { running, url, workers: workersOf(running) };
}
const messages = (running: GatewayProcess) => running.log.map(({ msg }) => msg);
const linesOf = (running: GatewayProcess, message: string) =>
  running.log.filter(({ msg }) => msg === message);

/** The workers that have stored an answer of their own so far. */
const whoStored = (running: GatewayProcess) =>
  new Set(
    linesOf(running, 'xmla-answered').flatMap((line) => (line['stored'] ? line['worker'] : [])),
  );

/** Asks until so many workers have the answer in their memory. */
async function warm(running: GatewayProcess, url: string, workers = 2): Promise<void> {
  const before = linesOf(running, 'xmla-answered').length;
  const stored = () =>
    new Set(
      linesOf(running, 'xmla-answered')
        .slice(before)
        .flatMap((line) => (line['stored'] === true ? line['worker'] : [])),
    );
  while (stored().size < workers) {
    const answers = await Promise.all([1, 2, 3, 4].map(() => askXmla(url, query)));
    for (const { status } of answers) expect(status).toBe(200);
  }
}

const clearCache = (url: string) =>
  send(url, {
    path: '/mdx/xmla/clearCache',
    headers: { authorization: basic('ADMIN'), accept: 'application/json' },
  });

describe('workers without Redis', () => {
  test('all listen on one port, and each answers from its own memory', async () => {
    const { running, url, workers } = await serve();
    expect(workers).toHaveLength(2);
    expect(linesOf(running, 'listening')).toEqual([expect.objectContaining({ url, workers: 2 })]);
    await warm(running, url);
    expect(whoStored(running)).toEqual(new Set([1, 2]));
    for (let hits = 0; hits === 0;) {
      const fetched = engine.seen.length;
      const answers = await Promise.all(
        Array.from({ length: 20 }, async () => await askXmla(url, query)),
      );
      expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([OLD]));
      hits = answers.filter((answer) => shortStatus(answer) === 'hit').length;
      // Whoever could not ask for the epochs in time asked the engine; nobody else did.
      expect(engine.seen.length - fetched).toBeLessThanOrEqual(answers.length - hits);
    }
    const refused = await askXmla(url, query, { headers: { authorization: basic('nobody') } });
    expect(refused.status).toBe(401);
  });

  test('answer nothing older than a purge at one of them, once that is acknowledged', async () => {
    const { running, url } = await serve();
    await warm(running, url);
    engine.answerWith(sendXml(NEW));
    const receipt = await clearCache(url);
    expect(receipt.status).toBe(200);
    const { waited } = JSON.parse(receipt.text) as { waited: number };
    expect(waited).toBeGreaterThanOrEqual(109);
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await askXmla(url, query)),
    );
    expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([NEW]));
  });

  test('show one log of purges', async () => {
    const { url } = await serve();
    await clearCache(url);
    const headers = { authorization: basic('ADMIN') };
    for (let turn = 0; turn < 6; turn += 1) {
      let told: { complete: boolean; purges: readonly unknown[] };
      // It is written after the answer, and not whole where the primary process is asked in vain.
      do {
        const { text } = await send(url, { path: '/admin/purges', headers });
        told = JSON.parse(text) as typeof told;
      } while (!told.complete || told.purges.length === 0);
      expect(told).toMatchObject({ complete: true, purges: [{ principal: 'ADMIN' }] });
    }
  });

  test('have one storage', async () => {
    const { url } = await serve();
    const headers = { authorization: basic('ADMIN'), 'content-type': 'application/json' };
    const contains = [{ type: 'user', name: 'alice' }];
    const body = JSON.stringify({ name: 'Analysts', contains, description: '' });
    const made = await send(url, { method: 'POST', path: '/api/role', headers, body });
    expect([made.status, made.text]).toEqual([200, expect.any(String)]);
    for (let turn = 0; turn < 6; turn += 1) {
      const { text } = await send(url, {
        path: '/api/roles?pageNum=0&pageSize=20&containsDesc=false',
        headers,
      });
      expect(text).toContain('Analysts');
    }
  });
});

test('workers speak HTTPS, and a renewed certificate counts at all of them', async () => {
  const [authority, renewed] = [makeAuthority(), makeAuthority()];
  const settings = ({ certificate, key }: Certificate) => ({
    workers: 2,
    engine: { url: engine.url },
    listen: { certificate, key },
  });
  const { running, url } = await serve(settings(authority.issue('gateway')));
  const ask = (ca: string) => send(url, { path: '/health/live', ca });
  for (let turn = 0; turn < 4; turn += 1) expect((await ask(authority.pem)).status).toBe(200);
  folder.write(settings(renewed.issue('gateway')));
  running.kill('SIGHUP');
  await until(() => messages(running).includes('configuration read again'));
  for (let turn = 0; turn < 4; turn += 1) expect((await ask(renewed.pem)).status).toBe(200);
  authority.remove();
  renewed.remove();
});

describe('a worker', () => {
  test('that is killed is replaced, and the others go on', async () => {
    const { running, url, workers } = await serve();
    await warm(running, url);
    const [killed = 0] = workers;
    process.kill(killed, 'SIGKILL');
    await until(() => messages(running).includes('worker-ended'));
    expect((await askXmla(url, query)).status).toBe(200);
    await until(() => messages(running).includes('worker-listens'));
    expect(linesOf(running, 'worker-ended')).toEqual([
      expect.objectContaining({ pid: killed, exit: 'SIGKILL', level: 50 }),
    ]);
    const replaced = workersOf(running);
    expect(replaced).toHaveLength(2);
    expect(replaced).not.toContain(killed);
    // The new one answers too.
    while (!whoStored(running).has(3)) await askXmla(url, query);
    expect(linesOf(running, 'listening')).toHaveLength(1);
  });

  test('that stalls holds up no purge, and has nothing old to say when it goes on', async () => {
    const { running, url, workers } = await serve();
    await warm(running, url);
    const [stalled = 0] = workers;
    process.kill(stalled, 'SIGSTOP');
    engine.answerWith(sendXml(NEW));
    // One connection may come to the worker that stalls; it is given no second one.
    const purges = [clearCache(url), clearCache(url)];
    const { status, text } = await Promise.race(purges);
    expect([status, JSON.parse(text)]).toEqual([200, expect.objectContaining({ replicas: 1 })]);
    process.kill(stalled, 'SIGCONT');
    const answers = Array.from({ length: 20 }, async () => (await askXmla(url, query)).text);
    expect(new Set(await Promise.all(answers))).toEqual(new Set([NEW]));
    await Promise.all(purges);
  });
});

/** Two requests that the engine does not answer yet. */
async function slowRequests(url: string) {
  const rest = gate();
  engine.answerWith(async (response, seen) => {
    await rest.opened;
    void sendXml(OLD)(response, seen);
  });
  const before = engine.seen.length;
  const answers = ['A', 'B', 'C', 'D'].map((cube) =>
    askXmla(url, execute({ statement: `SELECT FROM [${cube}]` })),
  );
  await until(() => engine.seen.length === before + answers.length);
  return { answers, letGo: rest.open };
}

describe('a shutdown', () => {
  test.each([
    ['of the primary process', false],
    ['of the whole group of processes', true],
  ])('lets requests finish, takes no new ones, and ends all with 0: %s', async (_what, group) => {
    const { running, url, workers } = await serve();
    const { answers, letGo } = await slowRequests(url);
    if (group) for (const pid of workers) process.kill(pid, 'SIGINT');
    running.kill(group ? 'SIGINT' : 'SIGTERM');
    await until(() => messages(running).includes('shutting down'));
    for (let refused = false; !refused;) {
      const socket = connect(portOf(url), '127.0.0.1');
      refused = await Promise.race([
        once(socket, 'connect').then(() => false),
        once(socket, 'error').then(() => true),
      ]).catch(() => true);
      socket.destroy();
    }
    letGo();
    for (const { status, text } of await Promise.all(answers)) {
      expect([status, text]).toEqual([200, OLD]);
    }
    const { exit, stderr } = await running.ended;
    expect([exit, stderr]).toEqual([0, '']);
    expect(workers.filter(isAlive)).toEqual([]);
    expect(messages(running)).not.toContain('worker-ended');
  });

  test('of a primary process that is killed ends its workers, with what is under way', async () => {
    const { running, url, workers } = await serve();
    const { answers, letGo } = await slowRequests(url);
    running.kill('SIGKILL');
    const gone = 'the primary process is gone: shutting down';
    await until(() => linesOf(running, gone).length === 2);
    letGo();
    for (const { status, text } of await Promise.all(answers)) {
      expect([status, text]).toEqual([200, OLD]);
    }
    await until(() => workers.every((pid) => !isAlive(pid)));
    expect((await running.ended).exit).toBe('SIGKILL');
  });

  test('of a primary process that is killed while its workers start leaves none of them', async () => {
    // They wait a while for a Redis that is away, so they are in the midst of their start.
    const running = run(
      folder.write({
        workers: 2,
        engine: { url: engine.url },
        cache: { redis: { url: 'redis://127.0.0.1:1' } },
      }),
    );
    await until(() => linesOf(running, 'redis-state').length === 2);
    const workers = workersOf(running);
    running.kill('SIGKILL');
    await until(() => workers.every((pid) => !isAlive(pid)));
    expect((await running.ended).exit).toBe('SIGKILL');
  });
});

describe('SIGHUP', () => {
  test('lets a changed configuration count at every worker, and at those that start later', async () => {
    const { running, url, workers } = await serve();
    const other = await startStubEngine(sendXml(NEW));
    folder.write({ workers: 3, engine: { url: other.url }, cache: { lease: '200ms' } });
    running.kill('SIGHUP');
    await until(() => messages(running).includes('configuration read again'));
    expect(messages(running)).toContain('a change of workers counts after a restart only');
    // What stands in the file counts for nobody before the next signal.
    folder.writeText('engine: { url: nonsense }\n');
    process.kill(workers[0] ?? 0, 'SIGKILL');
    await until(() => messages(running).includes('worker-listens'));
    const answers = Array.from({ length: 12 }, async () => (await askXmla(url, query)).text);
    expect(new Set(await Promise.all(answers))).toEqual(new Set([NEW]));
    expect(workersOf(running)).toHaveLength(2);
    await other.close();
  });

  test('keeps the old configuration when the new one is wrong, and says so in one line', async () => {
    const { running, url } = await serve();
    folder.writeText('engine: { url: nonsense }\n');
    running.kill('SIGHUP');
    await until(() => messages(running).includes('the configuration of before stays'));
    expect(linesOf(running, 'the configuration of before stays')).toEqual([
      expect.objectContaining({ level: 50, problem: expect.stringContaining('engine.url') }),
    ]);
    expect((await askXmla(url, query)).status).toBe(200);
  });
});

test('a start that fails because the port is taken says so in one line and ends with 1', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const running = run(folder.write({ workers: 3, engine: { url: engine.url }, listen: { port } }));
  const { exit, stderr } = await running.ended;
  expect([exit, stderr]).toEqual([
    1,
    `mdx-gateway: listen: cannot listen on 127.0.0.1:${port}: another program listens there; choose another listen.port\n`,
  ]);
  taken.close();
});
