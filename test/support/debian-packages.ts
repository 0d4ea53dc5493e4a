import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** A Debian package, and what shows that it is there: a command's name or an absolute path. */
export interface WantedPackage {
  readonly name: string;
  readonly probe: string;
}

export interface CommandResult {
  readonly code: number;
  /** Standard output and error, as they came. */
  readonly output: string;
}

/** What the installer needs from the machine; tests hand in a fake. */
export interface PackageHost {
  has(probe: string): boolean;
  /** Root on a system with apt. */
  mayInstall(): boolean;
  run(command: string, args: readonly string[]): Promise<CommandResult>;
  /** Runs the work while no other process on the machine holds the same lock. */
  exclusively<T>(work: () => Promise<T>): Promise<T>;
  /** Runs the work while packages cannot start services. */
  withoutServices<T>(work: () => Promise<T>): Promise<T>;
  wait(milliseconds: number): Promise<void>;
}

const ATTEMPTS = 30;
const PAUSE_MS = 10_000;

/** What apt and dpkg say while another process holds one of their locks. */
const LOCKED = /could not get lock|unable to (?:acquire|lock)|is another process using it/iu;

/** DPkg::Lock::Timeout covers the lock of dpkg alone; that of the package lists fails at once. */
const APT_OPTIONS = ['-o', 'DPkg::Lock::Timeout=120', '-o', 'Acquire::Retries=3'];

/**
 * Installs those of the wanted packages whose probe is not there, and returns their names.
 * Throws an Error that names the command to run when this process may not install, and one with the end of
 * apt's output when the installation fails. Never goes on without a package.
 */
export async function ensureDebianPackages(
  wanted: readonly WantedPackage[],
  host: PackageHost = thisMachine(),
): Promise<string[]> {
  if (missing(wanted, host).length === 0) return [];
  if (!host.mayInstall()) throw new Error(instruction(missing(wanted, host)));
  return await host.exclusively(async () => {
    // Whoever held the lock before may have installed the same.
    const still = missing(wanted, host);
    if (still.length === 0) return [];
    await install(still, host);
    return still.map((item) => item.name);
  });
}

async function install(packages: readonly WantedPackage[], host: PackageHost): Promise<void> {
  const names = packages.map((item) => item.name);
  // A foreign source that cannot be reached fails the update, though what is wanted can be installed.
  const update = await apt(host, ['update']);
  const result = await host.withoutServices(() =>
    apt(host, ['install', '-y', '--no-install-recommends', ...names]),
  );
  if (result.code !== 0) {
    throw new Error(
      `apt-get could not install ${names.join(' ')} (exit code ${result.code}).\n` +
        `${tail(update.output)}\n${tail(result.output)}`,
    );
  }
  const absent = missing(packages, host);
  if (absent.length > 0) {
    const list = absent.map((item) => `${item.probe} of package ${item.name}`).join(', ');
    throw new Error(`apt-get succeeded, but there is still no ${list}.`);
  }
}

async function apt(host: PackageHost, args: readonly string[]): Promise<CommandResult> {
  for (let attempt = 1; ; attempt += 1) {
    const result = await host.run('apt-get', [...APT_OPTIONS, ...args]);
    if (result.code === 0 || attempt === ATTEMPTS || !LOCKED.test(result.output)) return result;
    await host.wait(PAUSE_MS);
  }
}

function missing(wanted: readonly WantedPackage[], host: PackageHost): WantedPackage[] {
  return wanted.filter((item) => !host.has(item.probe));
}

function instruction(packages: readonly WantedPackage[]): string {
  const probes = packages.map((item) => item.probe).join(', ');
  const names = packages.map((item) => item.name).join(' ');
  return (
    `Missing on this machine: ${probes}. On Debian run as root:\n` +
    `  apt-get update && apt-get install -y --no-install-recommends ${names}`
  );
}

function tail(text: string): string {
  return text.trim().split('\n').slice(-15).join('\n');
}

function thisMachine(): PackageHost {
  return {
    has: (probe) => searchPath(probe, process.env['PATH'] ?? ''),
    mayInstall: () => process.getuid?.() === 0 && existsSync('/usr/bin/apt-get'),
    run: runApt,
    exclusively: (work) => withFileLock(join(tmpdir(), 'mdx-gateway-packages.lock'), work),
    withoutServices: (work) => withPolicy('/usr/sbin/policy-rc.d', work),
    wait: (milliseconds) => delay(milliseconds),
  };
}

function searchPath(probe: string, path: string): boolean {
  if (isAbsolute(probe)) return existsSync(probe);
  // Debian keeps the administrator's commands out of an ordinary user's PATH.
  const folders = [...path.split(delimiter), '/usr/sbin', '/sbin'].filter(isAbsolute);
  return folders.some((folder) => existsSync(join(folder, probe)));
}

function runApt(command: string, args: readonly string[]): Promise<CommandResult> {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      LC_ALL: 'C',
      DEBIAN_FRONTEND: 'noninteractive',
      // needrestart would otherwise restart services of this machine that use an updated library.
      NEEDRESTART_SUSPEND: '1',
      RUNLEVEL: '1',
    },
  });
  let output = '';
  const collect = (text: string): void => void (output += text);
  child.stdout.setEncoding('utf8').on('data', collect);
  child.stderr.setEncoding('utf8').on('data', collect);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

/** Holds flock(1) on the file for the time of the work. The kernel frees it if this process dies. */
export async function withFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const holder = spawn('flock', [file, 'sh', '-c', 'echo held && exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => holder.once('close', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    holder.once('error', reject);
    holder.once('exit', (code) => reject(new Error(`flock ${file} ended with code ${code}`)));
    holder.stdout.once('data', () => resolve());
  });
  try {
    return await work();
  } finally {
    holder.stdin.end();
    await ended;
  }
}

const POLICY = '#!/bin/sh\n# Made by the tests of mdx-gateway for one installation.\nexit 101\n';

/**
 * Puts a policy-rc.d in place that forbids package scripts to start services (exit code 101, Debian's
 * invoke-rc.d interface), and takes it away afterwards. One that is already there is the operator's and stays.
 */
export async function withPolicy<T>(file: string, work: () => Promise<T>): Promise<T> {
  // Our own text without our process is left over from a run that was killed.
  const foreign = existsSync(file) && readFileSync(file, 'utf8') !== POLICY;
  if (foreign) return await work();
  writeFileSync(file, POLICY, { mode: 0o755 });
  try {
    return await work();
  } finally {
    rmSync(file, { force: true });
  }
}
