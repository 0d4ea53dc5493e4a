import { afterAll, afterEach, beforeAll, beforeEach, expect } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { mddatasetAnswer } from './answers.ts';
import { execute } from './envelopes.ts';
import {
  configFolder,
  enginesAsked,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from './gateway-process.ts';
import { askXmla, send } from './http-client.ts';
import { childrenOf } from './oracle/process-states.ts';
import { sendXml, startStubEngine, type StubEngine } from './stub-engine.ts';
import { basic } from './test-gateway.ts';

export let engine: StubEngine;
export let folder: ConfigFolder;
let started: GatewayProcess[] = [];
let pids = new Set<number>();
export const query = execute({ statement: 'SELECT FROM [Sales]' });
export const OLD = mddatasetAnswer({ members: ['old'] });
export const NEW = mddatasetAnswer({ members: ['new'] });

beforeAll(async () => {
  engine = await startStubEngine(sendXml(OLD));
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
export function workersOf({ pid }: GatewayProcess): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  const found = text === '' ? [] : text.split(' ').map(Number);
  for (const each of found) pids.add(each);
  return found;
}

/** A process that has ended, and that nobody has taken notice of, counts as ended. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

export const run = (file: string) => {
  const running = runMain(['serve', '--config', file]);
  started.push(running);
  return running;
};
export async function serve(settings: Record<string, unknown> = {}) {
  const file = folder.write({
    workers: 2,
    engine: { url: engine.url },
    cache: { lease: '100ms' },
    ...settings,
  });
  const running = run(file);
  const url = await listening(running);
  await enginesAsked(running);
  return { running, url, workers: workersOf(running) };
}
export type SharedHouse = Awaited<ReturnType<typeof serveForAll>>;

/** For several tests, in a folder of its own; whoever starts it closes it. */
export async function serveForAll(settings: Record<string, unknown>) {
  const own = await configFolder();
  const running = runMain(['serve', '--config', own.write(settings)]);
  const url = await listening(running);
  await enginesAsked(running);
  return {
    running,
    url,
    workers: childrenOf(running.pid),
    write: own.write,
    async close() {
      running.kill('SIGTERM');
      await running.ended;
      own.remove();
    },
  };
}

export const messages = (running: GatewayProcess) => running.log.map(({ msg }) => msg);
export const linesOf = (running: GatewayProcess, message: string) =>
  running.log.filter(({ msg }) => msg === message);

/** The workers that have stored an answer, by their lines from a certain one on; one that came slowly is stored behind its line. */
export const whoStored = (running: GatewayProcess, from = 0) =>
  new Set(
    linesOf(running, 'xmla-answered')
      .slice(from)
      .flatMap((line) =>
        line['kind'] === 'miss' && line['detail'] === undefined ? line['worker'] : [],
      ),
  );

/** Asks until so many workers have the answer in their memory. */
export async function warm(running: GatewayProcess, url: string, workers = 2): Promise<void> {
  const before = linesOf(running, 'xmla-answered').length;
  while (whoStored(running, before).size < workers) {
    const answers = await Promise.all([1, 2, 3, 4].map(() => askXmla(url, query)));
    for (const { status } of answers) expect(status).toBe(200);
  }
}

export const clearCache = (url: string) =>
  send(url, {
    path: '/mdx/xmla/clearCache',
    headers: { authorization: basic('ADMIN'), accept: 'application/json' },
  });
