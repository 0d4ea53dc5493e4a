import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

/** What an image says of how it wants to be run, in the words of the Docker image format. */
const imageConfig = z.object({
  User: z.string(),
  Env: z.array(z.string()),
  WorkingDir: z.string(),
  Entrypoint: z.array(z.string()),
  Cmd: z.array(z.string()),
  StopSignal: z.string(),
  Volumes: z.record(z.string(), z.unknown()),
  Healthcheck: z.object({ Test: z.array(z.string()) }),
  Labels: z.record(z.string(), z.string()),
});

export type ImageConfig = z.infer<typeof imageConfig>;

/** Reads the output of `buildah inspect --type image`. Throws with the path of what is missing. */
export function readImageConfig(file: string): ImageConfig {
  const inspected: unknown = JSON.parse(readFileSync(file, 'utf8'));
  return z.object({ Docker: z.object({ config: imageConfig }) }).parse(inspected).Docker.config;
}

export interface RunOptions {
  readonly config: ImageConfig;
  /** The mounted root of a container of the image. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  /** Files and folders shown inside, read-only: the place in the container by the path out here. */
  readonly files: ReadonlyMap<string, string>;
  /** A process whose network it shares; otherwise that of this machine. */
  readonly network?: number | undefined;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface RunningImage {
  /** Of process 1 of the container, as seen from outside. */
  readonly pid: number;
  readonly exit: Promise<Exit>;
  /** What it has printed so far. */
  output(): string;
  /** Runs a command in the container, as its user and with its environment. */
  execute(command: readonly string[]): Promise<Exit & { readonly output: string }>;
  kill(signal: NodeJS.Signals): void;
}

const ENTER = join(import.meta.dirname, 'enter.sh');

/**
 * Runs the entrypoint and command of an image as process 1 of a PID namespace of its own, as the user of the
 * image, without any capability, on a read-only root: what a strict orchestrator does, without the control
 * groups that not every machine has. Needs root. It ends with this process.
 */
export async function runImage({
  config,
  root,
  env,
  files,
  network = process.pid,
}: RunOptions): Promise<RunningImage> {
  const variables = { ...Object.fromEntries(config.Env.map(splitVariable)), ...env };
  const volumes = Object.keys(config.Volumes).map((place) => ['volume', place]);
  const [user = '', group = user] = config.User.split(':');
  const argv = [
    `nsenter --net=/proc/${network}/ns/net --`.split(' '),
    // A container does not outlive this process.
    'setpriv --pdeathsig KILL -- unshare --mount --pid --fork --kill-child=KILL --'.split(' '),
    [ENTER, root, ...[...files].flat(), ...volumes.flat(), '--'],
    // What the next step needs; the change of the user drops these too.
    'setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid --'.split(' '),
    ['unshare', `--root=${root}`, `--wd=${config.WorkingDir}`],
    [`--setgid=${group}`, `--setuid=${user}`, '--'],
    config.Entrypoint,
    config.Cmd,
  ].flat();
  const outer = spawn(argv[0] ?? '', argv.slice(1), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: variables,
  });
  const exit = once(outer, 'close').then(([code, signal]): Exit => ({
    code: code as number | null,
    signal: signal as Exit['signal'],
  }));
  let output = '';
  for (const stream of [outer.stdout, outer.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => void (output += text));
  }
  await once(outer, 'spawn');
  const pid = await firstChild(outer.pid ?? -1);

  return {
    pid,
    exit,
    output: () => output,
    kill: (signal) => void process.kill(pid, signal),
    async execute(command) {
      const place = [
        '--mount',
        '--pid',
        '--net',
        '--root',
        '--wd',
        `--setgid=${group}`,
        `--setuid=${user}`,
      ];
      const inner = spawn('nsenter', [`--target=${pid}`, ...place, '--', ...command], {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: variables,
      });
      let text = '';
      inner.stdout.setEncoding('utf8').on('data', (part: string) => void (text += part));
      const [code, signal] = (await once(inner, 'close')) as [Exit['code'], Exit['signal']];
      return { code, signal, output: text };
    },
  };
}

function splitVariable(text: string): [string, string] {
  const equals = text.indexOf('=');
  return [text.slice(0, equals), text.slice(equals + 1)];
}

/** The child that `unshare --fork` makes, which is process 1 inside. */
async function firstChild(parent: number): Promise<number> {
  for (;;) {
    // Empty until the fork; the file is gone when the parent ended before it.
    const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim();
    if (children !== '') return Number(children.split(' ')[0]);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
