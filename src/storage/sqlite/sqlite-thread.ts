import { Worker, type WorkerOptions } from 'node:worker_threads';
import { StorageUnavailable } from '../../errors.ts';
import { OperatorError } from '../storage.ts';
import type { Call, Failure, Operations, Reply, WorkerSetup } from './sqlite-worker.ts';

/** How long a call may take, with all that were made before it (ms). Only a disk that hangs takes so long. */
const LONGEST_CALL = 60_000;

/** TypeScript in the source tree, JavaScript where it was built. */
const WORKER = new URL(
  `./sqlite-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
);

export type StartWorker = (file: URL, options: WorkerOptions) => Worker;
export const startWorker: StartWorker = (file, options) => new Worker(file, options);

/** A connection to the database in a thread of its own, which is started with the first call. */
export interface SqliteThread {
  /** Whether a call would have to wait for others. */
  readonly busy: boolean;
  /**
   * Calls are done one after another, in their order. When the thread breaks down, the outcome of all that are
   * under way is unknown, and the next call starts a new one.
   * @param transferred buffers that are the thread's from now on
   * @throws StorageUnavailable, OperatorError
   */
  call<Name extends keyof Operations>(
    name: Name,
    args: Parameters<Operations[Name]>,
    transferred?: readonly ArrayBuffer[],
  ): Promise<Awaited<ReturnType<Operations[Name]>>>;
  /** Does what was called before; a transaction that is still under way is undone. */
  close(): Promise<void>;
}

export interface SqliteThreadOptions {
  readonly setup: WorkerSetup;
  readonly start: StartWorker;
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** A random token. */
  readonly newToken: () => string;
  /** Told when it breaks down while no call waits for it. */
  readonly onError: (error: unknown) => void;
}

export function createSqliteThread(options: SqliteThreadOptions): SqliteThread {
  let running: RunningWorker | undefined;
  let closed: Promise<void> | undefined;

  return {
    get busy() {
      return running?.busy ?? false;
    },
    call(name, args, transferred = []) {
      if (closed !== undefined) return Promise.reject(closedFailure());
      if (running?.ended !== false) running = run(options);
      // The thread answers each name with what its operation returns.
      return running.call(name, args, transferred) as Promise<never>;
    },
    close: () => (closed ??= running?.close() ?? Promise.resolve()),
  };
}

/** What a call gets that comes after the end. */
export function closedFailure(): StorageUnavailable {
  return new StorageUnavailable('nothing-done', new Error('the storage is closed'));
}

interface RunningWorker {
  readonly busy: boolean;
  readonly ended: boolean;
  call(
    name: keyof Operations,
    args: readonly unknown[],
    transferred: readonly ArrayBuffer[],
  ): Promise<unknown>;
  close(): Promise<void>;
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

/** One worker from its start to its end. While no call waits for it, it does not keep the process. */
function run({ setup, start, wallClock, newToken, onError }: SqliteThreadOptions): RunningWorker {
  const worker = start(WORKER, { name: 'sqlite', workerData: setup });
  const waiting = new Map<number, Waiting>();
  let calls = 0;
  let ended = false;
  let closing = false;
  let reason: unknown;

  const post = (call: Call, transferred: readonly ArrayBuffer[] = []) =>
    worker.postMessage(call, transferred);
  const end = new Promise<void>((resolve) => {
    worker.once('exit', (code) => {
      ended = true;
      const error = reason ?? new Error(`the thread of the storage ended with code ${code}`);
      if (waiting.size === 0 && !closing) onError(error);
      for (const number of waiting.keys()) {
        take(number)?.reject(new StorageUnavailable('unknown', error));
      }
      resolve();
    });
  });
  worker.on('error', (error) => {
    reason = error;
  });
  worker.on('messageerror', (error) => {
    reason = error;
    void worker.terminate();
  });
  worker.on('message', (reply: Reply) => {
    const waiter = take(reply.number);
    if ('failure' in reply) waiter?.reject(errorOf(reply.failure));
    else waiter?.resolve(reply.value);
  });

  /** The caller must answer what it takes. */
  function take(number: number): Waiting | undefined {
    const waiter = waiting.get(number);
    if (waiter === undefined) return undefined;
    clearTimeout(waiter.timer);
    waiting.delete(number);
    if (waiting.size === 0 && !closing) worker.unref();
    return waiter;
  }

  return {
    get busy() {
      return waiting.size > 0;
    },
    get ended() {
      return ended;
    },
    call: (name, args, transferred) =>
      new Promise((resolve, reject) => {
        const number = (calls += 1);
        post({ number, name, args, now: wallClock(), token: newToken() }, transferred);
        const timer = setTimeout(() => {
          take(number)?.reject(new StorageUnavailable('unknown', new Error('the disk hangs')));
        }, LONGEST_CALL);
        waiting.set(number, { resolve, reject, timer });
        worker.ref();
      }),
    close() {
      if (!ended) {
        closing = true;
        worker.ref();
        post({ close: true });
      }
      return end;
    },
  };
}

function errorOf(failure: Failure): unknown {
  switch (failure.kind) {
    case 'unavailable':
      return new StorageUnavailable(failure.outcome, failure.cause);
    case 'operator':
      return new OperatorError(failure.message);
    case 'bug':
      return failure.error;
  }
}
