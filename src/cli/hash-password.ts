import { MAX_PASSWORD_BYTES } from '../auth/users-file.ts';
import { isUserName, userName } from '../settings/kinds.ts';
import { askHidden, type PasswordPrompt, PasswordRefused, refuseUnusable } from './password.ts';

export interface HashPasswordParts extends PasswordPrompt {
  /** Takes the finished line and nothing else, so that it can be appended to a file. */
  readonly output: { write(text: string): unknown };
  /** bcrypt; the result begins with `$2b$` or `$2y$`. */
  readonly hash: (password: string, cost: number) => Promise<string>;
}

/** 2^10 rounds, about a tenth of a second: the default of bcrypt libraries. */
const COST = 10;
/** Longer input is neither a password nor a slip of the finger. */
const LONGEST_INPUT = 4096;

/** Writes `NAME:hash`, or the hash alone. @returns the exit status; `prompts` has the reason */
export async function hashPassword(name: string | undefined, parts: HashPasswordParts) {
  const { input, output, prompts, hash } = parts;
  try {
    if (name !== undefined && !isUserName(name)) {
      throw new PasswordRefused(`NAME must be ${userName.allowed}`);
    }
    const password = await (input.isTTY ? readFromTerminal(parts) : readFromPipe(parts));
    refuseUnusable(password);
    const bytes = Buffer.byteLength(password);
    if (bytes > MAX_PASSWORD_BYTES) {
      const rest = `bcrypt reads no more than ${MAX_PASSWORD_BYTES}, and the rest would not count`;
      throw new PasswordRefused(`the password has ${bytes} bytes; ${rest}`);
    }
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

/** Refuses several lines, since only one could be meant. */
async function readFromPipe({ input }: HashPasswordParts): Promise<string> {
  let text = '';
  for await (const part of input.setEncoding('utf8')) {
    text += part;
    if (text.length > LONGEST_INPUT) throw new PasswordRefused('the password is far too long');
  }
  // Some shells begin their output with a byte order mark.
  const password = text.replace(/^\ufeff/, '').replace(/\r?\n$/, '');
  if (!password.includes('\n')) return password;
  throw new PasswordRefused('standard input must hold one line, the password');
}

async function readFromTerminal(parts: HashPasswordParts): Promise<string> {
  const questions = ['Password: ', 'The same password again: '];
  const [password = '', again] = await askHidden(parts, ...questions);
  if (again !== password) throw new PasswordRefused('the two passwords are not the same');
  return password;
}
