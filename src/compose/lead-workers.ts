import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReadConfig } from '../config/load-config.ts';
import { LEASE_LIMITS, type Config } from '../config/config.ts';
import type { createLog } from '../observability/log.ts';
import { whatWaits } from '../config/describe-config.ts';
import { createHandover } from '../workers/handover.ts';
import { messageOf } from '../workers/link.ts';
import { createPrimary } from '../workers/primary.ts';
import { createWorkerPool, type WorkerProcess } from '../workers/worker-pool.ts';
import { configWarnings } from './config-warnings.ts';
import { newToken, type Parts } from './parts.ts';
import { listenOn } from './server.ts';

/** What is under way at a shutdown has this long, and workers a little more to end by themselves (ms). */
const SHUTDOWN_MARGIN = 2_000;

/**
 * What the primary process does: it keeps what the workers share, and their number, and hands them the connections that
 * it accepts. Resolves when it was stopped and no worker is left.
 * @throws with one line when the workers cannot start
 */
export async function leadWorkers(options: {
  initial: ReadConfig;
  /** Reads the configuration again. Rejects when it is wrong. */
  read: () => Promise<ReadConfig>;
  fork: () => WorkerProcess;
  log: ReturnType<typeof createLog>;
  version: string;
  /** Of this process, to which signals are sent. */
  pid: number;
  parts: Pick<Parts, 'clock' | 'randomBytes'>;
  /** The listener is called whenever the configuration is to be read again. */
  onReload: (listener: () => void) => void;
  /** Resolves to the name of the signal that asks for a shutdown. */
  untilStopped: () => Promise<string>;
  /** Milliseconds after which what is under way is broken off. */
  deadline: number;
}): Promise<void> {
  const { initial, log, version, pid, parts } = options;
  const { workers, listen } = initial.config;
  const primary = createPrimary({
    clock: parts.clock,
    newToken: () => newToken(parts),
    orphanLease: LEASE_LIMITS.longest,
  });
  const handover = createHandover();
  const server = createServer({ pauseOnConnect: true, noDelay: true }, handover.give);
  let url = '';
  const pool = createWorkerPool({
    workers,
    text: initial.text,
    fork: options.fork,
    attach: primary.attach,
    join: handover.join,
    clock: parts.clock,
    sleep: (milliseconds, signal) => delay(milliseconds, undefined, { signal }),
    log,
    url: () => url,
  });
  warnOf(initial.config);
  const starting = start();
  /** One at a time, and none before all listen. */
  let lastReload: Promise<unknown> = starting.catch(() => {});
  let reloadWaits = false;
  let running = initial.config;
  let stopping = false;
  options.onReload(() => {
    // It will read what the file says then.
    if (reloadWaits) return;
    reloadWaits = true;
    lastReload = lastReload.then(reload);
  });
  await starting;
  log.info({ url, version, workers, pid }, 'listening');
  const signal = await options.untilStopped();
  stopping = true;
  log.info({ signal }, 'shutting down');
  server.close();
  handover.close();
  await pool.stop(options.deadline + SHUTDOWN_MARGIN);

  async function start(): Promise<void> {
    await pool.start();
    try {
      url = await listenOn(server, listen);
    } catch (error) {
      await pool.stop(0);
      throw error;
    }
  }

  /** Workers do not: all would say the same. */
  function warnOf(config: Config): void {
    for (const message of configWarnings({ ...config, workers })) log.warn(message);
  }

  async function reload(): Promise<void> {
    reloadWaits = false;
    try {
      const next = await options.read();
      if (stopping) throw new Error('the gateway is shutting down');
      const { config, waiting } = whatWaits(running, next.config);
      if (waiting.length > 0) log.warn(`these keys change by a restart: ${waiting.join(', ')}`);
      const problems = await pool.reload(next.text);
      for (const problem of problems)
        log.error(problem, 'reload failed; keeping the current configuration');
      if (problems.length === 0) {
        running = config;
        log.level = config.log.level;
        log.info('configuration reloaded');
      }
      warnOf(next.config);
    } catch (error) {
      const problem = messageOf(error);
      log.error({ problem }, 'reload failed; keeping the current configuration');
    }
  }
}
