import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { freePort } from '../test/support/free-port.ts';
import { ANALYST, basic, usersFile } from './credentials.ts';
import type { House, Subject } from './house.ts';
import { listensOn, SERVER_CORE, start, type Running } from './processes.ts';

export interface GatewayOptions {
  /** What the configuration holds beside address, users file, engine and storage. */
  readonly settings?: Readonly<Record<string, unknown>>;
  readonly name?: string;
  /** Loads `servers/probe.ts` into it. */
  readonly probe?: boolean;
  /** Its main file; by default that of this version. */
  readonly main?: string;
}

export interface MeasuredGateway extends Subject {
  readonly running: Running;
  /** Asks the probe. */
  asked<Q extends keyof ProbeAnswers>(question: Q): Promise<ProbeAnswers[Q]>;
}

interface ProbeAnswers {
  /** Bytes. */
  readonly memory: { readonly heapUsed: number; readonly external: number; readonly rss: number };
  /** Milliseconds. */
  readonly delay: { readonly p99: number; readonly most: number };
  /** CPU time of the longest turn of the event loop (ms). */
  readonly turn: { readonly most: number };
  readonly fill: { readonly entries: number };
}

/** Hits from either tier. */
const HIT = /^mdx-gateway; hit/;

/**
 * Starts the gateway as an operator does: a process with a configuration file, a users file with bcrypt hashes, its
 * log in a file, everything else as it is by default.
 */
export async function startGateway(
  house: House,
  enginePort: number,
  options: GatewayOptions = {},
): Promise<MeasuredGateway> {
  const { name = 'gateway', probe = false, main = house.settings.gateway } = options;
  const port = await freePort();
  const folder = house.folder(name.replaceAll(' ', '-'));
  await writeConfig(folder, port, enginePort, options.settings);
  const running = launch(main, folder, probe);
  house.defer(running.stop);
  try {
    await listensOn(port, running);
  } catch (error) {
    throw new Error(`the gateway did not start: ${logOf(folder)}`, { cause: error });
  }
  return {
    name,
    port,
    path: '/mdx/xmla',
    headers: basic(ANALYST),
    cpu: running.cpu,
    tells: { header: 'cache-status', hit: HIT },
    running,
    async asked(question) {
      const { child } = running;
      child.send(question);
      const [answer] = await once(child, 'message');
      return answer as ProbeAnswers[typeof question];
    },
  };
}

/** Writes everything that a gateway needs into its folder. */
export async function writeConfig(
  folder: string,
  port: number,
  enginePort: number,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  writeFileSync(join(folder, 'users.htpasswd'), await usersFile());
  const config = {
    listen: { port },
    engine: { url: `http://127.0.0.1:${enginePort}/xmla`, kind: 'mondrian' },
    storage: { driver: 'sqlite', path: './gateway.sqlite' },
    ...settings,
  };
  writeFileSync(join(folder, 'gateway.yaml'), stringify(config));
}

export function launch(main: string, folder: string, probe = false): Running {
  const log = openSync(join(folder, 'gateway.log'), 'w');
  const loaded = ['--expose-gc', '--import', join(import.meta.dirname, 'servers/probe.ts')];
  try {
    return start(
      SERVER_CORE,
      process.execPath,
      [...(probe ? loaded : []), main, 'serve', '--config', 'gateway.yaml'],
      { cwd: folder, stdio: ['ignore', log, log, ...(probe ? (['ipc'] as const) : [])] },
    );
  } finally {
    closeSync(log);
  }
}

function logOf(folder: string): string {
  return readFileSync(join(folder, 'gateway.log'), 'utf8').slice(-2_000);
}
