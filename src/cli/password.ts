import { createInterface } from 'node:readline';
import { addAbortSignal, type Readable, Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';

export interface PasswordPrompt {
  readonly input: Readable & { readonly isTTY?: boolean | undefined };
  readonly prompts: { write(text: string): unknown };
  /** Undefined where the signal ends the command by itself. */
  readonly stopped?: AbortSignal;
}

export class PasswordRefused extends Error {}

/** Asks on a terminal without showing input. Ctrl-C, Ctrl-D and the end of the input cancel. */
export async function askHidden(
  { input, prompts, stopped: signal }: PasswordPrompt,
  ...questions: string[]
) {
  const output = new Writable({ write: (_shown, _encoding, done) => done() });
  const options = { terminal: true, historySize: 0, ...(signal && { signal }) };
  const terminal = createInterface({ input, output, ...options });
  const lines = terminal[Symbol.asyncIterator]();
  const answers: string[] = [];
  try {
    for (const question of questions) {
      prompts.write(answers.length > 0 ? `\n${question}` : question);
      const { value, done } = await lines.next();
      if (done) throw new PasswordRefused('cancelled');
      answers.push(value);
    }
    return answers;
  } finally {
    terminal.close();
    // By then the terminal shows again what is typed.
    prompts.write('\n');
  }
}

/** Reads all of standard input, after a password too. @throws Error when the command is stopped */
export async function readInput({ input, stopped }: Required<PasswordPrompt>) {
  // Behind a password it is paused.
  input.resume();
  try {
    return await buffer(addAbortSignal(stopped, input));
  } catch (error) {
    throw stopped.aborted ? new Error('cancelled') : error;
  }
}

/** @throws PasswordRefused for a password that no server can be given */
export function refuseUnusable(password: string): void {
  if (password === '') throw new PasswordRefused('the password is empty');
  // Decoders write this for bytes that are not UTF-8.
  if (password.includes('\ufffd')) throw new PasswordRefused('the password must be UTF-8 text');
  // RFC 7617 §2 bars control characters from Basic credentials, and bcrypt would stop at a NUL.
  const controls = 'the password must not hold control characters, such as NUL or a tab';
  if (/\p{Cc}/u.test(password)) throw new PasswordRefused(controls);
}
