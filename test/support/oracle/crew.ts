import { fork, type ChildProcess } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processStopped } from './process-states.ts';

const CREW_MAIN = fileURLToPath(new URL('crew-main.ts', import.meta.url));
const MAIN = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));

/** What becomes of messages: held until the weather is fair again, late, lost, or only those that nobody waits for. */
export type Weather = 'fair' | 'held' | 'slow' | 'lost' | 'untold';
/** The direction in which they go. */
export type Direction = 'toPrimary' | 'toWorker';

/** What the primary process of a run is told to do. Workers have numbers, another one with each start. */
export type CrewOrder =
  | {
      readonly order: 'start';
      readonly worker: number;
      readonly config: string;
      /** Whether the worker is to hear of no purge, and to tell nobody of its own. */
      readonly deaf: boolean;
    }
  | {
      readonly order: 'weather';
      readonly worker: number;
      readonly way: Direction;
      readonly weather: Weather;
    };

/** What it tells. */
export type CrewTold =
  | { readonly told: 'ready' }
  | {
      readonly told: 'listening';
      readonly worker: number;
      readonly pid: number;
      readonly port: number;
    }
  | { readonly told: 'ended'; readonly worker: number; readonly exit: number | string | null };

/** A worker that was started. */
export interface CrewWorker {
  readonly pid: number;
  readonly port: number;
  /** Resolves when it has ended, as far as its primary process could tell; to what it ended by. */
  readonly ended: Promise<number | string | null>;
  weather(way: Direction, weather: Weather): void;
}

/** A primary process, and after it another one, with workers of the source of this tree or of another. */
export interface OracleCrew {
  /** Starts one more worker. Waits for a primary process, and tries again when that is killed meanwhile. */
  start(config: string, deaf: boolean): Promise<CrewWorker>;
  /** SIGKILL to the primary process; its workers go on. */
  kill(): Promise<void>;
  /** Another primary process. */
  renew(): void;
  pause(): Promise<void>;
  resume(): void;
  /** What the processes have told on their standard error. */
  readonly stderr: string;
  close(): Promise<void>;
}

/**
 * @param options.longestLease of workers, also of a primary process of before (ms)
 */
export function startCrew({ longestLease }: { longestLease: number }): OracleCrew {
  let stderr = '';
  let workers = 0;
  let closed = false;
  let running = launch();

  function launch(): RunningPrimary {
    const child = fork(CREW_MAIN, [dirname(MAIN), String(longestLease)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      execArgv: [],
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const exited = new Promise<void>((resolve) => child.on('exit', () => resolve()));
    const starting = new Map<number, (found: CrewWorker | undefined) => void>();
    const ends = new Map<number, (exit: number | string | null) => void>();
    const { promise: ready, resolve: isReady } = Promise.withResolvers<void>();
    child.on('message', (said) => {
      const told = said as CrewTold;
      switch (told.told) {
        case 'ready':
          return isReady();
        case 'listening': {
          const { worker, pid, port } = told;
          const ended = new Promise<number | string | null>((resolve) => ends.set(worker, resolve));
          starting.get(worker)?.({
            pid,
            port,
            ended,
            weather: (way, weather) => order(child, { order: 'weather', worker, way, weather }),
          });
          return void starting.delete(worker);
        }
        case 'ended':
          ends.get(told.worker)?.(told.exit);
          starting.get(told.worker)?.(undefined);
          starting.delete(told.worker);
      }
    });
    void exited.then(() => {
      isReady();
      for (const tell of starting.values()) tell(undefined);
    });
    return {
      child,
      exited,
      async start(config, deaf) {
        await ready;
        const worker = (workers += 1);
        const started = new Promise<CrewWorker | undefined>((resolve) => {
          starting.set(worker, resolve);
        });
        if (!order(child, { order: 'start', worker, config, deaf })) return undefined;
        return started;
      },
    };
  }

  async function kill(): Promise<void> {
    running.child.kill('SIGKILL');
    await running.exited;
  }

  return {
    async start(config, deaf) {
      for (;;) {
        const asked = running;
        const started = await asked.start(config, deaf);
        if (started !== undefined) return started;
        if (closed) throw new Error('the crew is closed');
        // Of one that was killed, the end of its channel may be known before its own end.
        const { connected, exitCode, signalCode } = asked.child;
        if (connected && exitCode === null && signalCode === null) {
          throw new Error(`a worker did not start: ${stderr}`);
        }
        // Killed; the next one comes soon.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    kill,
    renew: () => void (running = launch()),
    async pause() {
      const { pid } = running.child;
      running.child.kill('SIGSTOP');
      if (pid !== undefined) await processStopped(pid);
    },
    resume: () => void running.child.kill('SIGCONT'),
    get stderr() {
      return stderr;
    },
    close() {
      closed = true;
      return kill();
    },
  };
}

interface RunningPrimary {
  readonly child: ChildProcess;
  readonly exited: Promise<void>;
  /** Undefined when the process was killed before, or the worker ended before it listened. */
  start(config: string, deaf: boolean): Promise<CrewWorker | undefined>;
}

/** @returns false when nobody is there */
function order(child: ChildProcess, told: CrewOrder): boolean {
  if (!child.connected) return false;
  child.send(told, () => {});
  return true;
}
