import {
  admittedBy,
  UNCHARGED,
  type LoginAdmission,
  type LoginThrottle,
} from '../auth/login-throttle.ts';
import { WRITE_DEADLINE } from './deadlines.ts';
import type { Link, Service } from './link.ts';

/** The name of the service that counts attempts to log in. */
export const LOGINS = 'logins';

/**
 * The throttle of all workers, in the primary process: guesses at several workers are counted once. It outlives the
 * workers, so that a crash gives no more tries.
 */
export function loginsService(throttle: LoginThrottle): Service {
  return {
    admit: (name, clientAddress) => throttle.admit(String(name), String(clientAddress)),
    succeeded: (name, clientAddress) => throttle.succeeded(String(name), String(clientAddress)),
    abandoned: (name, clientAddress) => throttle.abandoned(String(name), String(clientAddress)),
  };
}

/**
 * Asks the primary process, which counts the attempts at all workers.
 * @param own decides while the primary process does not answer, and counts what it lets through: beside what all workers
 *   together may try, each one may try so much then, and never more
 */
export function loginsAtPrimary(link: Pick<Link, 'call'>, own: LoginThrottle): LoginAdmission {
  return {
    async admit(name, clientAddress) {
      const ask = (method: string) =>
        link.call(LOGINS, method, [name, clientAddress], WRITE_DEADLINE);
      // What is lost of this costs a user one of his tries.
      const tell = (method: string) => void ask(method).catch(() => {});
      const wait = await ask('admit').catch(() => undefined);
      if (typeof wait !== 'number' || !(wait >= 0)) return admittedBy(own, name, clientAddress);
      if (wait > 0) return { ...UNCHARGED, wait };
      return { wait, succeeded: () => tell('succeeded'), abandoned: () => tell('abandoned') };
    },
  };
}
