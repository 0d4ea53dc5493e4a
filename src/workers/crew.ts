import type { Clock } from '../clock.ts';
import type { Link } from './link.ts';
import { readText } from './reading.ts';

/** One worker process, as the primary sees it. */
export interface WorkerProcess {
  readonly id: number;
  readonly pid: number | undefined;
  readonly link: Link;
  /** Ends it at once. */
  kill(): void;
  /** Its exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
}

/** What an operator is told of workers. */
export type CrewEvent =
  | {
      readonly type: 'worker-listens';
      readonly worker: number;
      readonly pid: number | undefined;
      readonly url: string;
    }
  | {
      readonly type: 'worker-ended';
      /** Undefined when the system could not make it. */
      readonly worker: number | undefined;
      readonly pid: number | undefined;
      readonly exit: number | string;
      /** What it said itself, in one line. */
      readonly problem: string | undefined;
      /** Milliseconds until another one takes its place. */
      readonly pause: number;
    };

/** The worker processes, and what keeps their number. */
export interface Crew {
  /**
   * Starts them. Resolves to the base URL when all listen.
   * @throws with the line of the first one that cannot; then none is left
   */
  start(): Promise<string>;
  /**
   * Has each of them go over to a configuration.
   * @returns one line for each that stays with that of before
   */
  reload(text: string | undefined): Promise<readonly { worker: number; problem: string }[]>;
  /** Has them finish what is under way. @param deadline milliseconds after which those that are left are killed */
  stop(deadline: number): Promise<void>;
}

interface Launched {
  readonly id: number | undefined;
  readonly pid: number | undefined;
  readonly ended: Promise<{
    readonly exit: number | string;
    readonly problem: string | undefined;
  }>;
}

/** A worker that lived for less has died at once: the next one waits, longer each time (ms). */
const STEADY = 30_000;
const FIRST_PAUSE = 1_000;
const LONGEST_PAUSE = 30_000;
/** What going over to a configuration may take: a Redis that does not answer is waited for a while (ms). */
const RELOAD_DEADLINE = 60_000;

/**
 * @param options.attach serves what workers share; what it returns is called when the worker is gone
 * @param options.text of the configuration file; undefined: there is none
 * @param options.sleep rejects when the signal aborts
 */
export function createCrew(options: {
  workers: number;
  text: string | undefined;
  fork: () => WorkerProcess;
  attach: (link: Link) => () => void;
  clock: Pick<Clock, 'now'>;
  sleep: (milliseconds: number, signal: AbortSignal) => Promise<unknown>;
  emit: (event: CrewEvent) => void;
}): Crew {
  const { workers, clock, emit } = options;
  let { text } = options;
  const alive = new Map<WorkerProcess, Promise<unknown>>();
  const stopping = new AbortController();
  let started = false;

  /** @param onListening told the URL as soon as it listens */
  function launch(onListening: (url: string) => void): Launched {
    let worker: WorkerProcess;
    try {
      worker = options.fork();
    } catch (error) {
      const ended = Promise.resolve({ exit: 'not forked', problem: messageOf(error) });
      return { id: undefined, pid: undefined, ended };
    }
    const { link, id, pid } = worker;
    let problem: string | undefined;
    const detach = options.attach(link);
    link.serve('crew', {
      // All run with the same one, whatever stands in the file when one of them starts again.
      configuration: () => ({ text, workers }),
      listening(said) {
        const url = readText(said);
        onListening(url);
        if (started) emit({ type: 'worker-listens', worker: id, pid, url });
      },
      failed: (said) => void (problem = readText(said)),
    });
    const ended = worker.ended.then((exit) => {
      alive.delete(worker);
      detach();
      link.close();
      return { exit, problem };
    });
    alive.set(worker, ended);
    return { id, pid, ended };
  }

  /** Keeps one place filled. */
  async function fill(
    onListening: (url: string) => void,
    onFailure: (error: Error) => void,
  ): Promise<void> {
    let diedAtOnce = 0;
    while (!stopping.signal.aborted) {
      const born = clock.now();
      const { id, pid, ended } = launch(onListening);
      const { exit, problem } = await ended;
      if (stopping.signal.aborted) return;
      if (!started) {
        return onFailure(new Error(problem ?? `a worker ended with ${exit} before it listened`));
      }
      diedAtOnce = clock.now() - born < STEADY ? diedAtOnce + 1 : 0;
      const pause =
        diedAtOnce === 0 ? 0 : Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (diedAtOnce - 1));
      emit({ type: 'worker-ended', worker: id, pid, exit, problem, pause });
      await options.sleep(pause, stopping.signal).catch(() => {});
    }
  }

  async function killAll(): Promise<void> {
    stopping.abort();
    for (const worker of alive.keys()) worker.kill();
    await Promise.all(alive.values());
  }

  return {
    async start() {
      try {
        const urls = Array.from(
          { length: workers },
          () => new Promise<string>((resolve, reject) => void fill(resolve, reject)),
        );
        const [url = ''] = await Promise.all(urls);
        started = true;
        return url;
      } catch (error) {
        await killAll();
        throw error;
      }
    },
    async reload(next) {
      text = next;
      // Also those that start: they may have begun with the one of before.
      const lines = await Promise.all(
        [...alive.keys()].map(async (worker) => {
          const problem = await worker.link
            .call('worker', 'reload', [next], RELOAD_DEADLINE)
            .then((said) => (typeof said === 'string' ? said : undefined), messageOf);
          // One that has ended meanwhile stays with nothing.
          const stays = problem !== undefined && alive.has(worker);
          return stays ? [{ worker: worker.id, problem }] : [];
        }),
      );
      return lines.flat();
    },
    async stop(deadline) {
      stopping.abort();
      const timer = setTimeout(() => {
        for (const worker of alive.keys()) worker.kill();
      }, deadline);
      for (const { link } of alive.keys()) {
        link.call('worker', 'stop', [], deadline).catch(() => {});
      }
      await Promise.all(alive.values());
      clearTimeout(timer);
    },
  };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
