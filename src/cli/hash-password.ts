/** The command that makes a line of the users file. */

import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import { MAX_PASSWORD_BYTES } from '../auth/password-hash.ts';
import { userName } from '../config/kinds.ts';

/** What is needed of standard input. A terminal has `isTTY` and `setRawMode`. */
export interface PasswordInput extends AsyncIterable<Uint8Array | string> {
  readonly isTTY?: boolean | undefined;
  setRawMode?(mode: boolean): unknown;
}

/** What is needed of an output. */
interface TextOutput {
  write(text: string): unknown;
}

export interface HashPasswordParts {
  /** Standard input. */
  readonly input: PasswordInput;
  /** Standard output: takes the finished line and nothing else, so that it can be appended to a file. */
  readonly output: TextOutput;
  /** Standard error: takes questions and complaints. */
  readonly prompts: TextOutput;
  /** Bcrypt: the password and the cost to a hash that begins with `$2b$` or `$2y$`. */
  readonly hash: (password: string, cost: number) => Promise<string>;
}

/** Two to the tenth rounds, about a tenth of a second; what bcrypt libraries take by default. */
const COST = 10;

/** More is neither a password nor a slip of the finger. */
const LONGEST_INPUT = 4096;

/** A password that is not taken; the message says why. */
class PasswordRefused extends Error {}

/**
 * Asks for a password and writes `NAME:hash`, or the hash alone when there is no name, to `output`.
 * @returns the exit status: 0 when the line was written, 1 when not; `prompts` then has one line with the reason.
 */
export async function hashPassword(
  name: string | undefined,
  { input, output, prompts, hash }: HashPasswordParts,
): Promise<number> {
  const fail = (message: string) => {
    prompts.write(`mdx-gateway hash-password: ${message}\n`);
    return 1;
  };
  if (name !== undefined && !userName.test(name)) return fail(`NAME must be ${userName.allowed}`);
  try {
    const password = await (input.isTTY === true
      ? readFromTerminal(input, prompts)
      : readFromPipe(input));
    refuseUnusable(password);
    // The same algorithm under the name that htpasswd -B writes and reads.
    const hashed = (await hash(password, COST)).replace(/^\$2b\$/, '$2y$');
    output.write(`${name === undefined ? '' : `${name}:`}${hashed}\n`);
    return 0;
  } catch (error) {
    if (error instanceof PasswordRefused) return fail(error.message);
    throw error;
  }
}

function refuseUnusable(password: string): void {
  if (password === '') throw new PasswordRefused('the password is empty');
  // RFC 7617 §2 bars control characters from Basic credentials, and bcrypt would stop at a NUL.
  if (/\p{Cc}/u.test(password)) {
    throw new PasswordRefused(
      'the password must not hold control characters, such as NUL or a tab',
    );
  }
  const bytes = Buffer.byteLength(password);
  if (bytes > MAX_PASSWORD_BYTES) {
    throw new PasswordRefused(
      `the password has ${bytes} bytes; bcrypt reads no more than ${MAX_PASSWORD_BYTES}, and the rest would not count`,
    );
  }
}

/** Takes one line, with or without its end; more lines are refused, because only one could be meant. */
async function readFromPipe(input: PasswordInput): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of input) {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part;
    parts.push(bytes);
    length += bytes.byteLength;
    if (length > LONGEST_INPUT) throw new PasswordRefused('the password is far too long');
  }
  const bytes = Buffer.concat(parts);
  if (!isUtf8(bytes)) throw new PasswordRefused(NOT_UTF8);
  const password = new TextDecoder().decode(bytes).replace(/\r?\n$/, '');
  if (!password.includes('\n')) return password;
  throw new PasswordRefused('standard input must hold one line, the password');
}

const NOT_UTF8 = 'the password must be UTF-8 text';

/** Asks twice, and shows nothing of what is typed. */
async function readFromTerminal(input: PasswordInput, prompts: TextOutput): Promise<string> {
  const characters = charactersOf(input);
  input.setRawMode?.(true);
  try {
    const password = await askForLine('Password: ', characters, prompts);
    const again = await askForLine('The same password again: ', characters, prompts);
    if (again !== password) throw new PasswordRefused('the two passwords are not the same');
    // What the decoder makes of bytes that are not UTF-8.
    if (password.includes('\ufffd')) throw new PasswordRefused(NOT_UTF8);
    return password;
  } finally {
    input.setRawMode?.(false);
    await characters.return(undefined);
  }
}

/** One character at a time, so that what is pasted beyond the first line is kept for the second. */
async function* charactersOf(input: PasswordInput): AsyncGenerator<string, undefined> {
  const decoder = new StringDecoder('utf8');
  for await (const part of input) {
    yield* typeof part === 'string' ? part : decoder.write(Buffer.from(part));
  }
  return undefined;
}

/** The keys that a terminal in raw mode leaves to the program. */
const ENTER = new Set(['\r', '\n']);
const BACKSPACE = new Set(['\u007f', '\b']);
const CANCEL = '\u0003';
const END_OF_INPUT = '\u0004';
const CLEAR_LINE = '\u0015';

/** The line without its end. Ctrl-C, Ctrl-D and the end of the input cancel the command. */
async function askForLine(
  prompt: string,
  characters: AsyncGenerator<string, undefined>,
  prompts: TextOutput,
): Promise<string> {
  prompts.write(prompt);
  const line: string[] = [];
  for (;;) {
    const { value: character, done } = await characters.next();
    if (done === true || character === CANCEL || character === END_OF_INPUT) {
      prompts.write('\n');
      throw new PasswordRefused('cancelled');
    }
    if (ENTER.has(character)) {
      prompts.write('\n');
      return line.join('');
    }
    if (BACKSPACE.has(character)) line.pop();
    else if (character === CLEAR_LINE) line.length = 0;
    else if (line.length < LONGEST_INPUT) line.push(character);
  }
}
