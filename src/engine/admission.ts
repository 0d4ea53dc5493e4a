import { createGate, type Gate } from '../gate.ts';
import { GatewayError } from '../errors.ts';

/** Decides who may be at the engine now, who waits, and who is sent away. */
export interface Admission {
  /**
   * Resolves to the function that gives the place back.
   * @throws GatewayError `overloaded` when too many wait already; the signal's reason when that aborts
   */
  admit(user: string, signal: AbortSignal): Promise<() => void>;
  usage(): { readonly atEngine: number; readonly waiting: number };
}

/**
 * @param limits.concurrency requests at the engine at one time
 * @param limits.per_user of these, for one user
 * @param limits.queue requests that may wait
 */
export function createAdmission(limits: {
  readonly concurrency: number;
  readonly per_user: number;
  readonly queue: number;
}): Admission {
  const everybody = createGate(limits.concurrency);
  const users = new Map<string, { gate: Gate; requests: number }>();
  let atEngine = 0;
  let waiting = 0;

  function userGate(user: string): { gate: Gate; requests: number } {
    const known = users.get(user) ?? { gate: createGate(limits.per_user), requests: 0 };
    users.set(user, known);
    return known;
  }

  return {
    async admit(user, signal) {
      const own = userGate(user);
      const mustWait = own.requests >= limits.per_user || atEngine + waiting >= limits.concurrency;
      if (mustWait && waiting >= limits.queue) {
        if (own.requests === 0) users.delete(user);
        throw new GatewayError('overloaded', 'Too many requests wait for the engine; try again.', {
          retryAfter: 5,
        });
      }
      own.requests += 1;
      waiting += 1;
      const leaves: (() => void)[] = [];
      const leave = () => {
        for (const step of leaves.toReversed()) step();
        own.requests -= 1;
        if (own.requests === 0) users.delete(user);
      };
      try {
        // One's own gate comes first, so that a busy user waits there and not in a place of all.
        leaves.push(await own.gate.enter(signal));
        leaves.push(await everybody.enter(signal));
      } catch (error) {
        leave();
        throw error;
      } finally {
        waiting -= 1;
      }
      atEngine += 1;
      let left = false;
      return () => {
        if (left) return;
        left = true;
        atEngine -= 1;
        leave();
      };
    },
    usage: () => ({ atEngine, waiting }),
  };
}
