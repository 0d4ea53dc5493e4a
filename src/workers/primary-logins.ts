import type { LoginThrottle } from '../auth/login-throttle.ts';
import type { Service } from './link.ts';

/** The name of the service that counts attempts to log in. */
export const LOGINS = 'logins';

/**
 * The throttle of all workers, in the primary process: who guesses at several workers is counted once. It outlives
 * the workers, so that nobody gains tries by a crash.
 */
export function loginsService(throttle: LoginThrottle): Service {
  return {
    admit: (name, clientAddress) => throttle.admit(text(name), text(clientAddress)),
    succeeded: (name, clientAddress) => throttle.succeeded(text(name), text(clientAddress)),
    abandoned: (name, clientAddress) => throttle.abandoned(text(name), text(clientAddress)),
  };
}

function text(value: unknown): string {
  if (typeof value !== 'string') throw new Error('a name and an address are expected');
  return value;
}
