import type { Clock } from '../common/clock.ts';
import type { createLog } from '../observability/log.ts';
import { messageOf, type Link } from './link.ts';

/** One worker process, as the primary process sees it. */
export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly link: Link;
  /** Ends it at once. */
  kill(): void;
  /** Its exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
}

/** The worker processes, whose number it keeps. */
export interface WorkerPool {
  /**
   * Starts them. Resolves when all are ready.
   * @throws with the line of the first one that cannot start; then none is left
   */
  start(): Promise<void>;
  /**
   * Has each of them go over to a configuration.
   * @returns one line for each that keeps its current configuration
   */
  reload(text: string | undefined): Promise<readonly { worker: number; problem: string }[]>;
  /** Has them finish what is under way. @param deadline milliseconds after which those that are left are killed */
  stop(deadline: number): Promise<void>;
}

/** The service by which a worker reports to the pool. */
export const POOL = 'pool';
/** The service of a worker that takes the orders of the pool. */
export const WORKER = 'worker';

/** A worker that lived for less died at once: the next one waits, longer each time (ms). */
const STEADY = 30_000;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;
/** What going over to a configuration may take: a Redis that does not answer is waited for a while (ms). */
const RELOAD_DEADLINE = 60_000;

/**
 * @param options.attach serves what workers share; what it returns is called when the worker is gone
 * @param options.join the worker is ready for connections; what it returns is called when it is gone
 * @param options.text of the configuration file; undefined: there is none
 * @param options.sleep rejects when the signal aborts
 */
export function createWorkerPool(options: {
  workers: number;
  text: string | undefined;
  fork: () => WorkerProcess;
  attach: (link: Link) => () => void;
  join: (link: Link) => () => void;
  clock: Pick<Clock, 'now'>;
  sleep: (milliseconds: number, signal: AbortSignal) => Promise<unknown>;
  log: Pick<ReturnType<typeof createLog>, 'info' | 'error'>;
  /** Where the workers can be reached. */
  url: () => string;
}): WorkerPool {
  const { workers, clock, log } = options;
  let { text } = options;
  const alive = new Set<WorkerProcess>();
  const stopping = new AbortController();
  let lives: readonly Promise<void>[] = [];
  let started = false;

  /** One worker from its start to its end. */
  async function runOne(onReady: () => void) {
    let worker: WorkerProcess;
    try {
      worker = options.fork();
    } catch (error) {
      const problem = messageOf(error);
      return { worker: undefined, pid: undefined, exit: 'not forked', problem };
    }
    const { link, id, pid } = worker;
    let problem: string | undefined;
    const detach = options.attach(link);
    let leave: (() => void) | undefined;
    link.serve(POOL, {
      // All run with the same one, whatever the file says when one of them starts again.
      configuration: () => ({ text, workers }),
      ready() {
        leave = options.join(link);
        onReady();
        if (started) log.info({ worker: id, pid, url: options.url() }, 'worker-listens');
      },
      failed: (said) => void (problem = String(said)),
    });
    alive.add(worker);
    const exit = await worker.ended;
    alive.delete(worker);
    leave?.();
    detach();
    link.close();
    return { worker: id, pid, exit, problem };
  }

  /** One worker after the other, until all are to stop. */
  async function keepOne(onReady: () => void, onFailure: (error: Error) => void): Promise<void> {
    let quickDeaths = 0;
    while (!stopping.signal.aborted) {
      const born = clock.now();
      const end = await runOne(onReady);
      if (stopping.signal.aborted) return;
      if (!started) {
        const message = end.problem ?? `a worker ended with ${end.exit} before it listened`;
        return onFailure(new Error(message));
      }
      quickDeaths = clock.now() - born < STEADY ? quickDeaths + 1 : 0;
      const pause =
        quickDeaths === 0 ? 0 : Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (quickDeaths - 1));
      // `worker` is undefined when the system could not make it; after `pause` ms another one takes its place.
      log.error({ ...end, pause }, 'worker-ended');
      await options.sleep(pause, stopping.signal).catch(() => {});
    }
  }

  function killAll(): void {
    for (const worker of alive) worker.kill();
  }

  return {
    async start() {
      const ready = Array.from({ length: workers }, () => Promise.withResolvers<void>());
      const failure = Promise.withResolvers<never>();
      lives = ready.map(({ resolve }) => keepOne(resolve, failure.reject));
      try {
        await Promise.race([Promise.all(ready.map(({ promise }) => promise)), failure.promise]);
        started = true;
      } catch (error) {
        stopping.abort();
        killAll();
        await Promise.all(lives);
        throw error;
      }
    },
    async reload(next) {
      text = next;
      // Also those that start: they may have begun with the configuration before this one.
      const lines = await Promise.all(
        [...alive].map(async (worker) => {
          const problem = await worker.link
            .call(WORKER, 'reload', [next], RELOAD_DEADLINE)
            .then((said) => (typeof said === 'string' ? said : undefined), messageOf);
          // One that has ended meanwhile keeps nothing.
          return problem !== undefined && alive.has(worker) ? [{ worker: worker.id, problem }] : [];
        }),
      );
      return lines.flat();
    },
    async stop(deadline) {
      stopping.abort();
      const timer = setTimeout(killAll, deadline);
      for (const { link } of alive) link.call(WORKER, 'stop', [], deadline).catch(() => {});
      await Promise.all(lives);
      clearTimeout(timer);
    },
  };
}
