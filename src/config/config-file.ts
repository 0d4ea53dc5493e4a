import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from './config.ts';
import { loadConfig, type LoadOptions } from './load-config.ts';
import type { ReadFile } from './named-files.ts';
import { configError } from './problems.ts';

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
   * For a process that runs: files that are still being written are waited for. Many programs empty a file before they
   * write it, and an empty one, or the first half of one, is often a configuration without a mistake: it would send
   * queries to another engine, or let only some users in. So two readings in a row must agree. Rejects with a
   * ConfigError.
   */
  readAgain(): Promise<ReadConfig>;
}

/** How far apart two readings are (ms). */
const INTERVAL = 100;
/** A file that takes longer to be written than ten seconds needs another signal. */
const MOST_READINGS = 100;

export function createConfigFile({
  sleep,
  ...options
}: Omit<LoadOptions, 'readFile'> & {
  readonly sleep: (milliseconds: number) => Promise<void>;
}): ConfigFile {
  const { file, workingFolder } = options;
  const itself = file === undefined ? undefined : resolve(workingFolder, file);

  function load(readFile: ReadFile, given?: string): ReadConfig {
    let text: string | undefined;
    const config = loadConfig({
      ...options,
      readFile(path) {
        if (path !== itself) return readFile(path);
        const content = given === undefined ? readFile(path) : Buffer.from(given);
        text = Buffer.from(content).toString();
        return content;
      },
    });
    return { config, text };
  }

  /** One reading; `seen` tells apart what was found in all files, and when each was written. */
  function attempt(): { readonly seen: string; readonly result: () => ReadConfig } {
    const digest = createHash('sha256');
    const readFile: ReadFile = (path) => {
      // Of two empty readings the file may have been whole in between: each was then written at another time.
      digest.update(`${path} `);
      const { written, content } = readRegular(path);
      digest.update(`${written} ${content.length} `).update(content);
      return content;
    };
    let result: () => ReadConfig;
    try {
      const read = load(readFile);
      result = () => read;
    } catch (error) {
      result = () => {
        throw error;
      };
    }
    return { seen: digest.digest('base64'), result };
  }

  return {
    read: (given) => load(readFileSync, given),
    async readAgain() {
      let before = attempt();
      for (let readings = 1; readings < MOST_READINGS; readings += 1) {
        await sleep(INTERVAL);
        const now = attempt();
        if (now.seen === before.seen) return now.result();
        before = now;
      }
      const message = 'is still being written after 10 seconds; signal again when it is complete';
      throw configError(file ?? '', [{ path: [], message }]);
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
