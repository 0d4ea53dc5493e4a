import { parseArgs } from 'node:util';
import { unknownWord } from '../settings/problems.ts';

export const EXIT_USAGE = 2;

const OPTIONS = {
  config: { type: 'string' },
  output: { type: 'string' },
  input: { type: 'string' },
  port: { type: 'string' },
  once: { type: 'boolean' },
  connect: { type: 'boolean' },
  project: { type: 'string' },
  as: { type: 'string' },
  header: { type: 'string', multiple: true },
  url: { type: 'string' },
  user: { type: 'string' },
  'password-file': { type: 'string' },
  ca: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

const ABOUT_CONNECTION = `
CONNECTION to a running gateway:
  --url URL             else MDX_GATEWAY_URL, else http://127.0.0.1:7080
  --user NAME           else MDX_GATEWAY_USER
  --password-file FILE  its first line; else MDX_GATEWAY_PASSWORD, else it is asked for
  --ca FILE             the only authority to trust (PEM), for a private one
  --json                one JSON value on standard output, of a failure too
`;
const CONNECTION = (ABOUT_CONNECTION.match(/--\S+(?: [A-Z]+)?/g) ?? []).join('] [');

/** First line: arguments; others: help. */
const COMMANDS = {
  serve: `[--config FILE]
run the gateway; without FILE every key has its default`,
  demo: `[--once] [--port N]
run the gateway before a made-up engine, on this machine only;
--once shows what it does and ends`,
  'demo-engine': `[--port N]
run the made-up engine alone, on all addresses, for a gateway that runs elsewhere`,
  check: `--config FILE [--connect]
report what is wrong with a configuration, or print the one in effect;
--connect also says whether engines, Redis, storage and what is watched answer`,
  'hash-password': `[NAME]
ask for a password, or read a line of standard input, and print the line for the users file;
without NAME the hash alone`,
  'export-store': `--config FILE [--output FILE]
write all roles and datasets as lines of JSON to a new file, or to standard output;
the gateway may run meanwhile`,
  'import-store': `--config FILE [--input FILE]
read them from a file, or from standard input, into a storage that holds none yet:
all of them, or none`,
  status: `[${CONNECTION}]
show whether a running gateway is ready (else: exit status 3), and what its cache does`,
  purge: `[PROJECT] [${CONNECTION}]
make a running gateway drop everything, or a project, from the cache of all gateways;
exit status 3: Redis did not confirm it, it is pending`,
  explain: `FILE [--project NAME] [--as NAME] [--header LINE] [${CONNECTION}]
show what a running gateway would do with an XMLA request (- for standard input) at a project,
of a user, with a header such as "User-Agent: MSOLAP"; for administrators`,
  help: `[COMMAND] [--json]
print this text, or that of one command; so does --help`,
  version: `[--json]
print the version; so does --version`,
} as const;
type Command = keyof typeof COMMANDS;
const NAMES = Object.keys(COMMANDS) as Command[];

/** `message` is one line. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `serve` is the default; `--help` and `--version` count anywhere. @throws UsageError */
export function parseArguments(words: readonly string[]) {
  const { values, positionals, tokens } = parseWords([...words]);
  const { help, version, port, ...options } = values;
  const [first = 'serve', ...operands] = positionals;
  const known = positionals.find(isCommand);
  if (help) return { ...options, kind: 'help', name: known } as const;
  if (version) return { ...options, kind: 'version' } as const;
  const kind = commandOf(first);
  const { takes } = about(kind);
  const [operand = ''] = /^\[?[A-Z]+/.exec(takes) ?? [];
  const seen = new Set<string>();
  const refuse = (word: string) =>
    new UsageError(`${kind} does not take ${word}; allowed: ${kind} ${takes}`);
  for (const token of tokens) {
    if (token.kind !== 'option') continue;
    const { name, rawName, value } = token;
    if (!new RegExp(`--${name}\\b`).test(takes)) throw refuse(rawName);
    if (seen.has(name)) throw new UsageError(`${kind}: ${rawName} is given twice`);
    if (value === '') throw new UsageError(`${kind}: ${rawName} needs a value`);
    if (name !== 'header') seen.add(name);
  }
  const [name, surplus] = operand === '' ? [undefined, ...operands] : operands;
  if (surplus !== undefined) throw refuse(quote(surplus));
  if (takes.startsWith('--config') && options.config === undefined) {
    throw new UsageError(`${kind} needs --config FILE`);
  }
  if (operand === 'FILE' && name === undefined) throw new UsageError(`${kind} needs FILE`);
  if (kind === 'help') {
    return { ...options, kind, name: name === undefined ? name : commandOf(name) } as const;
  }
  return { ...options, kind, name, port: portOf(kind, port) };
}

/** Arguments of a command other than `help` and `version`. */
export type Given = Extract<ReturnType<typeof parseArguments>, { readonly port: unknown }>;

const isCommand = (word: string): word is Command => Object.hasOwn(COMMANDS, word);

function commandOf(word: string): Command {
  if (isCommand(word)) return word;
  throw new UsageError(`${quote(word)}: ${unknownWord('command', word, NAMES)}`);
}

function parseWords(args: string[]) {
  if (args.some((word) => /^--password(?:=|$)/.test(word))) {
    const ways = 'use --password-file FILE, MDX_GATEWAY_PASSWORD, or type it when it is asked for';
    throw new UsageError(
      `--password is not accepted: all users of a machine can see command lines; ${ways}`,
    );
  }
  try {
    return parseArgs({ args, options: OPTIONS, allowPositionals: true, tokens: true });
  } catch (error) {
    // The first sentence says what is wrong; further ones explain Node.js.
    const [problem] = (error as Error).message.split(/\. |\.?\n/, 1);
    throw new UsageError(`${problem}; mdx-gateway --help shows what is allowed`);
  }
}

function portOf(kind: Command, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  const allowed = 'a whole number between 0 and 65535';
  throw new UsageError(`${kind}: --port must be ${allowed} (got ${quote(text)})`);
}

const quote = (text: string) => JSON.stringify(text);

const about = (name: Command) => {
  const [takes = '', ...does] = COMMANDS[name].split('\n');
  return { name, takes, does };
};

export function helpText(command?: Command): string {
  const entries = helpValue(command).commands.map(({ name, takes, does }) => {
    const line = `${name === 'serve' ? '[serve]' : name} ${takes.replace(CONNECTION, 'CONNECTION')}`;
    return ['  mdx-gateway ', line, ...does.map((text) => `\n      ${text}`), '\n'].join('');
  });
  const text = entries.join('');
  const rest = text.includes('CONNECTION') ? ABOUT_CONNECTION : '';
  if (command !== undefined) return `${text}${rest}`;
  return `mdx-gateway: a caching reverse proxy for OLAP engines that speak XMLA

${text}${rest}
The first user:       mdx-gateway hash-password ADMIN >> users.htpasswd
Every key of FILE:    docs/CONFIGURATION.md
A running gateway:    docs/COMMAND-LINE.md
Ready examples:       config/

Exit status: 0 done, 1 refused, failed, or the input is wrong, 2 the command line is wrong,
3 not ready, or pending.
`;
}

export const helpValue = (command?: Command) => ({
  commands: (command === undefined ? NAMES : [command]).map(about),
});
