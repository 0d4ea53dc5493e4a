import {
  admittedBy,
  UNCHARGED,
  type LoginAdmission,
  type LoginThrottle,
} from '../auth/login-throttle.ts';
import { WRITE_DEADLINE } from './deadlines.ts';
import type { Link } from './link.ts';
import { LOGINS } from './primary-logins.ts';

/**
 * Asks the primary process, which counts the attempts at all workers.
 * @param own decides while the primary process does not answer. What it lets through it counts by itself: beside
 *   what all workers together may try, each one may try so much then, and never more.
 */
export function loginsAtPrimary(link: Pick<Link, 'call'>, own: LoginThrottle): LoginAdmission {
  return {
    async admit(name, clientAddress) {
      const ask = (method: string) =>
        link.call(LOGINS, method, [name, clientAddress], WRITE_DEADLINE);
      // What is lost of this costs a user one of his tries.
      const tell = (method: string) => void ask(method).catch(() => {});
      try {
        const wait = await ask('admit');
        if (!isSeconds(wait)) throw new Error('no number of seconds');
        if (wait > 0) return { ...UNCHARGED, wait };
        return {
          wait,
          succeeded: () => tell('succeeded'),
          abandoned: () => tell('abandoned'),
        };
      } catch {
        return admittedBy(own, name, clientAddress);
      }
    },
  };
}

function isSeconds(value: unknown): value is number {
  return typeof value === 'number' && value >= 0;
}
