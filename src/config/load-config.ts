/** Reads and checks the configuration, and fills in what it leaves out. */

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { ENGINE_KINDS } from '../common/engine-kinds.ts';
import { type CheckedFile, type Config, schema } from './config.ts';
import type { ReadFile } from './kinds.ts';
import { configError, type Problem } from './problems.ts';
import { checkRules, readErrorText } from './rules.ts';
import { type Environment, readYaml } from './yaml-text.ts';

export interface LoadOptions {
  /** As named on the command line, relative to `workingFolder`; undefined takes the default of every key. */
  readonly file: string | undefined;
  /** The environment that `${NAME}` in a value is taken from. */
  readonly env: Environment;
  /** Absolute. Relative paths start there when there is no file; otherwise in the folder of the file. */
  readonly workingFolder: string;
  readonly readFile: ReadFile;
  /** Bytes that one process may take; left out: without a limit. */
  readonly memory?: number;
}

const LARGEST_FILE = 1024 * 1024;

/** What a message calls the configuration when there is no file. */
const DEFAULTS_SOURCE = 'built-in defaults';

/** A configuration, and the text from which it was read; undefined where there is no file. */
export type ReadConfig = ReturnType<typeof readConfig>;

/**
 * @throws ConfigError with one line for each mistake, such as
 *   `gateway.yaml: cache.ttl: must be a duration such as 12h, 30m or 45s, between 1s and 30d (got "soon")`.
 *   Secrets, and anything that came from the environment, stand in no line.
 */
export function loadConfig(options: LoadOptions): Config {
  return readConfig(options).config;
}

/** @param given what stood in the file when another process read it; the files that it names are read in any case */
function readConfig(options: LoadOptions, given?: string) {
  const { file, env, workingFolder, readFile, memory = Infinity } = options;
  const problems: Problem[] = [];
  /** Each step takes for granted that there was nothing wrong in those before. */
  const unlessWrong = <T>(result: T): T => {
    if (problems.length === 0) return result;
    throw configError(file ?? DEFAULTS_SOURCE, problems);
  };
  const path = file === undefined ? undefined : resolve(workingFolder, file);
  const folder = path === undefined ? workingFolder : dirname(path);
  const hiddenPaths = new Set<string>();
  const withdrawn: string[] = [];
  const reading = { path: [], folder, workingFolder, readFile, hiddenPaths, problems, withdrawn };
  const text = path && unlessWrong(given ?? readText(path, readFile, problems));
  const written = unlessWrong(readYaml(text ?? '', env, problems));
  const checked = unlessWrong(schema.read(written, reading)) as CheckedFile;
  const config = fillIn(checked, memory, withdrawn);
  checkRules(checked, config, reading);
  return unlessWrong({ config, text });
}

function readText(path: string, readFile: ReadFile, problems: Problem[]): string | undefined {
  let message;
  try {
    const bytes = readFile(path);
    if (bytes.byteLength <= LARGEST_FILE && isUtf8(bytes)) return new TextDecoder().decode(bytes);
    message = bytes.byteLength <= LARGEST_FILE ? 'is not UTF-8 text' : 'is larger than 1MiB';
  } catch (error) {
    message = readErrorText(error);
  }
  problems.push({ path: [], message });
  return undefined;
}

type CheckedEngine = CheckedFile['engine'];

/** @param withdrawn keys of former versions that stand in the file and have no effect */
export function fillIn(file: CheckedFile, memory: number, withdrawn: readonly string[]) {
  const { cache, engine, limits } = file;
  const projects = [...file.projects].map(([name, own]) => {
    const { ttl = cache.ttl, share = cache.share } = own;
    const filled = fillInEngine(inheritEngine(own.engine ?? {}, engine));
    return [name, { ...own, ttl, share, engine: filled }] as const;
  });
  const connections = limits.connections ?? fittingConnections(file, memory);
  return {
    ...file,
    engine: fillInEngine(engine),
    /** By the name of the project as it is written. */
    projects: new Map(projects),
    storage: fillInStorage(file.storage),
    limits: { ...limits, connections },
    withdrawn,
  };
}

/**
 * Fills in what a project leaves out. Certificate and key are inherited as a pair, so that a half is never
 * completed with the other half of another engine; the service account only by a login that uses it.
 */
function inheritEngine(own: Partial<CheckedEngine>, common: CheckedEngine): CheckedEngine {
  const login = own.login ?? common.login;
  const none = { certificate: undefined, key: undefined };
  return {
    ...common,
    service: login === 'service' ? common.service : undefined,
    ...('certificate' in own || 'key' in own ? none : {}),
    ...own,
    delegation: own.delegation ?? (own.login === undefined ? common.delegation : undefined),
    session_idle: own.session_idle ?? (own.kind === undefined ? common.session_idle : undefined),
  };
}

function fillInEngine(engine: CheckedEngine) {
  const { login, kind, delegation, session_idle } = engine;
  const idle = session_idle ?? ENGINE_KINDS[kind].sessionIdle;
  return {
    ...engine,
    delegation: delegation ?? (login === 'service' ? 'refuse' : 'forward'),
    /** Undefined when the engine never drops a session. */
    session_idle: idle === 0 ? undefined : idle,
  };
}

/** `storage.timeout: null`, by driver (ms). */
const STORAGE_TIMEOUT = { postgres: 1_500, http: 60_000 } as const;

/** The keys of its driver only. */
function fillInStorage(storage: CheckedFile['storage']) {
  const { driver, path, url, login, service, tls, ca, certificate, key, connections } = storage;
  if (driver === 'sqlite') return { driver, path };
  const timeout = storage.timeout ?? STORAGE_TIMEOUT[driver];
  const files = { ca, certificate, key };
  if (driver === 'postgres') return { driver, url, tls, ...files, connections, timeout };
  return { driver, url, login, service, ...files, timeout };
}

/** Open connections may take this part of the memory, and no more than so many bytes. */
const OF_CONNECTIONS = 1 / 4;
const MOST_OF_CONNECTIONS = 160 * 1024 * 1024;
/** What an open connection takes beside twice its head (bytes), as measured with heads that never end. */
const CONNECTION_SIZE = { http: 24 * 1024, https: 96 * 1024 } as const;

/** Of all workers together, since the memory of a container is that of all. */
function fittingConnections({ listen, limits }: CheckedFile, memory: number): number {
  const room = Math.min(MOST_OF_CONNECTIONS, memory * OF_CONNECTIONS);
  const scheme = listen.certificate === undefined ? 'http' : 'https';
  return Math.ceil(room / (CONNECTION_SIZE[scheme] + 2 * limits.head));
}

/** Where a process has its configuration from. */
export type ConfigFile = ReturnType<typeof createConfigFile>;

/** How far apart two readings are (ms). */
const INTERVAL = 100;
/** A file that takes longer to be written than ten seconds needs another signal. */
const MOST_READINGS = 100;

/** @throws ConfigError from what is returned, as {@link loadConfig} */
export function createConfigFile({
  sleep,
  ...options
}: Omit<LoadOptions, 'readFile'> & {
  readonly sleep: (milliseconds: number) => Promise<void>;
}) {
  /** One reading; `seen` tells apart what was found in all files, and when each was written. */
  function attempt() {
    const digest = createHash('sha256');
    const readFile: ReadFile = (path) => {
      // Of two empty readings the file may have been whole in between: each was then written at another time.
      const { written, content } = readRegular(path);
      digest.update(`${path} ${written} ${content.length} `).update(content);
      return content;
    };
    const result = Promise.try(readConfig, { ...options, readFile });
    // Only the last one counts.
    result.catch(() => {});
    return { seen: digest.digest('base64'), result };
  }

  return {
    /** @param given as in {@link readConfig} */
    read: (given?: string) => readConfig({ ...options, readFile: readFileSync }, given),
    /**
     * For a process that runs: files that are still being written are waited for. Many programs empty a file before they
     * write it, and an empty one, or the first half of one, is often a configuration without a mistake: it would send
     * queries to another engine, or let only some users in. So two readings in a row must agree.
     */
    async readAgain(): Promise<ReadConfig> {
      let before = attempt();
      for (let readings = 1; readings < MOST_READINGS; readings += 1) {
        await sleep(INTERVAL);
        const now = attempt();
        if (now.seen === before.seen) return now.result;
        before = now;
      }
      const message = 'is still being written after 10 seconds; signal again when it is complete';
      throw configError(options.file ?? '', [{ path: [], message }]);
    },
  };
}

/**
 * What was read from a pipe is gone, and to read one without a writer would take for ever: a process that runs refuses
 * pipes.
 */
function readRegular(path: string): { readonly written: number; readonly content: Uint8Array } {
  const state = statSync(path);
  if (!state.isFile() && !state.isDirectory()) {
    throw Object.assign(new Error('no regular file'), { code: 'NOT_REGULAR' });
  }
  return { written: state.mtimeMs, content: readFileSync(path) };
}
