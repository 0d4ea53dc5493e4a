import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ReadFile } from './check-files.ts';
import type { Config } from './config.ts';
import type { Environment } from './environment-text.ts';
import { loadConfig } from './load-config.ts';
import { ConfigError, formatProblem } from './problems.ts';

/** A configuration, and the text from which it was read; undefined where there is no file. */
export interface ReadConfig {
  readonly config: Config;
  readonly text: string | undefined;
}

/** Where a process has its configuration from. */
export interface ConfigFile {
  /**
   * @param given what stood in the file when another process read it; the files that it names are read in any case
   * @throws ConfigError
   */
  read(given?: string): ReadConfig;
  /**
   * For a process that runs: a file that is still being written is waited for, and so are those that it names: the first
   * half of a users file lets only some in, that of a list of authorities trusts only some engines. Rejects with a
   * ConfigError.
   */
  readAgain(): Promise<ReadConfig>;
}

/** @param file as named on the command line; undefined takes the default of every key */
export function createConfigFile(
  file: string | undefined,
  options: {
    readonly env: Environment;
    readonly workingFolder: string;
    readonly sleep: (milliseconds: number) => Promise<void>;
    /** Bytes that one process may take; left out: without a limit. */
    readonly memory?: number;
  },
): ConfigFile {
  const { sleep, ...surroundings } = options;
  const { workingFolder } = surroundings;
  const itself = file === undefined ? undefined : resolve(workingFolder, file);

  /** @param readFile given what stood in the configuration, it reads the files that it names alone */
  function load(readFile: ReadFile, given?: Uint8Array): ReadConfig {
    let text: string | undefined;
    const config = loadConfig({
      ...surroundings,
      file,
      readFile(path) {
        if (path !== itself) return readFile(path);
        const content = given ?? readFile(path);
        text = Buffer.from(content).toString();
        return content;
      },
    });
    return { config, text };
  }

  /** Tells apart what the files hold that it names. */
  function named(content: Uint8Array): string {
    const digest = createHash('sha256');
    try {
      load((path) => {
        const { written, content: held } = readRegular(path);
        digest.update(`${path} ${written} ${held.length} `).update(held);
        return held;
      }, content);
    } catch {
      // What is wrong is told when it is loaded.
    }
    return digest.digest('base64');
  }

  return {
    read: (given) => load(readFileSync, given === undefined ? undefined : Buffer.from(given)),
    async readAgain() {
      if (file === undefined || itself === undefined) return load(contentOf);
      const read = () => {
        const { written, content } = readRegular(itself);
        return { written, content, named: named(content) };
      };
      return load(contentOf, await readSettled(file, { read, sleep }));
    },
  };
}

/**
 * What was read from a pipe is gone, and to read one without a writer would take for ever: a process that runs refuses
 * pipes.
 */
function readRegular(path: string): FileState {
  const state = statSync(path);
  if (!state.isFile() && !state.isDirectory()) {
    throw Object.assign(new Error('no regular file'), { code: 'NOT_REGULAR' });
  }
  return { written: state.mtimeMs, content: readFileSync(path) };
}

function contentOf(path: string): Uint8Array {
  return readRegular(path).content;
}

/** How far apart two readings are (ms). */
const INTERVAL = 100;
/** A file that takes longer to be written than ten seconds needs another signal. */
const MOST_READINGS = 100;

/** What one reading found. */
interface FileState {
  /** When the file was last written (ms since 1970), looked up before it was read. */
  readonly written: number;
  readonly content: Uint8Array;
  /** Tells apart what the files hold that it names. */
  readonly named?: string;
}

/**
 * Reads a configuration that may be being written: two readings in a row must agree. Many programs empty a file
 * before they write it, and an empty one, or the first half of one, is often a configuration without a mistake: it
 * would send queries to another engine, or be shared by more users than its operator wants.
 * @param file as it is called in messages
 * @returns the content; undefined when there is nothing to be read, which a further reading will explain
 * @throws ConfigError when it does not come to rest
 */
export async function readSettled(
  file: string,
  { read, sleep }: { read: () => FileState; sleep: (milliseconds: number) => Promise<void> },
): Promise<Uint8Array | undefined> {
  let before = attempt(read);
  for (let readings = 1; readings < MOST_READINGS; readings += 1) {
    await sleep(INTERVAL);
    const now = attempt(read);
    if (isSame(before, now)) return now?.content;
    before = now;
  }
  const message = 'is still being written after 10 seconds; signal again when it is complete';
  throw new ConfigError([formatProblem(file, { path: [], message })]);
}

function attempt(read: () => FileState): FileState | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Of two empty readings the file may have been whole in between: each was then written at another time. */
function isSame(one: FileState | undefined, other: FileState | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return (
    one.written === other.written &&
    one.named === other.named &&
    Buffer.compare(one.content, other.content) === 0
  );
}
