import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type CheckedFile, type Config, fillIn, schema } from './config.ts';
import type { Memory } from './fit-memory.ts';
import type { ReadFile } from '../settings/kinds.ts';
import { ConfigError, type Problem } from '../settings/problems.ts';
import { readErrorText } from '../settings/connection.ts';
import { checkRules } from './rules.ts';
import { type Environment, readYaml, type Sources } from '../settings/yaml-text.ts';

export interface LoadOptions {
  /** Relative to `workingFolder`; undefined takes the defaults. */
  readonly file: string | undefined;
  readonly env: Environment;
  /** Absolute. Relative paths in a file start at the file's folder, without a file here. */
  readonly workingFolder: string;
  readonly readFile: ReadFile;
  readonly memory?: Memory;
}

const UNLIMITED: Memory = { heap: Infinity, container: Infinity };
const LARGEST_FILE = 1024 * 1024;
export type ReadConfig = ReturnType<typeof readConfig>;

/** @throws ConfigError with a line for each mistake, none of which shows a secret or reference */
export const loadConfig = (options: LoadOptions): Config => readConfig(options).config;

/** @param given the text that another process read; named files are read again */
function readConfig(options: LoadOptions, given?: string) {
  const { file, env, workingFolder, readFile, memory = UNLIMITED } = options;
  const problems: Problem[] = [];
  const unlessWrong = <T>(result: T): T => {
    if (problems.length === 0) return result;
    throw new ConfigError(file ?? 'built-in defaults', problems);
  };
  const path = file === undefined ? undefined : resolve(workingFolder, file);
  const folder = path === undefined ? workingFolder : dirname(path);
  const withdrawn: string[] = [];
  const more = { hiddenPaths: new Set<string>(), problems, withdrawn };
  const reading = { path: [], folder, workingFolder, readFile, ...more };
  const wrongFile = (message: string) => void problems.push({ path: [], message });
  const text = path && unlessWrong(given ?? readText(path, readFile, wrongFile));
  const sources: Sources = {
    environment: env,
    readText: (name, complain) => readText(resolve(folder, name), readFile, complain),
  };
  const written = unlessWrong(readYaml(text ?? '', sources, problems));
  const checked = unlessWrong(schema.read(written, reading)) as CheckedFile;
  const config = fillIn(checked, memory, withdrawn);
  checkRules(checked, config, reading);
  return unlessWrong({ config, text });
}

function readText(path: string, readFile: ReadFile, complain: (message: string) => void) {
  try {
    const bytes = readFile(path);
    const isLarge = bytes.byteLength > LARGEST_FILE;
    if (!isLarge && isUtf8(bytes)) return new TextDecoder().decode(bytes);
    complain(isLarge ? 'is larger than 1MiB' : 'is not UTF-8 text');
  } catch (error) {
    complain(readErrorText(error));
  }
  return undefined;
}

export type ConfigFile = ReturnType<typeof createConfigFile>;
type FileOptions = Omit<LoadOptions, 'readFile'>;
type Sleep = (milliseconds: number) => Promise<void>;
const INTERVAL_MS = 100;
const MOST_READINGS = 100;

/** The configuration of a process. Its methods throw as {@link loadConfig}. */
export function createConfigFile({ sleep, ...options }: FileOptions & { sleep: Sleep }) {
  /** `seen` identifies the contents and write times of all files. */
  function attempt() {
    const digest = createHash('sha256');
    const readFile: ReadFile = (path) => {
      // The write time: the file may have been whole between two empty readings.
      const { written, content } = readRegular(path);
      digest.update(`${path} ${written} ${content.length} `).update(content);
      return content;
    };
    const result = Promise.try(readConfig, { ...options, readFile });
    result.catch(() => {});
    return { seen: digest.digest('base64'), result };
  }

  return {
    read: (given?: string) => readConfig({ ...options, readFile: readFileSync }, given),
    /** Two readings must agree: half a file is often one without a mistake. */
    async readAgain(): Promise<ReadConfig> {
      let before = attempt();
      for (let readings = 1; readings < MOST_READINGS; readings += 1) {
        await sleep(INTERVAL_MS);
        const now = attempt();
        if (now.seen === before.seen) return now.result;
        before = now;
      }
      const message = 'is still being written after 10 seconds; signal again when it is complete';
      throw new ConfigError(options.file ?? '', [{ path: [], message }]);
    },
  };
}

/** Sources run as they are or built: the ending is that of this file. */
const WORKER = new URL(`./config-worker${extname(import.meta.url)}`, import.meta.url);
export interface ThreadTask {
  readonly options: FileOptions;
  readonly given: string | undefined;
}
export type ThreadAnswer = { readonly read: ReadConfig } | { readonly problem: string };

/**
 * Reads again in a thread, or reads `given`: with thousands of projects it takes a tenth of a
 * second. A shutdown does not wait for it. @throws Error with the text of a {@link ConfigError}
 */
export async function readInThread(options: FileOptions, given?: string) {
  const workerData: ThreadTask = { options: { ...options, env: { ...options.env } }, given };
  const thread = new Worker(WORKER, { name: 'configuration', workerData });
  thread.unref();
  const [answer] = (await once(thread, 'message')) as [ThreadAnswer];
  if ('problem' in answer) throw new Error(answer.problem);
  return answer.read;
}

/** Refuses pipes: reading consumes them, and waits forever without a writer. */
function readRegular(path: string) {
  const state = statSync(path);
  if (!state.isFile() && !state.isDirectory()) {
    throw Object.assign(new Error('no regular file'), { code: 'NOT_REGULAR' });
  }
  return { written: state.mtimeMs, content: readFileSync(path) };
}
