/** The command that makes a line of the users file. */

import { MAX_PASSWORD_BYTES } from '../auth/password-hash.ts';
import { userName } from '../config/kinds.ts';
import { readPassword } from './read-password.ts';
import type { PasswordInput, PasswordReading, TextOutput } from './read-password.ts';

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

/** Two to the tenth rounds, about a tenth of a second; what bcrypt libraries take when nobody says otherwise. */
const COST = 10;

const FAILED: Readonly<Record<Extract<PasswordReading, { ok: false }>['reason'], string>> = {
  cancelled: 'cancelled',
  different: 'the two passwords are not the same',
  'several-lines': 'standard input must hold one line, the password',
  'too-long': 'the password is far too long',
  encoding: 'the password must be UTF-8 text',
};

/** What is wrong with a password, as a sentence; undefined when it can be used. */
function passwordProblem(password: string): string | undefined {
  if (password === '') return 'the password is empty';
  // RFC 7617 §2 bars control characters from Basic credentials, and bcrypt would stop at a NUL.
  if (/\p{Cc}/u.test(password)) {
    return 'the password must not hold control characters, such as NUL or a tab';
  }
  const bytes = Buffer.byteLength(password);
  return bytes > MAX_PASSWORD_BYTES
    ? `the password has ${bytes} bytes; bcrypt reads no more than ${MAX_PASSWORD_BYTES}, and the rest would not count`
    : undefined;
}

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
  const reading = await readPassword(input, prompts);
  if (!reading.ok) return fail(FAILED[reading.reason]);
  const problem = passwordProblem(reading.password);
  if (problem !== undefined) return fail(problem);
  // The same algorithm under the name that htpasswd -B writes and reads.
  const hashed = (await hash(reading.password, COST)).replace(/^\$2b\$/, '$2y$');
  output.write(`${name === undefined ? '' : `${name}:`}${hashed}\n`);
  return 0;
}
