import { setTimeout as delay } from 'node:timers/promises';
import type { ReadConfig } from '../config/config-file.ts';
import { LEASE_LIMITS, type Config } from '../config/config.ts';
import type { createLog } from '../observability/log.ts';
import { createCrew, type CrewEvent, type WorkerProcess } from '../workers/crew.ts';
import { createPrimary } from '../workers/primary.ts';
import { configWarnings } from './config-warnings.ts';
import { newToken, type Parts } from './parts.ts';

/** What is under way at a shutdown has this long, and workers a little more to end by themselves (ms). */
const SHUTDOWN_MARGIN = 2_000;

/**
 * What the primary process does: it keeps what the workers share, and their number. It serves no HTTP. Resolves when
 * it was stopped and no worker is left.
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
  const { initial, log, version, parts } = options;
  const { workers } = initial.config;
  const primary = createPrimary({
    clock: parts.clock,
    newToken: () => newToken(parts),
    orphanLease: LEASE_LIMITS.longest,
  });
  const crew = createCrew({
    workers,
    text: initial.text,
    fork: options.fork,
    attach: primary.attach,
    clock: parts.clock,
    sleep: (milliseconds, signal) => delay(milliseconds, undefined, { signal }),
    emit: tell,
  });
  warnOf(initial.config);
  const starting = crew.start();
  /** One at a time, and none before all listen. */
  let lastReload: Promise<unknown> = starting.catch(() => {});
  let reloadWaits = false;
  let stopping = false;
  options.onReload(() => {
    // It will read what stands there then.
    if (reloadWaits) return;
    reloadWaits = true;
    lastReload = lastReload.then(reload);
  });
  const url = await starting;
  log.info({ url, version, workers, pid: options.pid }, 'listening');
  const signal = await options.untilStopped();
  stopping = true;
  log.info({ signal }, 'shutting down');
  await crew.stop(options.deadline + SHUTDOWN_MARGIN);

  function tell({ type, ...event }: CrewEvent): void {
    log[type === 'worker-ended' ? 'error' : 'info'](event, type);
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
      if (next.config.workers !== workers) {
        log.warn('a change of workers counts after a restart only');
      }
      const problems = await crew.reload(next.text);
      for (const problem of problems) log.error(problem, 'the configuration of before stays');
      if (problems.length === 0) log.info('configuration read again');
      warnOf(next.config);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      log.error({ problem }, 'the configuration of before stays');
    }
  }
}
