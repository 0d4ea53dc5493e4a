import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { PortTaken } from './taken-port.ts';

const READY_MS = 20_000;
const STOP_MS = 10_000;

/** One process of redis-server. */
export interface Running {
  readonly pid: number;
  log(): string;
  signal(name: NodeJS.Signals): void;
  stop(name?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
}

/**
 * @param ready what it prints when it has its port
 * @param answers whether it answers now
 */
export async function launchRedis(
  port: number,
  args: readonly string[],
  ready: string,
  answers: () => Promise<boolean>,
): Promise<Running> {
  const child = spawnWithParent('redis-server', args);
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let output = '';
  const printed = new Promise<void>((resolve) => {
    const collect = (text: string): void => {
      output = `${output}${text}`.slice(-65_536);
      if (output.includes(ready)) resolve();
    };
    child.stdout?.setEncoding('utf8').on('data', collect);
    child.stderr?.setEncoding('utf8').on('data', collect);
  });
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new Error('redis-server cannot be started. Is the package redis-server installed?', {
      cause: error,
    });
  }

  const running: Running = {
    pid: child.pid ?? -1,
    log: () => output,
    signal: (name) => void child.kill(name),
    async stop(name = 'SIGTERM') {
      child.kill(name);
      // A stopped process sees no signal but SIGKILL until it goes on.
      child.kill('SIGCONT');
      if (await within(STOP_MS, exited)) return;
      child.kill('SIGKILL');
      await exited;
      throw new Error(`redis-server did not obey ${name} within ${STOP_MS} ms.\n${output}`);
    },
  };

  // Only its own log proves that it is this process that has the port: another one's PONG is no proof.
  const ended = await within(
    READY_MS,
    Promise.race([printed.then(() => false), exited.then(() => true)]),
  );
  if (ended?.value === false && (await until(answers, READY_MS))) return running;
  await running.stop('SIGKILL');
  const text = `redis-server did not come up on port ${port}.\n${output}`;
  throw /address already in use|failed listening on port/iu.test(output)
    ? new PortTaken(text)
    : new Error(text);
}

/** The process ends with this one, even if this one is killed. */
export function spawnWithParent(command: string, args: readonly string[]): ChildProcess {
  const bound = process.platform === 'linux' && existsSync('/usr/bin/setpriv');
  return bound
    ? spawn('/usr/bin/setpriv', ['--pdeathsig', 'KILL', command, ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
      })
    : spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The kernel's letter for the state of a process, for example T: stopped. See proc_pid_stat(5). */
export function processState(pid: number): string | undefined {
  return /\) (\w)/u.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
}

async function within<T>(
  milliseconds: number,
  promise: Promise<T>,
): Promise<{ readonly value: T } | undefined> {
  const timer = new AbortController();
  const late = delay(milliseconds, undefined, { signal: timer.signal }).catch(() => undefined);
  try {
    return await Promise.race([promise.then((value) => ({ value })), late]);
  } finally {
    timer.abort();
  }
}

/** Asks until it is so; false when it is not so within the time. */
export async function until(
  condition: () => Promise<boolean>,
  milliseconds: number,
): Promise<boolean> {
  const deadline = performance.now() + milliseconds;
  while (performance.now() < deadline) {
    if (await condition().catch(() => false)) return true;
    await delay(20);
  }
  return false;
}
