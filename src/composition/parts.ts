import type { Clock } from '../clock.ts';
import type { Emit } from '../events.ts';

/** What the whole house is built with and a test may want to hold. */
export interface Parts {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  /** That many random bytes, fit for keys. */
  readonly randomBytes: (count: number) => Buffer;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly emit: Emit;
}

/** A random token of 128 bits, for epochs and ids. */
export function newToken({ randomBytes }: Pick<Parts, 'randomBytes'>): string {
  return randomBytes(16).toString('base64url');
}
