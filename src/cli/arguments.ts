/** What the command line asks for. */

import { parseArgs } from 'node:util';
import { unknownWord } from '../config/problems.ts';

/** How a program ends after a command line that it does not understand. */
export const EXIT_USAGE = 2;

/** The text of `--help`. */
export const HELP = `mdx-gateway: a caching reverse proxy for OLAP engines that speak XMLA

  mdx-gateway [serve] [--config FILE]   run the gateway; without FILE every key has its default
  mdx-gateway demo [--once] [--port N]  run the gateway before a made-up engine, on this machine only;
                                        --once shows what it does and ends
  mdx-gateway check --config FILE       say what is wrong with a configuration, or print the one in effect
  mdx-gateway hash-password [NAME]      ask for a password, or read a line of standard input, and print
                                        the line for the users file; without NAME the hash alone
  mdx-gateway export-store --config FILE [--output FILE]
                                        write all roles and datasets as lines of JSON to a new file, or to
                                        standard output; the gateway may run meanwhile
  mdx-gateway import-store --config FILE [--input FILE]
                                        read them from a file, or from standard input, into a storage that
                                        holds none yet: all of them, or none
  mdx-gateway --help
  mdx-gateway --version

The first user:       mdx-gateway hash-password ADMIN >> users.htpasswd
Every key of FILE:    docs/CONFIGURATION.md
Ready examples:       config/

Exit status: 0 done, 1 the configuration or the input is wrong, 2 the command line is wrong.
`;

export type Command =
  | { readonly kind: 'serve'; readonly config: string | undefined }
  | { readonly kind: 'demo'; readonly once: boolean; readonly port: number | undefined }
  | { readonly kind: 'check'; readonly config: string }
  | { readonly kind: 'hash-password'; readonly name: string | undefined }
  | { readonly kind: 'export-store'; readonly config: string; readonly output: string | undefined }
  | { readonly kind: 'import-store'; readonly config: string; readonly input: string | undefined }
  | { readonly kind: 'help' }
  | { readonly kind: 'version' };

export type Arguments =
  | { readonly ok: true; readonly command: Command }
  /** `message` is one line for standard error; the program ends with `EXIT_USAGE`. */
  | { readonly ok: false; readonly message: string };

const OPTIONS = {
  config: { type: 'string' },
  output: { type: 'string' },
  input: { type: 'string' },
  port: { type: 'string' },
  once: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** What each command takes: its options with the words for their values, and its operands. */
const COMMANDS = {
  serve: { options: { config: 'FILE' }, operands: [] },
  demo: { options: { once: undefined, port: 'N' }, operands: [] },
  check: { options: { config: 'FILE' }, operands: [] },
  'hash-password': { options: {}, operands: ['NAME'] },
  'export-store': { options: { config: 'FILE', output: 'FILE' }, operands: [] },
  'import-store': { options: { config: 'FILE', input: 'FILE' }, operands: [] },
} as const satisfies Record<string, CommandShape>;

interface CommandShape {
  readonly options: Readonly<Partial<Record<keyof typeof OPTIONS, string | undefined>>>;
  readonly operands: readonly string[];
}

const isCommandName = (word: string): word is keyof typeof COMMANDS =>
  Object.hasOwn(COMMANDS, word);

class UsageError extends Error {}

/**
 * Reads the words after the name of the program. `serve` is the command when none is named; `--help` and
 * `--version` count wherever they stand.
 */
export function parseArguments(words: readonly string[]): Arguments {
  try {
    return { ok: true, command: readCommand([...words]) };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { ok: false, message: `mdx-gateway: ${error.message}` };
  }
}

function readCommand(args: string[]): Command {
  // Not strict: the messages of parseArgs itself do not say what is allowed.
  const { tokens } = parseArgs({ args, options: OPTIONS, strict: false, tokens: true });
  const given = tokens.filter((token) => token.kind === 'option');
  for (const kind of ['help', 'version'] as const) {
    if (given.some(({ name }) => name === kind)) return { kind };
  }
  const operands = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []));
  const [kind = 'serve', ...rest] = operands;
  if (!isCommandName(kind)) {
    throw new UsageError(`${quote(kind)}: ${unknownWord('command', kind, Object.keys(COMMANDS))}`);
  }
  const shape: CommandShape = COMMANDS[kind];
  const values = new Map<string, string>();
  for (const option of given) {
    if (values.has(option.name)) throw new UsageError(`${kind}: ${option.rawName} stands twice`);
    values.set(option.name, valueOf(option, kind, shape));
  }
  const surplus = rest[shape.operands.length];
  if (surplus !== undefined) {
    throw new UsageError(`${kind} does not take ${quote(surplus)}; allowed: ${usage(kind, shape)}`);
  }
  const config = values.get('config');
  switch (kind) {
    case 'serve':
      return { kind, config };
    case 'demo':
      return { kind, once: values.has('once'), port: portOf(values.get('port')) };
    case 'hash-password':
      return { kind, name: rest[0] };
  }
  if (config === undefined) throw new UsageError(`${kind} needs --config FILE`);
  switch (kind) {
    case 'check':
      return { kind, config };
    case 'export-store':
      return { kind, config, output: values.get('output') };
    case 'import-store':
      return { kind, config, input: values.get('input') };
  }
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

/** An option without a value has the empty text. */
function valueOf(
  { name, rawName, value, inlineValue }: OptionToken,
  command: string,
  { options }: CommandShape,
): string {
  if (!Object.hasOwn(options, name)) {
    const allowed = [...Object.keys(options).map((one) => `--${one}`), '--help'];
    const hint = unknownWord('option', rawName, allowed);
    throw new UsageError(`${command}: ${quote(rawName)}: ${hint}`);
  }
  const word = options[name as keyof typeof OPTIONS];
  if (word === undefined) {
    if (value !== undefined) throw new UsageError(`${command}: ${rawName} takes no value`);
    return '';
  }
  // parseArgs takes the next option for the value when the value was forgotten.
  if (value && (inlineValue === true || !value.startsWith('-'))) return value;
  throw new UsageError(`${command}: ${rawName} needs ${word}`);
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw new UsageError(
    `demo: --port must be a whole number between 0 and 65535 (got ${quote(text)})`,
  );
}

function usage(command: string, { options, operands }: CommandShape): string {
  const takes = [
    ...Object.entries(options).map(([name, word]) => (word ? `--${name} ${word}` : `--${name}`)),
    ...operands,
  ];
  return [command, ...takes.map((word) => `[${word}]`)].join(' ');
}

const quote = (text: string) => JSON.stringify(text);
