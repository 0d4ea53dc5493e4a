/** Reads, checks and freezes the configuration. */

import { dirname, resolve } from 'node:path';
import type { z } from 'zod';
import { checkFiles, readErrorText } from './check-files.ts';
import type { ReadFile } from './check-files.ts';
import type { Config } from './config.ts';
import type { Environment } from './environment-text.ts';
import { deepFreeze } from './freeze.ts';
import { MISSING, unknownKeyLines } from './leaf.ts';
import { ConfigError, formatKeyPath, formatProblem } from './problems.ts';
import type { Problem } from './problems.ts';
import { resolveConfig } from './resolve-config.ts';
import { configSchema } from './schema.ts';
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

  const reading = readYaml(text, env);
  if (!reading.ok) return refuse(reading.problems);
  // It is read once: to compile the schema would take longer.
  const checked = configSchema.safeParse(reading.value, { jitless: true });
  if (!checked.success) return refuse(toProblems(checked.error.issues));
  const { config, files, problems } = resolveConfig(checked.data, folder, memory);
  const fileProblems = checkNamedFiles ? checkFiles(files, { readFile, workingFolder }) : [];
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

const pathOf = ({ path }: z.core.$ZodIssue) =>
  path.map((step) => (typeof step === 'symbol' ? String(step) : step));

function toProblems(issues: readonly z.core.$ZodIssue[]): readonly Problem[] {
  const withUnknownKeys = new Set(
    issues
      .filter(({ code }) => code === 'unrecognized_keys')
      .map((issue) => formatKeyPath(pathOf(issue))),
  );
  return issues.flatMap((issue) => {
    const path = pathOf(issue);
    if (issue.code === 'unrecognized_keys') {
      const lines = unknownKeyLines(issue.message);
      return issue.keys.map((key, index) => ({
        path: [...path, key],
        message: lines[index] ?? 'unknown key',
      }));
    }
    // A misspelt required key is one mistake, and the message about the spelling says more.
    const misspelt =
      issue.message.startsWith(MISSING) && withUnknownKeys.has(formatKeyPath(path.slice(0, -1)));
    return misspelt ? [] : [{ path, message: issue.message }];
  });
}
