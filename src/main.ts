#!/usr/bin/env node
import { fork, type StdioOptions } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFileSync, writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { getHeapStatistics } from 'node:v8';
import { EXIT_USAGE, HELP, parseArguments, UsageError } from './cli/arguments.ts';
import type { StoreCommandParts } from './cli/copy-store.ts';
import { systemClock } from './common/clock.ts';
import { configWarnings } from './compose/config-warnings.ts';
import { leadWorkers } from './compose/lead-workers.ts';
import { workerShare } from './compose/worker-share.ts';
import { createConfigFile, type ConfigFile, type ReadConfig } from './config/load-config.ts';
import type { Config } from './config/config.ts';
import { describeConfig } from './config/describe-config.ts';
import { ConfigError } from './config/problems.ts';
import type { createGateway, Gateway } from './gateway.ts';
import { createLog, logEvents } from './observability/log.ts';
import { createLogOutput, openUnblocked, unblock } from './observability/log-output.ts';
import { createLink, messageOf } from './workers/link.ts';
import type { WorkerProcess } from './workers/worker-pool.ts';
import { createPoolMember } from './workers/worker.ts';

/** What is under way at SIGTERM has this long (ms). */
const SHUTDOWN_DEADLINE = 30_000;
const [STDOUT, STDERR] = [1, 2];
/**
 * What a worker has as standard input, output and error is its own: Node.js makes these blocking when it starts a
 * process with them and when one ends, for all that share them. The log goes to another descriptor, by its place here.
 */
const WORKER_STDIO: StdioOptions = ['ignore', 'ignore', 'pipe', 'ipc', STDOUT];
const WORKER_LOG = 4;
/** Holds the number of a worker in its environment. */
const WORKER_NUMBER = 'MDX_GATEWAY_WORKER';

const parts = {
  clock: systemClock,
  random: Math.random,
  randomBytes: (count: number) => randomBytes(count),
  sleep: (milliseconds: number) => sleep(milliseconds),
};

/** The only file that touches `process`: command line, signals, exit codes. */
async function main(words: readonly string[]): Promise<number> {
  try {
    return await run(words);
  } catch (error) {
    const program = error instanceof ConfigError ? '' : 'mdx-gateway: ';
    process.stderr.write(`${program}${messageOf(error)}\n`);
    return error instanceof UsageError ? EXIT_USAGE : 1;
  }
}

async function run(words: readonly string[]): Promise<number> {
  const command = parseArguments(words);
  switch (command.kind) {
    case 'serve':
      // What Node.js itself has to say to a reader of standard error that stalls would keep the process.
      return process.exit(await serve(command.config));
    case 'demo': {
      const { runDemo } = await import('./demo/demo.ts');
      const stopped = untilStopped();
      return runDemo({ ...command, parts, stopped, print: (text) => process.stdout.write(text) });
    }
    case 'check': {
      const config = load(command.config);
      process.stdout.write(describeConfig(config));
      for (const message of configWarnings(config)) {
        process.stderr.write(`mdx-gateway: warning: ${message}\n`);
      }
      return 0;
    }
    case 'hash-password': {
      const { stdin: input, stdout: output, stderr: prompts } = process;
      const [{ hashPassword }, { hash }] = await Promise.all([
        import('./cli/hash-password.ts'),
        import('bcrypt'),
      ]);
      return hashPassword(command.name, { input, output, prompts, hash });
    }
    case 'export-store':
    case 'import-store': {
      const { exportStore, importStore } = await import('./cli/copy-store.ts');
      const given = await storeParts(command.config);
      return command.kind === 'export-store'
        ? exportStore(command.output, given)
        : importStore(command.input, given);
    }
    case 'help':
      process.stdout.write(HELP);
      return 0;
    case 'version':
      process.stdout.write(`${version()}\n`);
      return 0;
  }
}

async function serve(file: string | undefined): Promise<number> {
  const worker = process.env[WORKER_NUMBER];
  if (worker !== undefined && process.connected) return serveAsWorker(file, Number(worker));
  const source = configFile(file);
  const initial = source.read();
  return initial.config.workers === 1 ? serveAlone(source, initial.config) : lead(source, initial);
}

async function serveAlone(source: ConfigFile, config: Config): Promise<number> {
  const log = openLog(config);
  const starting = buildGateway(config, parts, logEvents(log));
  // Before anything is awaited: the signal would end the process.
  process.on('SIGHUP', () => void starting.then(reload, () => {}));
  const gateway = await starting;
  const url = await listen(gateway);
  log.info({ url, version: version(), pid: process.pid }, 'listening');
  const signal = await untilStopped();
  log.info({ signal }, 'shutting down');
  await gateway.close(SHUTDOWN_DEADLINE);
  return 0;

  async function reload(running: Gateway): Promise<void> {
    try {
      const next = (await source.readAgain()).config;
      await running.reload(next);
      log.level = next.log.level;
      log.info('configuration reloaded');
    } catch (error) {
      log.error({ problem: messageOf(error) }, 'reload failed; keeping the current configuration');
    }
  }
}

/** The primary process, where several serve. */
async function lead(source: ConfigFile, initial: ReadConfig): Promise<number> {
  const log = openLog(initial.config);
  const stderr = openUnblocked(STDERR);
  let forked = 0;
  await leadWorkers({
    initial,
    read: source.readAgain,
    fork: () => forkWorker((forked += 1), stderr),
    log,
    version: version(),
    pid: process.pid,
    parts,
    onReload: (listener) => void process.on('SIGHUP', listener),
    untilStopped,
    deadline: SHUTDOWN_DEADLINE,
  });
  return 0;
}

/** @param stderr takes what Node.js itself has to say there of errors and warnings */
function forkWorker(id: number, stderr: number): WorkerProcess {
  const [, program = '', ...words] = process.argv;
  const env = { ...process.env, [WORKER_NUMBER]: String(id) };
  const child = fork(program, words, { stdio: WORKER_STDIO, env });
  child.stderr?.on('data', (bytes: Buffer) => {
    try {
      writeSync(stderr, bytes);
    } catch {
      // As in a process that writes there itself, what finds no room is lost.
    }
  });
  const ended = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? code ?? 'unknown'));
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(error.message);
    });
  });
  return {
    id,
    pid: child.pid,
    link: createLink(child, 'the worker'),
    kill: () => void child.kill('SIGKILL'),
    ended,
  };
}

/** One of the processes that serve. It is told everything by the primary process, and ends with it. */
async function serveAsWorker(file: string | undefined, worker: number): Promise<number> {
  // They may reach the whole group of processes; the primary process says what follows from them.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  const link = createLink(process, 'the primary process');
  const running = Promise.withResolvers<{ gateway: Gateway; log: ReturnType<typeof openLog> }>();
  running.promise.catch(() => {});
  const pool = createPoolMember(link, async (text) => {
    const { gateway, log } = await running.promise;
    const next = configOf(text);
    await gateway.reload(next);
    log.level = next.log.level;
  });
  const orphaned = Promise.withResolvers<void>();
  let isServing = false;
  process.once('disconnect', () => {
    // Without the primary process a start has no end.
    if (!isServing) process.exit(1);
    link.close();
    orphaned.resolve();
  });
  let workers = 1;
  const source = configFile(file);
  const configOf = (text: string | undefined) => workerShare(source.read(text).config, workers);
  try {
    const given = await pool.configuration();
    workers = given.workers;
    const config = configOf(given.text);
    const log = openLog(config, WORKER_LOG).child({ worker });
    const gateway = await buildGateway(config, { ...parts, primary: link }, logEvents(log));
    running.resolve({ gateway, log });
    isServing = true;
    pool.ready(gateway.accept()).catch(orphaned.resolve);
    const isOrphan = await Promise.race([
      pool.stopped.then(() => false),
      orphaned.promise.then(() => true),
    ]);
    if (isOrphan) log.warn('the primary process is gone: shutting down');
    await gateway.close(SHUTDOWN_DEADLINE);
    return 0;
  } catch (error) {
    running.reject(error);
    // Many would say the same; the primary process says it once.
    if (!(await pool.failed(messageOf(error)))) throw error;
    return 1;
  }
}

async function listen(gateway: Gateway): Promise<string> {
  return await gateway.listen().catch(async (error: unknown) => {
    await gateway.close(0);
    throw error;
  });
}

function openLog(config: Config, stdout = STDOUT): ReturnType<typeof createLog> {
  unblock(stdout);
  // What Node.js prints there itself, of errors and warnings, would wait for its reader.
  unblock(STDERR);
  const fd = openUnblocked(stdout);
  const still = new Int32Array(new SharedArrayBuffer(4));
  const output = createLogOutput({
    write: (bytes) => writeSync(fd, bytes),
    onExit: (flush) => void process.on('exit', flush),
    clock: systemClock,
    pause: (milliseconds) => void Atomics.wait(still, 0, 0, milliseconds),
  });
  return createLog(config.log, output);
}

/** Most of the program is loaded here, so that other commands are quick, and its compiled code is found again. */
const buildGateway: typeof createGateway = async (...given) =>
  (await import('./gateway.ts')).createGateway(...given);

async function storeParts(file: string | undefined): Promise<StoreCommandParts> {
  const { storage, auth } = load(file);
  const { createStorage } = await import('./compose/storage.ts');
  const stopping = new AbortController();
  void untilStopped().then(() => stopping.abort());
  return {
    config: storage,
    // Whatever the storage tells beside its results belongs to one that serves.
    createStorage: (config) => createStorage(config, auth.admins, { ...parts, emit() {} }),
    input: process.stdin,
    output: process.stdout,
    prompts: process.stderr,
    now: parts.clock.now,
    stopped: stopping.signal,
  };
}

function load(file: string | undefined): Config {
  return configFile(file).read().config;
}

function configFile(file: string | undefined): ConfigFile {
  return createConfigFile({
    file,
    env: process.env,
    workingFolder: process.cwd(),
    // Zero, or far more than there is, where no control group (cgroup v1 or v2) sets a limit.
    memory: Math.min(getHeapStatistics().heap_size_limit, process.constrainedMemory() || Infinity),
    // A reload that waits for a file holds up no shutdown.
    sleep: (milliseconds) => sleep(milliseconds, undefined, { ref: false }),
  });
}

/** Resolves to the name of the signal that asks the process to stop. */
function untilStopped(): Promise<string> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.once(signal, () => resolve(signal));
  });
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

// Keeps compiled code for the next start, beside the code itself: a user who can write there could change that as well. Where
// this process cannot, it does without.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/mdx-gateway', import.meta.url)));
process.exitCode = await main(process.argv.slice(2));
