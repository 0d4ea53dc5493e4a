#!/usr/bin/env node
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { hash } from 'bcrypt';
import { EXIT_USAGE, parseArguments, type Command } from './cli/arguments.ts';
import { hashPassword } from './cli/hash-password.ts';
import { HELP } from './cli/help.ts';
import type { StoreCommandParts } from './cli/store-command.ts';
import { systemClock } from './clock.ts';
import { configWarnings } from './composition/config-warnings.ts';
import type { Config } from './config/config.ts';
import { describeConfig } from './config/describe-config.ts';
import { loadConfig } from './config/load-config.ts';
import { ConfigError } from './config/problems.ts';
import { createGateway, type Gateway } from './gateway.ts';
import { createLog, logEvents } from './observability/log.ts';

/** What is under way at SIGTERM has this long (ms). */
const SHUTDOWN_DEADLINE = 30_000;

const parts = {
  clock: systemClock,
  random: Math.random,
  randomBytes: (count: number) => randomBytes(count),
  sleep: (milliseconds: number) => sleep(milliseconds),
};

/** The only file that touches `process`: command line, signals, exit codes. */
async function main(words: readonly string[]): Promise<number> {
  const read = parseArguments(words);
  if (!read.ok) {
    process.stderr.write(`${read.message}\n`);
    return EXIT_USAGE;
  }
  try {
    return await run(read.command);
  } catch (error) {
    if (error instanceof ConfigError) process.stderr.write(`${error.message}\n`);
    else
      process.stderr.write(
        `mdx-gateway: ${error instanceof Error ? error.message : String(error)}\n`,
      );
    return 1;
  }
}

async function run(command: Command): Promise<number> {
  switch (command.kind) {
    case 'serve':
      return serve(command.config);
    case 'demo': {
      const { runDemo } = await import('./demo/run-demo.ts');
      return runDemo({ ...command, parts, output: process.stdout, untilStopped });
    }
    case 'check': {
      const config = load(command.config);
      process.stdout.write(describeConfig(config));
      for (const message of configWarnings(config)) {
        process.stderr.write(`mdx-gateway: warning: ${message}\n`);
      }
      return 0;
    }
    case 'hash-password':
      return hashPassword(command.name, {
        input: process.stdin,
        output: process.stdout,
        prompts: process.stderr,
        hash,
      });
    case 'export-store': {
      const { exportStore } = await import('./cli/export-store.ts');
      return exportStore(command.output, {
        ...(await storeParts(command.config)),
        output: process.stdout,
      });
    }
    case 'import-store': {
      const { importStore } = await import('./cli/import-store.ts');
      return importStore(command.input, {
        ...(await storeParts(command.config)),
        input: process.stdin,
      });
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
  const config = load(file);
  const log = createLog(config.log);
  const starting = createGateway(config, parts, logEvents(log));
  // Before anything is awaited: the signal would end the process.
  process.on('SIGHUP', () => void starting.then(reload, () => {}));
  const gateway = await starting;
  const url = await gateway.listen().catch(async (error: unknown) => {
    await gateway.close(0);
    throw error;
  });
  log.info({ url, version: version() }, 'listening');
  const signal = await untilStopped();
  log.info({ signal }, 'shutting down');
  await gateway.close(SHUTDOWN_DEADLINE);
  return 0;

  async function reload(running: Gateway): Promise<void> {
    try {
      await running.reload(load(file));
      log.info('configuration read again');
    } catch (error) {
      const lines = error instanceof Error ? error.message : String(error);
      log.error({ problem: lines }, 'the configuration of before stays');
    }
  }
}

async function storeParts(file: string): Promise<StoreCommandParts> {
  const { storage, auth } = load(file);
  const { createStorage } = await import('./composition/storage.ts');
  const stopping = new AbortController();
  void untilStopped().then(() => stopping.abort());
  return {
    config: storage,
    // Whatever the storage tells beside its results belongs to one that serves.
    createStorage: (config) => createStorage(config, auth.admins, { ...parts, emit() {} }),
    prompts: process.stderr,
    now: parts.clock.now,
    stopped: stopping.signal,
  };
}

function load(file: string | undefined): Config {
  return loadConfig({
    file,
    env: process.env,
    workingFolder: process.cwd(),
    readFile: (path) => readFileSync(path),
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

process.exitCode = await main(process.argv.slice(2));
