import { compare } from 'bcrypt';

/** bcrypt reads this many bytes of a password and no more. */
export const MAX_PASSWORD_BYTES = 72;

/** Below 4 there is no bcrypt; one comparison of cost 15 already takes seconds. */
export const MIN_COST = 4;
export const MAX_COST = 15;

/**
 * `$2a$`, `$2b$` or `$2y$`, the cost, 22 characters of salt, 31 of digest. The last character of salt and
 * digest carries 2 and 4 bits, so few characters are possible there; with any other the comparison, which
 * writes the hash anew and compares text, could never succeed.
 */
const BCRYPT = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{30}[.CGKOSWaeimquy26]$/;

const ALPHABET = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** Compares one password with one hash. Resolves to false for a wrong password; rejects when it cannot tell. */
export type ComparePassword = (password: string, hash: string) => Promise<boolean>;

/** The cost of a bcrypt hash, or undefined when the text is none. The cost may lie outside of the limits. */
export function bcryptCost(hash: string): number | undefined {
  const cost = BCRYPT.exec(hash)?.[1];
  return cost === undefined ? undefined : Number(cost);
}

/**
 * Whether bcrypt can tell this password from every other. It cannot if it is longer than 72 bytes of UTF-8,
 * because the rest is not read, nor if it holds a NUL, where other programs stop reading.
 */
export function isComparable(password: string): boolean {
  return Buffer.byteLength(password, 'utf8') <= MAX_PASSWORD_BYTES && !password.includes('\0');
}

/**
 * Compares on the thread pool of libuv. `$2y$`, which htpasswd and PHP write, is the algorithm that the
 * library knows as `$2b$`; under its own name the library answers false.
 */
export const comparePassword: ComparePassword = (password, hash) =>
  compare(password, hash.startsWith('$2y$') ? `$2b$${hash.slice(4)}` : hash);

/**
 * A hash that no known password has, for the comparison that an unknown user name must cost.
 *
 * @param cost - bcrypt cost, so that the comparison takes as long as that of a real user.
 * @param random - gives that many random bytes.
 */
export function createDecoyHash(cost: number, random: (bytes: number) => Uint8Array): string {
  const characters = Array.from(random(53), (byte) => ALPHABET[byte & 0x3f]);
  characters[21] = '.';
  characters[52] = '.';
  return `$2b$${String(cost).padStart(2, '0')}$${characters.join('')}`;
}
