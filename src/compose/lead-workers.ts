import { createServer } from 'node:net';
import { setImmediate as immediate } from 'node:timers/promises';
import { pause } from '../common/clock.ts';
import type { ReadConfig } from '../config/load-config.ts';
import type { ReplicaState } from '../common/events.ts';
import { LEASE_LIMITS } from '../common/leases.ts';
import type { Config } from '../config/config.ts';
import { describeConfig, whatWaits } from '../config/describe-config.ts';
import { listenOn } from '../http/server.ts';
import type { Log } from '../observability/log.ts';
import { createWorkerPool, type WorkerProcess } from '../workers/pool.ts';
import { createPrimary } from '../workers/shared.ts';
import { configWarnings } from './config-warnings.ts';
import { createIds, type Parts } from './parts.ts';

/** Time that workers have at a shutdown, beside what is under way, to end by themselves. */
const SHUTDOWN_MARGIN_MS = 2_000;

/** Leads the workers, in the primary process: keeps what they share, hands them connections. */
export function leadWorkers(
  { config: initial, text }: ReadConfig,
  parts: Pick<Parts, 'clock' | 'randomBytes' | 'emit'>,
  fork: () => WorkerProcess,
  log: Log['log'],
) {
  // Loaded while workers start: what speaks to an engine takes half as long as a start.
  const statesOf = async (config: Config, known?: readonly ReplicaState[]) =>
    (await import('./engine-states.ts')).createEngineStates(config, parts, known);
  let running = initial;
  let waiting: readonly string[] = [];
  let engines: Awaited<ReturnType<typeof statesOf>> | undefined;
  let reloaded = true;
  const loading = statesOf(initial).then((built) => (engines = built));
  const askEngines = async () => (engines ?? (await loading)).states();
  const attach = createPrimary({
    clock: parts.clock,
    newToken: createIds(parts),
    orphanLease: LEASE_LIMITS.longest,
    engineStates: askEngines,
    inForce: () => ({ waiting, reloaded, workers: initial.workers }),
    configuration: () => describeConfig(running),
    states: {
      engines: () => engines?.follow() ?? [],
      reloaded: () => reloaded,
      workers: initial.workers,
    },
  });
  let url = '';
  const pool = createWorkerPool({
    workers: initial.workers,
    text,
    fork,
    attach,
    clock: parts.clock,
    sleep: (milliseconds, signal) => pause(parts.clock, milliseconds, signal),
    log,
    url: () => url,
  });
  const server = createServer({ pauseOnConnect: true, noDelay: true }, pool.give);
  /** Workers do not warn: all would say the same. */
  const warn = (messages: readonly string[]) => messages.forEach((message) => log.warn(message));
  warn(configWarnings(initial, parts.clock.wall()));

  return {
    /** Resolves to the base URL when all workers are ready. @throws with one line if they cannot */
    async listen(): Promise<string> {
      await Promise.all([pool.start(), loading]);
      return (url = await listenOn(server, initial.listen));
    },
    /** Asks each replica of the engines, for all workers. Never rejects. */
    askEngines,
    /** @returns one line for each worker that keeps its current configuration */
    async reload(next: Config, nextText: string | undefined): Promise<readonly object[]> {
      const { config, waiting: keys } = whatWaits(running, next);
      warn(configWarnings(config, parts.clock.wall(), keys));
      const renewed = await statesOf(config, engines?.known());
      const problems = await pool.reload(nextText);
      // What one of them took is in force: a worker that is started anew takes it as well.
      if (problems.length === initial.workers) {
        renewed.close();
        return problems;
      }
      engines?.close();
      [running, engines, waiting] = [config, renewed, keys];
      return problems;
    },
    /** Notes how a reload ended, for the metrics; also of one whose file could not be read. */
    reloaded: (well: boolean) => void (reloaded = well),
    /** Resolves when no worker is left. Breaks off at the deadline what is under way. */
    async close(deadlineMs: number): Promise<void> {
      // What has connected by now is accepted in this turn; the system would reset it.
      await immediate();
      server.close();
      await pool.stop(deadlineMs + SHUTDOWN_MARGIN_MS);
      const lost = attach.close();
      if (lost !== undefined) warn([lost]);
      engines?.close();
    },
  };
}

/** Gives a worker its part of the limits. Those of a user stay: one worker may get all requests. */
export function workerShare(config: Config, workers: number): Config {
  const part = (whole: number) => Math.ceil(whole / workers);
  const memory = Math.floor(config.cache.memory / workers);
  const { body, in_flight, concurrency, queue, connections } = config.limits;
  return {
    ...config,
    workers: 1,
    // A checked file keeps these bounds; only a reload with fewer workers than run can reach them.
    cache: { ...config.cache, memory, max_entry: Math.min(config.cache.max_entry, memory) },
    limits: {
      ...config.limits,
      concurrency: part(concurrency),
      queue: part(queue),
      connections: part(connections),
      in_flight: Math.max(body, part(in_flight)),
    },
  };
}
