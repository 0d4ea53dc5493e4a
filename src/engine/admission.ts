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
  const users = new Map<string, { readonly gate: Gate; requests: number }>();
  let requests = 0;
  /** Requests that only the limit of all can hold up, not the one of their user. */
  let entitled = 0;

  const atEngine = () => Math.min(entitled, limits.concurrency);
  const waiting = () => requests - atEngine();

  /** Counts a request at once, wherever it waits afterwards. Undefined when it would be one too many. */
  function register(user: string): { readonly gate: Gate; unregister(): void } | undefined {
    const known = users.get(user);
    const isEntitled = (known?.requests ?? 0) < limits.per_user;
    const mustWait = !isEntitled || entitled >= limits.concurrency;
    if (mustWait && waiting() >= limits.queue) return undefined;

    const own = known ?? { gate: createGate(limits.per_user), requests: 0 };
    users.set(user, own);
    own.requests += 1;
    requests += 1;
    if (isEntitled) entitled += 1;
    return {
      gate: own.gate,
      unregister() {
        own.requests -= 1;
        requests -= 1;
        if (own.requests < limits.per_user) entitled -= 1;
        if (own.requests === 0) users.delete(user);
      },
    };
  }

  return {
    async admit(user, signal) {
      const registered = register(user);
      if (registered === undefined) {
        throw new GatewayError('overloaded', 'Too many requests wait for the engine; try again.', {
          retryAfter: 5,
        });
      }
      const steps = [registered.unregister];
      const leave = () => {
        for (const step of steps.splice(0).toReversed()) step();
      };
      try {
        // One's own gate comes first, so that a busy user waits there and not in a place of all.
        steps.push(await registered.gate.enter(signal));
        steps.push(await everybody.enter(signal));
        // The client may have gone in the very turn in which its place came.
        signal.throwIfAborted();
      } catch (error) {
        leave();
        throw error;
      }
      return leave;
    },
    usage: () => ({ atEngine: atEngine(), waiting: waiting() }),
  };
}
