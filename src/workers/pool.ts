import type { Socket } from 'node:net';
import type { Clock } from '../common/clock.ts';
import { messageOf } from '../common/errors.ts';
import type { Log } from '../observability/log.ts';
import type { Link } from './link.ts';

export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly link: Link;
  kill(): void;
  readonly ended: Promise<number | string>;
}

/** Service of a worker: `start` and `reload` answer a problem, if there is one; `stop`. */
export const WORKER = 'worker';
export const CONNECTIONS = 'connections';
/** The successor of a worker that lived for less has to wait, longer each time. */
const STEADY_MS = 30_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
const RELOAD_DEADLINE_MS = 60_000;

const notForked = (error: unknown) => ({ exit: 'not forked', problem: messageOf(error) });

/**
 * Each worker has at most one connection that it has not taken yet: a stalled one keeps no more.
 * @param options.attach serves what workers share; its result ends that
 * @param options.text of the configuration file
 * @param options.sleep resolves early when the signal aborts
 */
export function createWorkerPool(options: {
  workers: number;
  text: string | undefined;
  fork: () => WorkerProcess;
  attach: (link: Link) => () => void;
  clock: Pick<Clock, 'now'>;
  sleep: (milliseconds: number, signal: AbortSignal) => Promise<unknown>;
  log: Pick<Log['log'], 'info' | 'error'>;
  url: () => string;
}) {
  const { workers, clock, log } = options;
  let { text } = options;
  const alive = new Set<WorkerProcess>();
  const turns = createTurns();
  const stopping = new AbortController();
  let lives: readonly Promise<void>[] = [];
  let started = false;

  async function runOne(onReady: () => void) {
    const worker = options.fork();
    const { link, id, pid } = worker;
    let problem: string | undefined;
    const detach = options.attach(link);
    alive.add(worker);
    const begin = async () => {
      // All run with one text, even if the file changes before one starts again.
      const said = await link.call(WORKER, 'start', [text, workers], Infinity);
      problem = said as string | undefined;
      if (problem !== undefined) return void (await link.call(WORKER, 'stop', [], Infinity));
      turns.add(link);
      onReady();
      if (started) log.info({ worker: id, pid, url: options.url() }, 'worker-listens');
    };
    begin().catch(() => {});
    const exit = await worker.ended;
    alive.delete(worker);
    turns.remove(link);
    detach();
    link.close();
    return { worker: id, pid, exit, problem };
  }

  /** Replaces a worker that ends. @throws when one ends before all have started */
  async function keepOne(onReady: () => void): Promise<void> {
    let pause = 0;
    while (!stopping.signal.aborted) {
      const born = clock.now();
      const end = await runOne(onReady).catch(notForked);
      if (stopping.signal.aborted) return;
      if (!started) {
        throw new Error(end.problem ?? `a worker ended with ${end.exit} before it listened`);
      }
      const isQuick = clock.now() - born < STEADY_MS;
      pause = isQuick ? Math.min(LONGEST_PAUSE_MS, 2 * pause || FIRST_PAUSE_MS) : 0;
      log.error({ ...end, pause }, 'worker-ended');
      await options.sleep(pause, stopping.signal);
    }
  }

  async function stop(deadlineMs: number): Promise<void> {
    stopping.abort();
    turns.end();
    const timer = setTimeout(() => alive.forEach((worker) => worker.kill()), deadlineMs);
    for (const { link } of alive) link.call(WORKER, 'stop', [], deadlineMs).catch(() => {});
    await Promise.allSettled(lives);
    clearTimeout(timer);
  }

  return {
    /** @throws with the line of the first one that cannot start; then none is left */
    async start(): Promise<void> {
      const ready = Array.from({ length: workers }, () => Promise.withResolvers<void>());
      lives = ready.map(({ resolve }) => keepOne(resolve));
      try {
        await Promise.race([Promise.all(ready.map(({ promise }) => promise)), Promise.all(lives)]);
        started = true;
      } catch (error) {
        await stop(0);
        throw error;
      }
    },
    /** @returns a line for each that keeps its current configuration */
    async reload(next: string | undefined) {
      text = next;
      // Starting ones may have begun with the earlier configuration.
      const lines = [...alive].map(async (worker) => {
        const said = worker.link.call(WORKER, 'reload', [next], RELOAD_DEADLINE_MS);
        const problem = await said.then(() => undefined, messageOf);
        return problem !== undefined && alive.has(worker) ? [{ worker: worker.id, problem }] : [];
      });
      return (await Promise.all(lines)).flat();
    },
    give: turns.give,
    stop,
  };
}

function createTurns() {
  const serving = new Set<Link>();
  const free = new Set<Link>();
  const untaken: Socket[] = [];
  let ended = false;

  async function hand(link: Link, connection: Socket): Promise<void> {
    const take = link.call(CONNECTIONS, 'take', [], Infinity, connection);
    const [{ status }] = await Promise.allSettled([take]);
    connection.destroy();
    if (status === 'fulfilled' && serving.has(link)) free.add(link);
    match();
  }

  function match(): void {
    for (const link of free) {
      const connection = untaken.shift();
      if (connection === undefined) return;
      free.delete(link);
      void hand(link, connection);
    }
  }

  function closeUntaken(): void {
    for (const connection of untaken.splice(0)) connection.destroy();
  }

  return {
    add(link: Link): void {
      serving.add(link);
      free.add(link);
      match();
    },
    remove(link: Link): void {
      serving.delete(link);
      free.delete(link);
      if (serving.size === 0) closeUntaken();
    },
    /** @param connection not read from yet */
    give(connection: Socket): void {
      // Its client may go first.
      connection.on('error', () => {});
      untaken.push(connection);
      if (ended || serving.size === 0) closeUntaken();
      else match();
    },
    end(): void {
      ended = true;
      closeUntaken();
    },
  };
}
