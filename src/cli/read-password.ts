/** Reads a password, from a terminal without showing it, or from a pipe. */

import { StringDecoder } from 'node:string_decoder';

/** What is needed of standard input. A terminal has `isTTY` and `setRawMode`. */
export interface PasswordInput extends AsyncIterable<Uint8Array | string> {
  readonly isTTY?: boolean | undefined;
  setRawMode?(mode: boolean): unknown;
}

/** What is needed of an output. */
export interface TextOutput {
  write(text: string): unknown;
}

export type PasswordReading =
  | { readonly ok: true; readonly password: string }
  | {
      readonly ok: false;
      readonly reason: 'cancelled' | 'different' | 'several-lines' | 'too-long' | 'encoding';
    };

/** More is neither a password nor a slip of the finger. */
const LONGEST_INPUT = 4096;

/** Reads a password in whichever way the input allows. */
export function readPassword(input: PasswordInput, prompts: TextOutput): Promise<PasswordReading> {
  return input.isTTY === true ? readFromTerminal(input, prompts) : readFromPipe(input);
}

/** Takes one line, with or without its end; more lines are refused, because only one could be meant. */
async function readFromPipe(input: PasswordInput): Promise<PasswordReading> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of input) {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part;
    parts.push(bytes);
    length += bytes.byteLength;
    if (length > LONGEST_INPUT) return { ok: false, reason: 'too-long' };
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(parts));
  } catch {
    return { ok: false, reason: 'encoding' };
  }
  const password = text.replace(/\r?\n$/, '');
  return password.includes('\n') ? { ok: false, reason: 'several-lines' } : { ok: true, password };
}

async function readFromTerminal(
  input: PasswordInput,
  prompts: TextOutput,
): Promise<PasswordReading> {
  const characters = charactersOf(input);
  input.setRawMode?.(true);
  try {
    const password = await askForLine('Password: ', characters, prompts);
    if (password === undefined) return { ok: false, reason: 'cancelled' };
    const again = await askForLine('The same password again: ', characters, prompts);
    if (again === undefined) return { ok: false, reason: 'cancelled' };
    if (again !== password) return { ok: false, reason: 'different' };
    return password.includes(REPLACEMENT)
      ? { ok: false, reason: 'encoding' }
      : { ok: true, password };
  } finally {
    input.setRawMode?.(false);
    await characters.return(undefined);
  }
}

/** What the decoder makes of bytes that are not UTF-8. */
const REPLACEMENT = '\ufffd';

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

/** The line without its end; undefined when it was cancelled (Ctrl-C, Ctrl-D) or the input ended. */
async function askForLine(
  prompt: string,
  characters: AsyncGenerator<string, undefined>,
  prompts: TextOutput,
): Promise<string | undefined> {
  prompts.write(prompt);
  const line: string[] = [];
  for (;;) {
    const { value: character, done } = await characters.next();
    if (done === true || character === CANCEL || character === END_OF_INPUT) {
      prompts.write('\n');
      return undefined;
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
