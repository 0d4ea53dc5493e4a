import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync, writeFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { Socket } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import {
  configFolder,
  MAIN,
  PROGRAM_ENVIRONMENT,
  type ConfigFolder,
} from '../support/gateway-process.ts';
import { askXmla, send, until } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';
import { sampled } from '../support/sizes.ts';

type Line = Readonly<Record<string, unknown>>;

let engine: StubEngine;
let folder: ConfigFolder;
let endings: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
afterAll(() => engine.close());
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

/** Runs a gateway whose log is read until it listens, and from then on when the test says so. */
async function start(
  output: Output,
  settings: Readonly<Record<string, unknown>> = {},
  env: Readonly<Record<string, string>> = {},
) {
  const file = folder.write({ engine: { url: engine.url }, log: { level: 'debug' }, ...settings });
  const fifo = join(folder.path, 'log');
  let [stdout, reader]: ['pipe' | number, Readable | undefined] = ['pipe', undefined];
  if (output !== 'a socket') {
    execFileSync('mkfifo', [fifo]);
    const fd = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK);
    stdout = openSync(fifo, constants.O_WRONLY);
    reader = new Socket({ fd, readable: true, writable: false });
  }
  const stderr = output === 'a pipe for both outputs' ? stdout : 'ignore';
  const child = spawn(process.execPath, [MAIN, 'serve', '--config', file], {
    env: { ...PROGRAM_ENVIRONMENT, ...env },
    stdio: ['ignore', stdout, stderr],
  });
  if (typeof stdout === 'number') closeSync(stdout);
  const log = reader ?? child.stdout!;
  let text = '';
  log.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as unknown);
  const workers = () =>
    readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
      .split(' ')
      .map(Number)
      .filter((pid) => pid > 0);
  endings.push(async () => {
    log.resume();
    for (const pid of child.exitCode === null ? workers() : []) process.kill(pid, 'SIGKILL');
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
      expect(told).toMatchObject({ level: 40, audit: 0 });
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

  test.each(sampled<[Output]>([['a pipe for both outputs'], ['a socket']]))(
    'ends when it is told to: %s',
    async (output) => {
      const program = join(folder.path, 'warns.mjs');
      writeFileSync(program, WARNS_AT_END);
      const gateway = await start(output, {}, { NODE_OPTIONS: `--import=${program}` });
      await flood(gateway.url, 200);
      gateway.stop();
      expect(await gateway.ended).toBe(0);
    },
  );

  test.each(sampled<[Output]>([['a pipe for both outputs'], ['a socket']]))(
    'answers on with workers, also when one ends and another one takes its place: %s',
    async (output) => {
      const gateway = await start(output, { workers: 2 });
      await flood(gateway.url, 200);
      const [first = 0] = gateway.workers();
      process.kill(first, 'SIGKILL');
      await until(() => gateway.workers().length === 2 && !gateway.workers().includes(first));
      const statuses = await flood(gateway.url, 200);
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
