import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Config } from './config.ts';
import type { Environment } from './environment-text.ts';
import { loadConfig } from './load-config.ts';
import { readSettled } from './read-settled.ts';

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
  /** For a process that runs: a file that is still being written is waited for. Rejects with a ConfigError. */
  readAgain(): Promise<ReadConfig>;
}

/** @param file as named on the command line; undefined takes the default of every key */
export function createConfigFile(
  file: string | undefined,
  options: {
    readonly env: Environment;
    readonly workingFolder: string;
    readonly sleep: (milliseconds: number) => Promise<void>;
  },
): ConfigFile {
  const { env, workingFolder, sleep } = options;
  const itself = file === undefined ? undefined : resolve(workingFolder, file);

  function load(given: Uint8Array | undefined): ReadConfig {
    let text: string | undefined;
    const config = loadConfig({
      file,
      env,
      workingFolder,
      readFile(path) {
        if (path !== itself) return readFileSync(path);
        const content = given ?? readFileSync(path);
        text = Buffer.from(content).toString();
        return content;
      },
    });
    return { config, text };
  }

  return {
    read: (given) => load(given === undefined ? undefined : Buffer.from(given)),
    async readAgain() {
      if (file === undefined || itself === undefined) return load(undefined);
      const read = () => ({ written: statSync(itself).mtimeMs, content: readFileSync(itself) });
      return load(await readSettled(file, { read, sleep }));
    },
  };
}
