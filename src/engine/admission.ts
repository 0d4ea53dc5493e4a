import { createGate, type Gate } from '../gate.ts';
import { GatewayError } from '../errors.ts';

/** Decides who may be at the engine now, who waits, and who is sent away. */
export interface Admission {
  /**
   * Resolves to the function that gives the place back.
   * @throws GatewayError `overloaded` when too many wait already; the signal's reason when that aborts
   */
  admit(user: string, signal: AbortSignal): Promise<() => void>;
  /**
   * The same without a promise, which costs more than the rest of it, where the request need not wait. Undefined where
   * it must or the signal has aborted: then nothing has changed. It overtakes nobody.
   */
  tryAdmit(user: string, signal: AbortSignal): (() => void) | undefined;
  usage(): { readonly atEngine: number; readonly waiting: number };
}

/** Requests of one user. */
interface User {
  readonly gate: Gate;
  requests: number;
  waiting: number;
}

/** The part of the queue that is left to those who have few waiting yet. */
const OF_OTHERS = 1 / 4;

/**
 * No user can fill the queue alone: its last quarter is for those who have not three quarters of it already.
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
  const users = new Map<string, User>();
  const mostOfOne = limits.queue - Math.floor(limits.queue * OF_OTHERS);
  let requests = 0;
  /** Requests that only the limit of all can hold up, not the one of their user. */
  let entitled = 0;

  const atEngine = () => Math.min(entitled, limits.concurrency);
  const waiting = () => requests - atEngine();

  /**
   * Counts a request at once, wherever it waits afterwards.
   * @throws GatewayError `overloaded` when it would be one too many
   */
  function register(user: string): {
    readonly gate: Gate;
    /** It waits no longer. */
    entered(): void;
    unregister(): void;
  } {
    const known = users.get(user);
    const isEntitled = (known?.requests ?? 0) < limits.per_user;
    const mustWait = !isEntitled || entitled >= limits.concurrency;
    if (mustWait && waiting() >= limits.queue) {
      throw overloaded('Too many requests wait for the engine; try again.');
    }
    const own = known ?? { gate: createGate(limits.per_user), requests: 0, waiting: 0 };
    if (mustWait && own.waiting >= mostOfOne) {
      throw overloaded('Too many of your requests wait for the engine; try again.');
    }
    users.set(user, own);
    own.requests += 1;
    requests += 1;
    if (isEntitled) entitled += 1;
    if (mustWait) own.waiting += 1;
    let waits = mustWait;
    const entered = () => {
      if (waits) own.waiting -= 1;
      waits = false;
    };
    return {
      gate: own.gate,
      entered,
      unregister() {
        entered();
        own.requests -= 1;
        requests -= 1;
        if (own.requests < limits.per_user) entitled -= 1;
        if (own.requests === 0) users.delete(user);
      },
    };
  }

  return {
    tryAdmit(user, signal) {
      const { requests: own = 0 } = users.get(user) ?? {};
      // Whoever is entitled has a place, also where it has not been taken yet.
      const mustWait = own >= limits.per_user || entitled >= limits.concurrency;
      if (mustWait || signal.aborted) return undefined;
      const registered = register(user);
      const leaveOwn = registered.gate.tryEnter();
      const leaveAll = everybody.tryEnter();
      let left = false;
      return () => {
        if (left) return;
        left = true;
        leaveAll?.();
        leaveOwn?.();
        registered.unregister();
      };
    },
    async admit(user, signal) {
      const registered = register(user);
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
        registered.entered();
      } catch (error) {
        leave();
        throw error;
      }
      return leave;
    },
    usage: () => ({ atEngine: atEngine(), waiting: waiting() }),
  };
}

function overloaded(message: string): GatewayError {
  return new GatewayError('overloaded', message, { retryAfter: 5 });
}
