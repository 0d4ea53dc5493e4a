/** What the command line asks for. */

import { parseArgs } from 'node:util';
import { unknownWord } from '../config/problems.ts';

/** How a program ends after a command line that it does not understand. */
export const EXIT_USAGE = 2;

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
  config: { type: 'string', value: 'FILE' },
  output: { type: 'string', value: 'FILE' },
  input: { type: 'string', value: 'FILE' },
  port: { type: 'string', value: 'N' },
  once: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

type OptionName = keyof typeof OPTIONS;

/** The options of each command, and the most operands that it takes. */
const COMMANDS = {
  serve: { options: ['config'], operands: 0 },
  demo: { options: ['once', 'port'], operands: 0 },
  check: { options: ['config'], operands: 0 },
  'hash-password': { options: [], operands: 1 },
  'export-store': { options: ['config', 'output'], operands: 0 },
  'import-store': { options: ['config', 'input'], operands: 0 },
} as const satisfies Record<string, { options: readonly OptionName[]; operands: number }>;

type CommandName = keyof typeof COMMANDS;

const isCommandName = (word: string): word is CommandName => Object.hasOwn(COMMANDS, word);
const isOptionName = (word: string): word is OptionName => Object.hasOwn(OPTIONS, word);

class UsageError extends Error {}

/**
 * Reads the words after the name of the program. `serve` is the command when none is named; `--help` and
 * `--version` count wherever they stand.
 */
export function parseArguments(words: readonly string[]): Arguments {
  try {
    return { ok: true, command: readCommand(words) };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { ok: false, message: `mdx-gateway: ${error.message}` };
  }
}

function readCommand(words: readonly string[]): Command {
  // Not strict: the messages of parseArgs itself do not say what is allowed.
  const { tokens } = parseArgs({
    args: [...words],
    options: OPTIONS,
    strict: false,
    tokens: true,
  });
  const operands = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []));
  const optionTokens = tokens.flatMap((token) => (token.kind === 'option' ? [token] : []));
  if (optionTokens.some(({ name }) => name === 'help')) return { kind: 'help' };
  if (optionTokens.some(({ name }) => name === 'version')) return { kind: 'version' };

  const [first = 'serve', ...rest] = operands;
  if (!isCommandName(first)) {
    throw new UsageError(
      `${quote(first)}: ${unknownWord('command', first, Object.keys(COMMANDS))}`,
    );
  }
  const values = readOptions(first, optionTokens);
  const surplus = rest[COMMANDS[first].operands];
  if (surplus !== undefined) {
    throw new UsageError(`${first} does not take ${quote(surplus)}; allowed: ${usage(first)}`);
  }
  switch (first) {
    case 'serve':
      return { kind: 'serve', config: values.get('config') };
    case 'demo':
      return { kind: 'demo', once: values.has('once'), port: readPort(values.get('port')) };
    case 'check':
      return { kind: 'check', config: required(first, 'config', values) };
    case 'hash-password':
      return { kind: 'hash-password', name: rest[0] };
    case 'export-store':
      return {
        kind: 'export-store',
        config: required(first, 'config', values),
        output: values.get('output'),
      };
    case 'import-store':
      return {
        kind: 'import-store',
        config: required(first, 'config', values),
        input: values.get('input'),
      };
  }
}

function required(
  command: CommandName,
  name: OptionName,
  values: ReadonlyMap<OptionName, string>,
): string {
  const value = values.get(name);
  if (value === undefined) throw new UsageError(`${command} needs ${dashed(name)} FILE`);
  return value;
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
}

/** The values of the options; an option without a value has the empty text. */
function readOptions(
  command: CommandName,
  tokens: readonly OptionToken[],
): ReadonlyMap<OptionName, string> {
  const allowed: readonly OptionName[] = COMMANDS[command].options;
  const values = new Map<OptionName, string>();
  for (const { name, rawName, value, inlineValue } of tokens) {
    if (!isOptionName(name) || !allowed.includes(name)) {
      const hint = unknownWord('option', rawName, [...allowed.map(dashed), '--help']);
      throw new UsageError(`${command}: ${quote(rawName)}: ${hint}`);
    }
    if (values.has(name)) throw new UsageError(`${command}: ${rawName} stands twice`);
    const option = OPTIONS[name];
    if (option.type === 'boolean') {
      if (value !== undefined) throw new UsageError(`${command}: ${rawName} takes no value`);
      values.set(name, '');
      continue;
    }
    // parseArgs takes the next option for the value when the value was forgotten.
    const forgotten = !value || (inlineValue !== true && value.startsWith('-'));
    if (forgotten) throw new UsageError(`${command}: ${rawName} needs ${option.value}`);
    values.set(name, value);
  }
  return values;
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= 65_535) return port;
  throw new UsageError(
    `demo: --port must be a whole number between 0 and 65535 (got ${quote(text)})`,
  );
}

const dashed = (name: OptionName) => `--${name}`;

function usage(command: CommandName): string {
  const options: readonly OptionName[] = COMMANDS[command].options;
  const words = options.map((name) => {
    const option = OPTIONS[name];
    return 'value' in option ? `[${dashed(name)} ${option.value}]` : `[${dashed(name)}]`;
  });
  return [command, ...words, ...(COMMANDS[command].operands === 1 ? ['[NAME]'] : [])].join(' ');
}

const quote = (text: string) => JSON.stringify(text);
