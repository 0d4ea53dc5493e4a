/** The command that makes a line of the users file. */
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { MAX_PASSWORD_BYTES } from '../auth/users-file.ts';
import { isUserName, userName } from '../config/kinds.ts';

export interface HashPasswordParts {
  /** Standard input; a terminal has `isTTY`. */
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean | undefined };
  /** Standard output: takes the finished line and nothing else, so that it can be appended to a file. */
  readonly output: { write(text: string): unknown };
  /** Standard error: takes questions and complaints. */
  readonly prompts: { write(text: string): unknown };
  /** Bcrypt: the password and the cost to a hash that begins with `$2b$` or `$2y$`. */
  readonly hash: (password: string, cost: number) => Promise<string>;
}

/** Two to the tenth rounds, about a tenth of a second; what bcrypt libraries take by default. */
const COST = 10;
/** More is neither a password nor a slip of the finger. */
const LONGEST_INPUT = 4096;

/** A name or a password that is not taken; the message says why. */
class PasswordRefused extends Error {}

/**
 * Asks for a password and writes `NAME:hash`, or the hash alone when there is no name, to `output`.
 * @returns the exit status: 0 when the line was written, 1 when not; `prompts` then has one line with the reason.
 */
export async function hashPassword(name: string | undefined, parts: HashPasswordParts) {
  const { input, output, prompts, hash } = parts;
  try {
    if (name !== undefined && !isUserName(name)) {
      throw new PasswordRefused(`NAME must be ${userName.allowed}`);
    }
    const password = await (input.isTTY ? readFromTerminal(parts) : readFromPipe(parts));
    refuseUnusable(password);
    // The same algorithm under the name that htpasswd -B writes and reads.
    const hashed = (await hash(password, COST)).replace(/^\$2b\$/, '$2y$');
    output.write(`${name === undefined ? '' : `${name}:`}${hashed}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof PasswordRefused)) throw error;
    prompts.write(`mdx-gateway hash-password: ${error.message}\n`);
    return 1;
  }
}

function refuseUnusable(password: string): void {
  if (password === '') throw new PasswordRefused('the password is empty');
  // What a decoder makes of bytes that are not UTF-8.
  if (password.includes('\ufffd')) throw new PasswordRefused('the password must be UTF-8 text');
  // RFC 7617 §2 bars control characters from Basic credentials, and bcrypt would stop at a NUL.
  const controls = 'the password must not hold control characters, such as NUL or a tab';
  if (/\p{Cc}/u.test(password)) throw new PasswordRefused(controls);
  const bytes = Buffer.byteLength(password);
  const rest = `bcrypt reads no more than ${MAX_PASSWORD_BYTES}, and the rest would not count`;
  const isLong = bytes > MAX_PASSWORD_BYTES;
  if (isLong) throw new PasswordRefused(`the password has ${bytes} bytes; ${rest}`);
}

/** Takes one line, with or without its end; more lines are refused, because only one could be meant. */
async function readFromPipe({ input }: HashPasswordParts): Promise<string> {
  let text = '';
  for await (const part of input.setEncoding('utf8')) {
    text += part;
    if (text.length > LONGEST_INPUT) throw new PasswordRefused('the password is far too long');
  }
  // Some shells begin what they write with a byte order mark.
  const password = text.replace(/^\ufeff/, '').replace(/\r?\n$/, '');
  if (!password.includes('\n')) return password;
  throw new PasswordRefused('standard input must hold one line, the password');
}

/** Asks twice, and shows nothing of what is typed. Ctrl-C, Ctrl-D and the end of the input cancel the command. */
async function readFromTerminal({ input, prompts }: HashPasswordParts): Promise<string> {
  const output = new Writable({ write: (_shown, _encoding, done) => done() });
  const terminal = createInterface({ input, output, terminal: true, historySize: 0 });
  const lines = terminal[Symbol.asyncIterator]();
  const ask = async (prompt: string) => {
    prompts.write(prompt);
    const { value, done } = await lines.next();
    prompts.write('\n');
    if (done) throw new PasswordRefused('cancelled');
    return value;
  };
  try {
    const password = await ask('Password: ');
    const again = await ask('The same password again: ');
    if (again !== password) throw new PasswordRefused('the two passwords are not the same');
    return password;
  } finally {
    terminal.close();
  }
}
