/** Reads and checks the configuration, and fills in what it leaves out. */

import { dirname, resolve } from 'node:path';
import { ENGINE_KINDS } from '../common/engine-kinds.ts';
import type { CheckedFile, Config, EngineConfig, StorageConfig } from './config.ts';
import type { Reading } from './kinds.ts';
import { readErrorText, type ReadFile } from './named-files.ts';
import { configError, type Problem } from './problems.ts';
import { brokenRules } from './rules.ts';
import { schema } from './schema.ts';
import { readSetting } from './setting.ts';
import { readYaml, type Environment } from './yaml-text.ts';

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

/**
 * @throws ConfigError with one line for each mistake, such as
 *   `gateway.yaml: cache.ttl: must be a duration such as 12h, 30m or 45s, between 1s and 30d (got "soon")`.
 *   Secrets, and anything that came from the environment, stand in no line.
 */
export function loadConfig(options: LoadOptions): Config {
  const { file, env, workingFolder, readFile, memory = Infinity } = options;
  const problems: Problem[] = [];
  const stopAtProblems = () => {
    if (problems.length > 0) throw configError(file ?? DEFAULTS_SOURCE, problems);
  };
  const path = file === undefined ? undefined : resolve(workingFolder, file);
  const folder = path === undefined ? workingFolder : dirname(path);
  const text = path === undefined ? '' : readText(path, readFile, problems);
  stopAtProblems();
  const written = readYaml(text, env, problems);
  stopAtProblems();
  const reading: Reading = { folder, hiddenPaths: new Set(), problems, withdrawn: [] };
  const checked = readSetting(schema, written, reading, []) as CheckedFile;
  stopAtProblems();
  const config = { ...fillIn(checked, memory), withdrawn: reading.withdrawn };
  problems.push(...brokenRules(checked, config, { ...reading, readFile, workingFolder }));
  stopAtProblems();
  return config;
}

function readText(path: string, readFile: ReadFile, problems: Problem[]): string {
  const refuse = (message: string) => {
    problems.push({ path: [], message });
    return '';
  };
  let bytes: Uint8Array;
  try {
    bytes = readFile(path);
  } catch (error) {
    return refuse(readErrorText(error));
  }
  if (bytes.byteLength > LARGEST_FILE) return refuse('is larger than 1MiB');
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return refuse('is not UTF-8 text');
  }
}

type CheckedEngine = CheckedFile['engine'];

function fillIn(file: CheckedFile, memory: number): Omit<Config, 'withdrawn'> {
  const { cache, engine, limits } = file;
  const projects = [...file.projects].map(([name, own]) => {
    const { ttl = cache.ttl, share = cache.share } = own;
    const filled = fillInEngine(inheritEngine(own.engine ?? {}, engine));
    return [name, { ...own, ttl, share, engine: filled }] as const;
  });
  return {
    ...file,
    engine: fillInEngine(engine),
    projects: new Map(projects),
    storage: fillInStorage(file.storage),
    limits: { ...limits, connections: limits.connections ?? fittingConnections(file, memory) },
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

function fillInEngine(engine: CheckedEngine): EngineConfig {
  const { login, kind, delegation, session_idle } = engine;
  const idle = session_idle ?? ENGINE_KINDS[kind].sessionIdle;
  return {
    ...engine,
    delegation: delegation ?? (login === 'service' ? 'refuse' : 'forward'),
    session_idle: idle === 0 ? undefined : idle,
  };
}

/** `storage.timeout: null`, by driver (ms). */
const STORAGE_TIMEOUT = { postgres: 1_500, http: 60_000 } as const;

/** The keys of its driver only. */
function fillInStorage(storage: CheckedFile['storage']): StorageConfig {
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
