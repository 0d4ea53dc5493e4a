import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from 'node:fs';
import { Agent } from 'node:http';
import { connect, createServer, Socket } from 'node:net';
import { join } from 'node:path';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import {
  configFolder,
  listening,
  MAIN,
  PROGRAM_ENVIRONMENT,
  runMain,
  type ConfigFolder,
} from '../support/gateway-process.ts';
import { askXmla, send, until } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';
import { shared } from '../support/opened.ts';

type Line = Readonly<Record<string, unknown>>;

const engine = shared(() => startStubEngine(sendXml(mddatasetAnswer())));
let folder: ConfigFolder;
let endings: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  folder = await configFolder();
});
afterEach(async () => {
  await Promise.all(endings.map((end) => end()));
  endings = [];
  folder.remove();
});

/** What a container engine gives a process as standard output, or what systemd gives it. */
type Output = 'a pipe' | 'a socket' | 'a pipe for both outputs';

/** What Node.js warns of is written to standard error. */
const WARNS_AT_END = `process.once('SIGTERM', () => {
  for (let i = 0; i < 100; i += 1) process.emitWarning('w'.repeat(1000));
});`;

/** Ends a process as an error does: Node.js sets the outputs as it has found them. */
const CAN_END = `process.once('SIGUSR2', () => process.exit(1));`;

const childrenOf = (pid: number | undefined) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .map(Number)
    .filter((child) => child > 0);

/** What a process has as standard input, output and error: what Node.js sets as it was when the process ends. */
const standardOf = (pid: number) => [0, 1, 2].map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));

/** Has each process of the gateway do something of its own at first. @returns the environment for it */
function preloading(program: string): Record<string, string> {
  const file = join(folder.path, 'preloaded.mjs');
  writeFileSync(file, program);
  return { NODE_OPTIONS: `--import=${file}` };
}

function pipeAt(path: string): [Socket, number] {
  execFileSync('mkfifo', [path]);
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return [new Socket({ fd, readable: true, writable: false }), openSync(path, constants.O_WRONLY)];
}

/** Not `stdio: 'pipe'`: what Node.js makes of that is read on when the process has ended, whatever the test says. */
async function socketAt(path: string): Promise<[Socket, Socket]> {
  const server = createServer().listen(path);
  await once(server, 'listening');
  const writer = connect(path);
  const [[reader]] = await Promise.all([once(server, 'connection'), once(writer, 'connect')]);
  server.close();
  return [reader as Socket, writer];
}

/** Runs a gateway whose log is read until it listens, and from then on when the test says so. */
async function start(
  output: Output,
  settings: Readonly<Record<string, unknown>> = {},
  env: Readonly<Record<string, string>> = {},
) {
  const file = folder.write({ engine: { url: engine.url }, log: { level: 'debug' }, ...settings });
  const path = join(folder.path, 'log');
  const [log, stdout] = output === 'a socket' ? await socketAt(path) : pipeAt(path);
  const stderr = output === 'a pipe for both outputs' ? stdout : 'ignore';
  const child = spawn(process.execPath, [MAIN, 'serve', '--config', file], {
    env: { ...PROGRAM_ENVIRONMENT, ...env },
    stdio: ['ignore', stdout, stderr],
  });
  if (typeof stdout === 'number') closeSync(stdout);
  else stdout.destroy();
  let text = '';
  log.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as unknown);
  const workers = () => childrenOf(child.pid);
  endings.push(async () => {
    log.resume();
    const lives = child.exitCode === null && child.signalCode === null;
    for (const pid of lives ? workers() : []) process.kill(pid, 'SIGKILL');
    child.kill('SIGKILL');
    await ended;
    log.destroy();
  });
  const lines = (): Line[] =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line);
  const find = (msg: string) => lines().find((line) => line['msg'] === msg);
  await until(() => find('listening') !== undefined);
  log.pause();
  return {
    url: String(find('listening')?.['url']),
    pid: child.pid!,
    stop: () => void child.kill('SIGTERM'),
    ended,
    workers,
    lines,
    find,
    read: () => void log.resume(),
    atEnd: async () => void (log.readableEnded || (await once(log, 'end'))),
  };
}

/** More than a pipe holds, and the gateway besides. */
const TOO_MANY = 1_200;
/** More than a pipe or a socket holds. */
const FILLS = 250;

const isAlive = async (url: string) => (await send(url, { path: '/health/live' })).status;

/** Requests that are told at length, with 1 KB of lines each: what a pipe holds is full after sixty of them. */
async function flood(url: string, count: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const statuses = await Promise.all(
    Array.from({ length: count }, async (_none, i) => {
      const body = execute({ statement: `SELECT {[Measures].[${i}]} ON 0 FROM [Sales]` });
      const path = `/mdx/xmla/${'p'.repeat(240)}`;
      return (await askXmla(url, body, { path, agent })).status;
    }),
  );
  agent.destroy();
  return statuses;
}

const clear = (url: string) =>
  send(url, {
    path: '/mdx/xmla/learn/clearCache',
    headers: { authorization: basic('ADMIN') },
  });

describe('a gateway whose log nobody reads', () => {
  test.each(sampled<[Output]>([['a pipe for both outputs'], ['a socket'], ['a pipe']]))(
    'answers on, and tells what is missing when the reader of %s is back',
    async (output) => {
      const gateway = await start(output, { auth: { admins: ['ADMIN'] } });
      expect(new Set(await flood(gateway.url, TOO_MANY))).toEqual(new Set([200]));
      expect((await clear(gateway.url)).status).toBe(200);
      expect(await isAlive(gateway.url)).toBe(200);
      gateway.read();
      await until(() => gateway.find('log-lines-dropped') !== undefined);
      const told = gateway.find('log-lines-dropped');
      expect(told).toMatchObject({ level: 'warn', audit: 0 });
      expect(told?.['lines']).toBeGreaterThan(100);
      expect(gateway.find('purged')).toMatchObject({ principal: 'ADMIN' });
      expect((await clear(gateway.url)).status).toBe(200);
      gateway.stop();
      expect(await gateway.ended).toBe(0);
      await gateway.atEnd();
      expect(gateway.lines().filter(({ msg }) => msg === 'purged')).toHaveLength(2);
      expect(gateway.lines().at(-1)).toMatchObject({ msg: 'shutting down' });
    },
  );

  test.each(
    sampled<[Output, number, string]>([
      ['a pipe for both outputs', 1, 'it is told to'],
      ['a socket', 2, 'it is told to'],
      ['a pipe for both outputs', 2, 'it is told to'],
      ['a socket', 1, 'it is told to'],
      ['a socket', 2, 'its primary process is killed'],
    ]),
  )('ends with all its processes: %s, workers: %i, when %s', async (output, number, how) => {
    const gateway = await start(output, { workers: number }, preloading(WARNS_AT_END));
    await flood(gateway.url, FILLS);
    const workers = gateway.workers();
    const isTold = how === 'it is told to';
    process.kill(gateway.pid, isTold ? 'SIGTERM' : 'SIGKILL');
    expect(await gateway.ended).toBe(isTold ? 0 : 'SIGKILL');
    await until(() => !workers.some((pid) => existsSync(`/proc/${pid}`)));
  });

  test.each(sampled<[Output]>([['a socket'], ['a pipe for both outputs']]))(
    'answers on when a worker ends by itself, and ends then: %s',
    async (output) => {
      const gateway = await start(output, { workers: 2 }, preloading(CAN_END));
      await flood(gateway.url, FILLS);
      const [first = 0] = gateway.workers();
      const [, shared] = standardOf(gateway.pid);
      expect(gateway.workers().flatMap(standardOf)).not.toContain(shared);
      process.kill(first, 'SIGUSR2');
      await until(() => gateway.workers().length === 2 && !gateway.workers().includes(first));
      expect(new Set(await flood(gateway.url, 100))).toEqual(new Set([200]));
      gateway.stop();
      expect(await gateway.ended).toBe(0);
    },
  );

  test('passes on what Node.js says of an error that ends a worker', async () => {
    const program = `process.once('SIGUSR2', () => { throw new Error('an error of its own'); });`;
    const file = folder.write({ engine: { url: engine.url }, workers: 2 });
    const running = runMain(['serve', '--config', file], { env: preloading(program) });
    endings.push(() => (running.kill('SIGKILL'), running.ended));
    await listening(running);
    const [first = 0] = childrenOf(running.pid);
    process.kill(first, 'SIGUSR2');
    await until(() => running.log.some(({ msg }) => msg === 'worker-ended'));
    running.kill('SIGTERM');
    const { exit, stderr } = await running.ended;
    expect(exit).toBe(0);
    expect(stderr).toContain('Error: an error of its own');
  });

  test.each(sampled<[Output]>([['a pipe for both outputs'], ['a socket']]))(
    'answers on with workers, also when one ends and another one takes its place: %s',
    async (output) => {
      const gateway = await start(output, { workers: 2 });
      await flood(gateway.url, 100);
      const [first = 0] = gateway.workers();
      process.kill(first, 'SIGKILL');
      await until(() => gateway.workers().length === 2 && !gateway.workers().includes(first));
      const statuses = await flood(gateway.url, 100);
      expect(new Set(statuses)).toEqual(new Set([200]));
      gateway.read();
      gateway.stop();
      expect(await gateway.ended).toBe(0);
      await gateway.atEnd();
      // Each of them is whole, or this would not read them.
      expect(gateway.lines().length).toBeGreaterThan(100);
    },
  );
});
