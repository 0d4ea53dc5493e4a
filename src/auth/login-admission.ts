import type { LoginThrottle } from './login-throttle.ts';

/** Leave for one attempt to log in, or for how long there is none. */
export interface Admission {
  /** 0, or the seconds after which it makes sense to ask again; then nothing was charged. */
  readonly wait: number;
  /** The attempt was right. */
  succeeded(): void;
  /** The attempt came to nothing, without telling whether it was right: it is given back. */
  abandoned(): void;
}

/**
 * Port: who lets attempts to log in through. What becomes of an attempt is told to whoever charged it: nothing is
 * given back where nothing was taken.
 */
export interface LoginAdmission {
  /** Asks leave for one attempt, and charges it in the same step. Never rejects. */
  admit(name: string, clientAddress: string): Promise<Admission>;
  /** Nobody asks any more. */
  close(): void;
}

/** Of an attempt that nobody counts. */
export const UNCHARGED: Admission = { wait: 0, succeeded() {}, abandoned() {} };

/** What one throttle says. */
export function admittedBy(
  throttle: LoginThrottle,
  name: string,
  clientAddress: string,
): Admission {
  const wait = throttle.admit(name, clientAddress);
  if (wait > 0) return { ...UNCHARGED, wait };
  return {
    wait,
    succeeded: () => throttle.succeeded(name, clientAddress),
    abandoned: () => throttle.abandoned(name, clientAddress),
  };
}

/** Of a gateway in one process: its own throttle. */
export function ownAdmission(throttle: LoginThrottle): LoginAdmission {
  return {
    admit: async (name, clientAddress) => admittedBy(throttle, name, clientAddress),
    close: () => throttle.clear(),
  };
}
