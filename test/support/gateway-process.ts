import { spawn } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { hash } from 'bcrypt';
import { stringify } from 'yaml';
import { describedGateway, forgetGateway } from './openapi-check.ts';
import { USERS } from './test-gateway.ts';

/** The program. */
export const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

export interface Finished {
  /** The exit code, or the name of the signal that ended it. */
  readonly exit: number | NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface GatewayProcess {
  readonly pid: number | undefined;
  /** Lines of the log so far, parsed. */
  readonly log: readonly Record<string, unknown>[];
  kill(signal: NodeJS.Signals): void;
  /** Resolves when the process has ended. */
  readonly ended: Promise<Finished>;
}

/** What a started program gets of the environment of the tests. */
export const PROGRAM_ENVIRONMENT = {
  PATH: process.env['PATH'],
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
};

interface ProcessOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Told of each line of the log, as it stands there. */
  readonly onLine?: ((line: string) => void) | undefined;
}

/**
 * Runs the program.
 * @param options.main the file that is run, where it is another one than that of this tree
 */
export const runMain = (
  args: readonly string[],
  { main = MAIN, ...options }: ProcessOptions & { readonly main?: string | undefined } = {},
): GatewayProcess => runCommand([process.execPath, main, ...args], options);

/** Runs a command that starts the program, without a shell. */
export function runCommand(
  [command = '', ...args]: readonly string[],
  options: ProcessOptions,
): GatewayProcess {
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: { ...PROGRAM_ENVIRONMENT, ...options.env },
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const { onLine } = options;
  if (onLine !== undefined) createInterface(child.stdout).on('line', onLine);
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  return {
    pid: child.pid,
    get log() {
      return stdout
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    kill: (signal) => void child.kill(signal),
    ended: new Promise((resolve) => {
      child.on('close', (code, signal) => resolve({ exit: code ?? signal, stdout, stderr }));
    }),
  };
}

export interface ConfigFolder {
  readonly path: string;
  /** Writes the configuration; `listen` and `auth.users` are added. Returns the path of the file. */
  write(settings: Record<string, unknown>): string;
  /** Writes the file as it stands. */
  writeText(text: string): string;
  /** Writes the users file: the names of USERS by default, each with its name in lower case as password. */
  writeUsers(names?: readonly string[]): Promise<void>;
  remove(): void;
}

/** A folder with the files of one gateway. */
export async function configFolder(): Promise<ConfigFolder> {
  const path = mkdtempSync(join(tmpdir(), 'mdx-gateway-process-'));
  const file = join(path, 'gateway.yaml');
  const folder: ConfigFolder = {
    path,
    write: (settings) =>
      folder.writeText(
        stringify({
          ...settings,
          listen: { port: 0, ...(settings['listen'] as object | undefined) },
          auth: { users: './users.htpasswd', ...(settings['auth'] as object | undefined) },
        }),
      ),
    writeText(text) {
      // At once, as editors do: a gateway that is told of the one before may be reading.
      writeFileSync(`${file}.new`, text);
      renameSync(`${file}.new`, file);
      return file;
    },
    async writeUsers(names = USERS) {
      const lines = names.map(async (name) => `${name}:${await hash(name.toLowerCase(), 4)}\n`);
      writeFileSync(join(path, 'users.htpasswd'), (await Promise.all(lines)).join(''));
    },
    remove: () => rmSync(path, { recursive: true }),
  };
  await folder.writeUsers();
  return folder;
}

/** Resolves to the base URL when the process listens; rejects when it ends before. */
export async function listening(running: GatewayProcess): Promise<string> {
  let finished: Finished | undefined;
  void running.ended.then((result) => (finished = result));
  for (;;) {
    const line = running.log.find(({ msg }) => msg === 'listening');
    if (line !== undefined) {
      const url = String(line['url']);
      describedGateway(url);
      void running.ended.then(() => forgetGateway(url));
      return url;
    }
    if (finished !== undefined) throw new Error(`ended with ${JSON.stringify(finished)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Resolves when the gateway has said of each of its engines whether it answers, for which it asks them at the start. */
export async function enginesAsked(running: GatewayProcess, engines = 1): Promise<void> {
  const told = () => running.log.filter(({ msg }) => msg === 'engine-state');
  while (told().length < engines) await new Promise((resolve) => setTimeout(resolve, 10));
}
