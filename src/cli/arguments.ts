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
  mdx-gateway check --config FILE [--connect]
                                        say what is wrong with a configuration, or print the one in effect;
                                        --connect also says whether engines, Redis and storage answer
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

Exit status: 0 done, 1 the configuration or the input is wrong, or --connect failed, 2 the command line is wrong.
`;

const OPTIONS = {
  config: { type: 'string' },
  output: { type: 'string' },
  input: { type: 'string' },
  port: { type: 'string' },
  once: { type: 'boolean' },
  connect: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** What each command takes. */
const COMMANDS = {
  serve: '[--config FILE]',
  demo: '[--once] [--port N]',
  check: '--config FILE [--connect]',
  'hash-password': '[NAME]',
  'export-store': '--config FILE [--output FILE]',
  'import-store': '--config FILE [--input FILE]',
} as const;

/** The command line is wrong. `message` is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/**
 * Reads the words after the name of the program. `serve` is the command when none is named; `--help` and
 * `--version` count wherever they stand.
 * @throws UsageError
 */
export function parseArguments(words: readonly string[]) {
  const { values, positionals, tokens } = parseWords([...words]);
  const { help, version, port, ...options } = values;
  if (help) return { kind: 'help' } as const;
  if (version) return { kind: 'version' } as const;
  const [kind = 'serve', ...operands] = positionals;
  if (!isCommand(kind)) {
    throw new UsageError(`${quote(kind)}: ${unknownWord('command', kind, Object.keys(COMMANDS))}`);
  }
  const takes = COMMANDS[kind];
  const seen = new Set<string>();
  const refuse = (word: string) =>
    new UsageError(`${kind} does not take ${word}; allowed: ${kind} ${takes}`);
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!takes.includes(`--${name}`)) throw refuse(rawName);
    if (seen.has(name)) throw new UsageError(`${kind}: ${rawName} stands twice`);
    if (value === '') throw new UsageError(`${kind}: ${rawName} needs a value`);
    seen.add(name);
  }
  const surplus = operands[takes === '[NAME]' ? 1 : 0];
  if (surplus !== undefined) throw refuse(quote(surplus));
  if (takes.startsWith('--config') && options.config === undefined) {
    throw new UsageError(`${kind} needs --config FILE`);
  }
  return { kind, ...options, name: operands[0], port: portOf(port) };
}

const isCommand = (word: string): word is keyof typeof COMMANDS => Object.hasOwn(COMMANDS, word);

function parseWords(args: string[]) {
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true, tokens: true });
  } catch (error) {
    // The first sentence says what is wrong; further ones explain Node.js.
    const [problem] = (error as Error).message.split(/\. |\.?\n/, 1);
    throw new UsageError(`${problem}; mdx-gateway --help tells what is allowed`);
  }
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  const allowed = 'a whole number between 0 and 65535';
  throw new UsageError(`demo: --port must be ${allowed} (got ${quote(text)})`);
}

const quote = (text: string) => JSON.stringify(text);
