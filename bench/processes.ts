import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** The cores that this process may use; a container need not have the first ones. */
const cores = allowedCores();

/** Servers that are measured run on the first core; clients, engine and Redis on the second. */
export const SERVER_CORE = cores[0] ?? 0;
export const CLIENT_CORE = cores[1] ?? 0;

const READY_MS = 30_000;
/** In which /proc counts CPU time: fixed at 100 a second for user space (proc(5), sysconf(_SC_CLK_TCK)). */
const TICK_MICROSECONDS = 10_000;

export interface Running {
  readonly pid: number;
  readonly child: ChildProcess;
  /** CPU time of the process and all below it, since they began (µs). */
  cpu(): number;
  stop(): Promise<void>;
}

/** Whether each side can have a core of its own. On a machine with one core nothing is pinned. */
const canPin = cores.length > 1 && existsSync('/usr/bin/taskset');

/** Command and arguments that run on one core, and end when this process ends. */
function pinned(core: number, command: string, args: readonly string[]): [string, string[]] {
  const words = [
    ...(existsSync('/usr/bin/setpriv') ? ['/usr/bin/setpriv', '--pdeathsig', 'KILL'] : []),
    ...(canPin ? ['/usr/bin/taskset', '-c', String(core)] : []),
    command,
    ...args,
  ];
  const [first = command, ...rest] = words;
  return [first, rest];
}

/**
 * Starts a process on a core.
 * @param options.stdio what becomes of its output; standard error goes to that of this process unless it is said
 */
export function start(
  core: number,
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string>; stdio?: StdioOptions } = {},
): Running {
  const { cwd, env = {}, stdio = ['ignore', 'ignore', 'inherit'] } = options;
  const [first, rest] = pinned(core, command, args);
  const child = spawn(first, rest, { cwd, stdio, env: { PATH: process.env['PATH'], ...env } });
  const ended = new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('exit', () => resolve());
  });
  const pid = child.pid ?? -1;
  return {
    pid,
    child,
    cpu: () => cpuOf(pid),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      const forced = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await ended;
      clearTimeout(forced);
    },
  };
}

/** Resolves when somebody listens on the port. @throws Error when the process ends before, or takes too long */
export async function listensOn(port: number, { child }: Pick<Running, 'child'>): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (!(await isOpen(port))) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(
        `${child.spawnargs.join(' ')} ended with ${child.exitCode ?? child.signalCode}`,
      );
    }
    if (performance.now() > deadline) {
      throw new Error(`${child.spawnargs.join(' ')} does not listen on ${port}`);
    }
    await delay(10);
  }
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Runs a command to its end. @throws Error with what it printed when it fails */
export async function run(
  core: number,
  command: string,
  args: readonly string[],
  cwd?: string,
): Promise<string> {
  const [first, rest] = pinned(core, command, args);
  const child = spawn(first, rest, { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed:\n${output.slice(-2_000)}`);
  return output;
}

/** Pins a process that others started, with all its threads. */
export async function pinProcess(pid: number, core: number): Promise<void> {
  if (canPin) await run(core, '/usr/bin/taskset', ['-apc', String(core), String(pid)]);
}

/** Cpus_allowed_list of proc_pid_status(5), such as `0-3,6`. */
function allowedCores(): readonly number[] {
  const [, list = ''] =
    /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return list.split(',').flatMap((range) => {
    const [from = NaN, to = from] = range.split('-').map(Number);
    return Array.from({ length: to - from + 1 }, (_, at) => from + at);
  });
}

/** CPU time of a process and all below it, since they began (µs). */
export function cpuOf(root: number): number {
  const tree = new Set([root]);
  const all = statsOfAll();
  // Children come after their parents unless process ids began anew; one more pass finds those too.
  for (let pass = 0; pass < 2; pass++) {
    for (const { pid, parent } of all) if (tree.has(parent)) tree.add(pid);
  }
  const ticks = all.reduce((sum, one) => (tree.has(one.pid) ? sum + one.ticks : sum), 0);
  return ticks * TICK_MICROSECONDS;
}

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly ticks: number;
}

/** Fields of proc_pid_stat(5); the name of the program, in parentheses, may hold anything. */
function statsOfAll(): Stat[] {
  const stats: Stat[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const line = readFileSync(`/proc/${name}/stat`, 'utf8');
      const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
      const ticks = Number(fields[11]) + Number(fields[12]);
      stats.push({ pid: Number(name), parent: Number(fields[1]), ticks });
    } catch {
      // It ended since the folder was read.
    }
  }
  return stats;
}
