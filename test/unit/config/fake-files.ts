import { ConfigError } from '../../../src/settings/problems.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import type { Config } from '../../../src/config/config.ts';

/** Where the configuration file of a test lies, and where the operator stands. */
export const FOLDER = '/etc/gateway';
export const WORKING_FOLDER = '/home/operator';

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: made up`), { code });
}

/** Reads from a table of absolute paths; a value that is an upper-case word is thrown as that system error. */
export function fakeReadFile(files: Readonly<Record<string, string | Uint8Array>>) {
  return (path: string): Uint8Array => {
    const content = Object.hasOwn(files, path) ? files[path] : undefined;
    if (content === undefined) throw failure('ENOENT');
    if (typeof content !== 'string') return content;
    if (/^E[A-Z]+$/.test(content)) throw failure(content);
    return new TextEncoder().encode(content);
  };
}

export interface Case {
  readonly yaml: string | Uint8Array;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Beside the configuration file and the users file, by absolute path. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
}

/** Loads `gateway.yaml` in FOLDER, beside which an empty users file lies. */
export function load({ yaml, env = {}, files = {} }: Case): Config {
  return loadConfig({
    file: '../../etc/gateway/gateway.yaml',
    env,
    workingFolder: WORKING_FOLDER,
    readFile: fakeReadFile({
      [`${FOLDER}/gateway.yaml`]: yaml,
      [`${FOLDER}/users.htpasswd`]: '',
      ...files,
    }),
  });
}

/** The lines of the error, without the name of the file; none when the configuration loads. */
export function mistakes(wrong: Case): readonly string[] {
  try {
    load(wrong);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message
      .split('\n')
      .map((line) => line.replace('../../etc/gateway/gateway.yaml: ', ''));
  }
}
