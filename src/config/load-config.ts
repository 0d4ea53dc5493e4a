/** Reads, checks and freezes the configuration. */

import { dirname, resolve } from 'node:path';
import { checkFiles, readErrorText } from './check-files.ts';
import type { ReadFile } from './check-files.ts';
import type { Config } from './config.ts';
import type { Environment } from './environment-text.ts';
import type { Reading } from './kinds.ts';
import { ConfigError, formatProblem } from './problems.ts';
import type { Problem } from './problems.ts';
import { resolveConfig } from './resolve-config.ts';
import { schema } from './schema.ts';
import { readYaml } from './yaml-text.ts';

export interface LoadOptions {
  /** As named on the command line, relative to `workingFolder`; undefined takes the default of every key. */
  readonly file: string | undefined;
  /** The environment that `${NAME}` in a value is taken from. */
  readonly env: Environment;
  /** Absolute. Relative paths start there when there is no file; otherwise in the folder of the file. */
  readonly workingFolder: string;
  readonly readFile: ReadFile;
  /**
   * Whether the files that the configuration names (users, certificates, keys) must be there and be usable;
   * true when left out. `demo`, which makes its own users, says false.
   */
  readonly checkNamedFiles?: boolean;
  /** Bytes that one process may take; left out: without a limit. */
  readonly memory?: number;
}

const LARGEST_FILE = 1024 * 1024;

/** What a message calls the configuration when there is no file. */
const DEFAULTS_SOURCE = 'built-in defaults';

/**
 * @returns the configuration, deeply frozen.
 * @throws ConfigError with one line for each mistake, such as
 *   `gateway.yaml: cache.ttl: must be a duration such as 12h, 30m or 45s, between 1s and 30d (got "soon")`.
 *   Secrets, and anything that came from the environment, stand in no line.
 */
export function loadConfig(options: LoadOptions): Config {
  const { file, env, workingFolder, readFile, checkNamedFiles = true, memory = Infinity } = options;
  const source = file ?? DEFAULTS_SOURCE;
  const refuse = (problems: readonly Problem[]): never => {
    throw new ConfigError(problems.map((problem) => formatProblem(source, problem)));
  };
  const refuseFile = (message: string) => refuse([{ path: [], message }]);

  const path = file === undefined ? undefined : resolve(workingFolder, file);
  const folder = path === undefined ? workingFolder : dirname(path);
  const text = path === undefined ? '' : readText(path, readFile, refuseFile);

  const yaml = readYaml(text, env);
  if (!yaml.ok) return refuse(yaml.problems);
  const reading: Reading = { folder, hiddenPaths: new Set(), problems: [] };
  const checked = schema.read(yaml.value, reading, []);
  if (reading.problems.length > 0) return refuse(reading.problems);
  const { config, files, problems } = resolveConfig(checked, memory);
  const { hiddenPaths } = reading;
  const fileProblems = checkNamedFiles
    ? checkFiles(files, { readFile, workingFolder, hiddenPaths })
    : [];
  if (problems.length + fileProblems.length > 0) return refuse([...problems, ...fileProblems]);
  return deepFreeze(config);
}

function readText(path: string, readFile: ReadFile, refuse: (message: string) => never): string {
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

function refuseChange(): never {
  throw new TypeError('the configuration cannot be changed');
}

/**
 * Freezes plain objects, lists and Maps, and all that they hold, in place. The methods of a Map that change it
 * throw a TypeError from then on.
 */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) {
    for (const method of ['set', 'delete', 'clear']) {
      Object.defineProperty(value, method, { value: refuseChange });
    }
    for (const item of value.values()) deepFreeze(item);
  }
  Object.freeze(value);
  for (const item of Object.values(value)) deepFreeze(item);
  return value;
}
