#!/usr/bin/env node
import { fork, type StdioOptions } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { EXIT_USAGE, helpText, helpValue, parseArguments, UsageError } from './cli/arguments.ts';
import { systemClock } from './common/clock.ts';
import { messageOf } from './common/errors.ts';
import { oneAfterTheOther } from './common/in-turn.ts';
import { configWarnings } from './compose/config-warnings.ts';
import { leadWorkers, workerShare } from './compose/lead-workers.ts';
import type { Config } from './config/config.ts';
import type { PostgresConfig, SqliteConfig } from './storage/config.ts';
import { describeConfig } from './config/describe-config.ts';
import {
  type ConfigFile,
  createConfigFile,
  type ReadConfig,
  readInThread,
} from './config/load-config.ts';
import { ConfigError } from './settings/problems.ts';
import type { createGateway } from './gateway.ts';
import { EVENTS } from './features/events.ts';
import { openLogOutput, openUnblocked, unblock } from './observability/log-output.ts';
import { auditLines, createLog, type Log } from './observability/log.ts';
import { createLink } from './workers/link.ts';
import { CONNECTIONS, WORKER, type WorkerProcess } from './workers/pool.ts';

// Without this V8 makes objects of a kind that often survives old from the start, and an old one
// keeps its whole request in memory until the next full collection (docs/BENCHMARKS.md).
setFlagsFromString('--no-allocation-site-pretenuring');
// Without this V8 lets the heap grow by a tenth or several times before a full collection: in a bad
// stretch one every 100 ms, up to a sixth of all time. With it the heap grows to three times what
// was in use, and half of the way there near its limit (docs/BENCHMARKS.md).
setFlagsFromString('--heap-growing-percent=200');
/** In a small container that growth would take all there is. */
const growLittle = () => setFlagsFromString('--heap-growing-percent=20');
const SHUTDOWN_DEADLINE_MS = 30_000;
const [STDOUT, STDERR] = [1, 2];
/**
 * A worker's standard streams are its own: Node.js makes them blocking at the start and end of a
 * process, for all that share them. The log goes to another descriptor, by its index here.
 */
const WORKER_STDIO: StdioOptions = ['ignore', 'ignore', 'pipe', 'ipc', STDOUT];
const WORKER_LOG = 4;
const WORKER_NUMBER = 'MDX_GATEWAY_WORKER';

const parts = { clock: systemClock, random: Math.random, randomBytes, sleep, node: process };
const print = (text: string) => write(process.stdout, text);
const complain = (text: string) => write(process.stderr, text);
const asJson = (value: object) => `${JSON.stringify(value, null, 2)}\n`;

/** The only file that touches `process`: command line, signals, exit codes. */
async function run(words: readonly string[]): Promise<number> {
  const command = parseArguments(words);
  switch (command.kind) {
    case 'serve':
      // Output of Node.js to a stalled reader of standard error would keep the process.
      return process.exit(await serve(command.config));
    case 'demo':
    case 'demo-engine': {
      const { runDemo, runDemoEngine } = await import('./demo/demo.ts');
      const given = { stopped: stopSignal(), print };
      return command.kind === 'demo'
        ? runDemo({ ...command, ...given }, { ...parts, version: version() })
        : runDemoEngine({ ...command, ...given }, parts);
    }
    case 'check': {
      const config = load(command.config);
      print(describeConfig(config));
      const { featureNotes } = await import('./features/all.ts');
      for (const note of featureNotes(config)) print(`# ${note}\n`);
      if (config.memory.fitted !== undefined) print(`# memory: ${config.memory.fitted}\n`);
      for (const message of configWarnings(config, parts.clock.wall())) {
        complain(`mdx-gateway: warning: ${message}\n`);
      }
      if (!command.connect) return 0;
      const { tryConnections } = await import('./compose/try-connections.ts');
      const { lines, ok } = await tryConnections(config, { ...parts, emit() {} });
      print(`\n${lines.join('\n')}\n`);
      return ok ? 0 : 1;
    }
    case 'hash-password': {
      const { hashPassword } = await import('./cli/hash-password.ts');
      const { hash } = await import('bcrypt');
      return hashPassword(command.name, { ...commandStreams(), hash });
    }
    case 'export-store':
    case 'import-store': {
      const { exportStore, importStore } = await import('./cli/copy-store.ts');
      const { createStorage } = await import('./compose/storage.ts');
      const { storage, auth } = load(command.config);
      const given = {
        input: process.stdin,
        output: process.stdout,
        prompts: process.stderr,
        config: storage,
        // Events of the storage belong to a process that serves.
        createStorage: (config: SqliteConfig | PostgresConfig) =>
          createStorage(config, auth.admins, { ...parts, emit() {} }),
        now: parts.clock.now,
        stopped: stopSignal(),
      };
      return command.kind === 'export-store'
        ? exportStore(command.output, given)
        : importStore(command.input, given);
    }
    case 'status':
    case 'purge':
    case 'explain': {
      const { askGateway } = await import('./cli/ask-gateway.ts');
      const given = { ...commandStreams(), env: process.env, stopped: stopSignal() };
      return askGateway(command.kind, command, given);
    }
    case 'help':
      print(command.json ? asJson(helpValue(command.name)) : helpText(command.name));
      return 0;
    case 'version':
      print(command.json ? asJson({ version: version() }) : `${version()}\n`);
      return 0;
  }
}

/** Opens the streams only where they are used: Node.js does it on access. */
function commandStreams() {
  return { input: process.stdin, output: { write: print }, prompts: { write: complain } };
}

/** An output without a reader changes nothing that was done, and so not the exit status. */
function write(stream: NodeJS.WriteStream, text: string): void {
  if (stream.listenerCount('error') === 0) {
    stream.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      // A reader that has gone wants no more.
      const isTold = code !== 'EPIPE' && stream === process.stdout;
      if (isTold) complain(`mdx-gateway: standard output: ${message}\n`);
    });
  }
  stream.write(text);
}

async function serve(file: string | undefined): Promise<number> {
  const worker = process.env[WORKER_NUMBER];
  if (worker !== undefined && process.connected) return serveAsWorker(file, Number(worker));
  return lead(configFile(file), () => readInThread(sourceOf(file)));
}

/** Leads as the process that listens, or as the primary process of several. */
async function lead(source: Pick<ConfigFile, 'read'>, readAgain: () => Promise<ReadConfig>) {
  const initial = source.read();
  const { config } = initial;
  const { workers, memory } = config;
  if (memory.isTight) growLittle();
  const { log, on, configure } = openLog(config);
  if (memory.fitted !== undefined) log.info(memory.fitted);
  /** One at a time, and none before it listens. */
  const inTurn = oneAfterTheOther();
  const starting = inTurn(start);
  let reloadWaits = false;
  let stopping = false;
  // Before anything is awaited: the signal would end the process.
  process.on('SIGHUP', () => {
    // The waiting reload will read the file.
    if (reloadWaits) return;
    reloadWaits = true;
    inTurn(reload).catch(() => {});
  });
  const { url, served } = await starting;
  const { pid } = process;
  log.info({ url, version: version(), ...(workers > 1 && { workers }), pid }, 'listening');
  void served.askEngines();
  const signal = await untilStopped();
  stopping = true;
  log.info({ signal }, 'shutting down');
  await served.close(SHUTDOWN_DEADLINE_MS);
  return 0;

  async function start() {
    const own = { version: version(), comparisons: comparisons(1) };
    const served =
      workers === 1
        ? await buildGateway(config, { ...parts, ...own }, on)
        : leadWorkers(initial, { ...parts, emit: on }, createForks(), log);
    try {
      return { served, url: await served.listen() };
    } catch (error) {
      await served.close(0);
      throw error;
    }
  }

  async function reload(): Promise<void> {
    reloadWaits = false;
    const failed = 'reload failed; keeping the current configuration';
    const { served } = await starting;
    try {
      const next = await readAgain();
      if (stopping) throw new Error('the gateway is shutting down');
      const problems = (await served.reload(next.config, next.text)) ?? [];
      for (const problem of problems) log.error(problem, failed);
      served.reloaded(problems.length === 0);
      if (problems.length > 0) return;
      configure(next.config.log);
      log.info('configuration reloaded');
    } catch (error) {
      served.reloaded(false);
      log.error({ problem: messageOf(error) }, failed);
    }
  }
}

function createForks(): () => WorkerProcess {
  const [, program = '', ...words] = process.argv;
  // Takes what Node.js itself writes there of errors and warnings.
  const stderr = openUnblocked(STDERR);
  let id = 0;
  return () => {
    const env = { ...process.env, [WORKER_NUMBER]: String((id += 1)) };
    const child = fork(program, words, { stdio: WORKER_STDIO, env });
    child.stderr?.on('data', (bytes: Buffer) => {
      try {
        writeSync(stderr, bytes);
      } catch {
        // Output that finds no room is lost, as in a process that writes there itself.
      }
    });
    const ended = new Promise<number | string>((resolve) => {
      child.once('exit', (code, signal) => resolve(signal ?? code ?? 'unknown'));
      child.on('error', (error) => {
        if (child.pid === undefined) resolve(error.message);
      });
    });
    const kill = () => void child.kill('SIGKILL');
    return { id, pid: child.pid, link: createLink(child, 'the worker'), kill, ended };
  };
}

/** Obeys the primary process in everything, and ends with it. */
async function serveAsWorker(file: string | undefined, worker: number): Promise<number> {
  // They may reach the whole group of processes; the primary process decides what follows.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => {});
  const link = createLink(process, 'the primary process');
  const { promise: ended, resolve: end } = Promise.withResolvers<'stopped' | 'orphaned'>();
  const source = configFile(file);
  let starting: ReturnType<typeof start> | undefined;
  let serves = false;
  link.serve(WORKER, {
    // Many workers would report the same failed start; the primary process reports it once.
    start: (text: string | null, workers: number) =>
      (starting = start(text, workers)).then(() => undefined, messageOf),
    reload: async (text: string | null) => (await starting)?.reload(text),
    stop: () => end('stopped'),
  });
  process.once('disconnect', () => {
    // Without the primary process a start has no end.
    if (!serves) process.exit(1);
    link.close();
    end('orphaned');
  });
  const why = await ended;
  const started = await starting?.catch(() => undefined);
  if (started === undefined) return 1;
  if (why === 'orphaned') started.log.warn('the primary process is gone: shutting down');
  await started.gateway.close(SHUTDOWN_DEADLINE_MS);
  return 0;

  async function start(text: string | null, workers: number) {
    // JSON turns an undefined argument into null.
    const partOf = (read: ReadConfig) => workerShare(read.config, workers);
    const config = partOf(source.read(text ?? undefined));
    if (config.memory.isTight) growLittle();
    const { log, on, configure } = openLog(config, WORKER_LOG, { worker });
    const own = { version: version(), comparisons: comparisons(workers), primary: link };
    const gateway = await buildGateway(config, { ...parts, ...own }, on);
    link.serve(CONNECTIONS, { take: gateway.accept() });
    serves = true;
    const reload = async (next: string | null) => {
      const changed = partOf(await readInThread(sourceOf(file), next ?? undefined));
      await gateway.reload(changed);
      configure(changed.log);
    };
    return { gateway, log, reload };
  }
}

function openLog(config: Config, stdout = STDOUT, base?: object): Log {
  unblock(stdout);
  // Node.js prints errors and warnings there, and would wait for its reader.
  unblock(STDERR);
  const output = openLogOutput(
    openUnblocked(stdout),
    auditLines(EVENTS),
    (flush) => void process.on('exit', flush),
  );
  return createLog(EVENTS, config.log, output, base);
}

/** Loads most of the program here: other commands stay quick, and compiled code is found again. */
const buildGateway: typeof createGateway = async (...given) =>
  (await import('./gateway.ts')).createGateway(...given);

const load = (file: string | undefined) => configFile(file).read().config;

/** Says where the configuration is, and what is around it. */
function sourceOf(file: string | undefined) {
  return {
    file,
    env: process.env,
    workingFolder: process.cwd(),
    memory: {
      heap: getHeapStatistics().heap_size_limit,
      // Zero, or far more than there is, where no control group (cgroup v1 or v2) sets a limit.
      container: process.constrainedMemory() || Infinity,
    },
  };
}

const configFile = (file: string | undefined) => createConfigFile({ ...sourceOf(file), sleep });

/** Each takes a core and a libuv thread (bin/mdx-gateway), which files and DNS need too. */
function comparisons(workers: number): number {
  const threads = Number(process.env.UV_THREADPOOL_SIZE) || 4;
  return Math.max(1, Math.min(Math.floor(availableParallelism() / workers), threads - 2));
}

async function untilStopped(): Promise<string> {
  const [signal] = await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  return signal as string;
}

function stopSignal(): AbortSignal {
  const stopping = new AbortController();
  void untilStopped().then(() => stopping.abort());
  return stopping.signal;
}

function version(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

// Keeps compiled code for the next start beside the code, since a user who can write there could
// change that too. A process that cannot write there does without.
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/mdx-gateway', import.meta.url)));
process.exitCode = await run(process.argv.slice(2)).catch((error: unknown) => {
  const isUsage = error instanceof UsageError;
  if (isUsage && process.argv.some((word) => /^--json(?:=|$)/.test(word))) {
    print(asJson({ error: 'usage', message: error.message }));
  }
  const program = error instanceof ConfigError ? '' : 'mdx-gateway: ';
  complain(`${program}${messageOf(error)}\n`);
  return isUsage ? EXIT_USAGE : 1;
});
