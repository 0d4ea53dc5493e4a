import type { Socket } from 'node:net';
import type { Clock } from '../common/clock.ts';
import { messageOf } from '../common/errors.ts';
import type { Log } from '../observability/log.ts';
import type { Link } from './link.ts';

/** As the primary process sees it. */
export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly link: Link;
  kill(): void;
  /** Its exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
}

/**
 * The service of a worker: `start` with a configuration and how many workers run, which answers when it takes
 * connections, or why it cannot; `reload` with another configuration; `stop`.
 */
export const WORKER = 'worker';
/** The service of a worker that takes connections: `take`. */
export const CONNECTIONS = 'connections';
/** Behind a worker that lived for less the next one waits, longer each time (ms). */
const STEADY = 30_000;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;
/** Where Redis does not answer it is waited for a while (ms). */
const RELOAD_DEADLINE = 60_000;

const notForked = (error: unknown) => ({ exit: 'not forked', problem: messageOf(error) });

/**
 * The worker processes, whose number it keeps, and to which it gives connections in turn. Each has at most one that it
 * has not taken yet, so that one that stalls keeps no more; that one is closed when the worker ends.
 * @param options.attach serves what workers share; what it returns is called when the worker is gone
 * @param options.text of the configuration file; undefined: there is none
 * @param options.sleep resolves early when the signal aborts
 * @param options.url where the workers can be reached
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
  const serving = new Set<Link>();
  /** … and have taken the latest one that they were given, those that wait longest first. */
  const free = new Set<Link>();
  const untaken: Socket[] = [];
  const stopping = new AbortController();
  let lives: readonly Promise<void>[] = [];
  let started = false;

  async function hand(link: Link, connection: Socket): Promise<void> {
    const take = link.call(CONNECTIONS, 'take', [], Infinity, connection);
    const [{ status }] = await Promise.allSettled([take]);
    // The worker has a copy of its own.
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

  /** One worker from its start to its end. */
  async function runOne(onReady: () => void) {
    const worker = options.fork();
    const { link, id, pid } = worker;
    let problem: string | undefined;
    const detach = options.attach(link);
    alive.add(worker);
    const begin = async () => {
      // All run with the same one, whatever the file says when one of them starts again.
      const said = await link.call(WORKER, 'start', [text, workers], Infinity);
      problem = said as string | undefined;
      if (problem !== undefined) return void (await link.call(WORKER, 'stop', [], Infinity));
      serving.add(link);
      free.add(link);
      match();
      onReady();
      if (started) log.info({ worker: id, pid, url: options.url() }, 'worker-listens');
    };
    // It rejects when the worker is gone.
    begin().catch(() => {});
    const exit = await worker.ended;
    alive.delete(worker);
    serving.delete(link);
    free.delete(link);
    if (serving.size === 0) closeUntaken();
    detach();
    link.close();
    return { worker: id, pid, exit, problem };
  }

  /** One after the other. @throws when one ends before all have started */
  async function keepOne(onReady: () => void): Promise<void> {
    let pause = 0;
    while (!stopping.signal.aborted) {
      const born = clock.now();
      const end = await runOne(onReady).catch(notForked);
      if (stopping.signal.aborted) return;
      if (!started) {
        throw new Error(end.problem ?? `a worker ended with ${end.exit} before it listened`);
      }
      const isQuick = clock.now() - born < STEADY;
      pause = isQuick ? Math.min(LONGEST_PAUSE, 2 * pause || FIRST_PAUSE) : 0;
      log.error({ ...end, pause }, 'worker-ended');
      await options.sleep(pause, stopping.signal);
    }
  }

  /** @param deadline milliseconds after which those that are left are killed */
  async function stop(deadline: number): Promise<void> {
    stopping.abort();
    closeUntaken();
    const timer = setTimeout(() => {
      for (const worker of alive) worker.kill();
    }, deadline);
    for (const { link } of alive) link.call(WORKER, 'stop', [], deadline).catch(() => {});
    await Promise.allSettled(lives);
    clearTimeout(timer);
  }

  return {
    /** Resolves when all are ready. @throws with the line of the first one that cannot start; then none is left */
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
    /** @returns one line for each that keeps its current configuration */
    async reload(next: string | undefined) {
      text = next;
      // Also those that start: they may have begun with the configuration before this one.
      const lines = [...alive].map(async (worker) => {
        const over = worker.link.call(WORKER, 'reload', [next], RELOAD_DEADLINE);
        const problem = await over.then(() => undefined, messageOf);
        // One that has ended meanwhile keeps nothing.
        return problem !== undefined && alive.has(worker) ? [{ worker: worker.id, problem }] : [];
      });
      return (await Promise.all(lines)).flat();
    },
    /** @param connection not read from yet */
    give(connection: Socket): void {
      // Its client may go before a worker has it.
      connection.on('error', () => {});
      untaken.push(connection);
      if (stopping.signal.aborted || serving.size === 0) closeUntaken();
      else match();
    },
    stop,
  };
}
