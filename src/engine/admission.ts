import { GatewayError } from '../common/errors.ts';

/** Decides which requests may be at the engine now, which wait, and which are refused. */
export type Admission = ReturnType<typeof createAdmission>;

/** Requests of one user. */
interface User {
  atEngine: number;
  /** Each is called when its turn has come. */
  readonly waiting: Set<() => void>;
}

/** The part of the queue that is left to those who have few waiting yet. */
const OF_OTHERS = 1 / 4;

/**
 * The next request is one of the user who has the fewest at the engine, of equals one of the user who has waited longest for
 * a turn. No user can fill the queue alone: its last quarter is for those who have not three quarters of it already.
 * @param limits.concurrency requests at the engine at one time
 * @param limits.per_user of these, for one user
 * @param limits.queue requests that may wait
 */
export function createAdmission(limits: {
  readonly concurrency: number;
  readonly per_user: number;
  readonly queue: number;
}) {
  /** Those whose last turn is longest ago come first. */
  const users = new Map<string, User>();
  const mostOfOne = limits.queue - Math.floor(limits.queue * OF_OTHERS);
  let atEngine = 0;
  let waiting = 0;

  function leave(name: string, user: User): void {
    if (user.atEngine === 0 && user.waiting.size === 0) users.delete(name);
  }

  function enter(name: string, user: User): () => void {
    users.delete(name);
    users.set(name, user);
    user.atEngine += 1;
    atEngine += 1;
    let left = false;
    return () => {
      if (left) return;
      left = true;
      user.atEngine -= 1;
      atEngine -= 1;
      leave(name, user);
      letNextIn();
    };
  }

  function letNextIn(): void {
    let next: User | undefined;
    for (const user of users.values()) {
      if (user.waiting.size === 0 || user.atEngine >= limits.per_user) continue;
      if (next === undefined || user.atEngine < next.atEngine) next = user;
    }
    const [start] = next?.waiting ?? [];
    start?.();
  }

  function wait(name: string, user: User, signal: AbortSignal): Promise<() => void> {
    if (waiting >= limits.queue) {
      throw overloaded('Too many requests wait for the engine; try again.');
    }
    if (user.waiting.size >= mostOfOne) {
      throw overloaded('Too many of your requests wait for the engine; try again.');
    }
    return new Promise((resolve, reject) => {
      const stop = () => {
        signal.removeEventListener('abort', giveUp);
        user.waiting.delete(start);
        waiting -= 1;
      };
      const start = () => {
        stop();
        resolve(enter(name, user));
      };
      const giveUp = () => {
        stop();
        leave(name, user);
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', giveUp, { once: true });
      user.waiting.add(start);
      users.set(name, user);
      waiting += 1;
    });
  }

  return {
    /**
     * Resolves to the function that ends the stay at the engine; calling it twice does no harm.
     * @throws GatewayError `overloaded` when too many wait already; the signal's reason when that aborts
     */
    async admit(name: string, signal: AbortSignal): Promise<() => void> {
      signal.throwIfAborted();
      const user: User = users.get(name) ?? { atEngine: 0, waiting: new Set() };
      const hasRoom = atEngine < limits.concurrency && user.atEngine < limits.per_user;
      if (hasRoom) return enter(name, user);
      const end = await wait(name, user, signal);
      // The client may have gone in the very turn in which its own came.
      if (!signal.aborted) return end;
      end();
      throw signal.reason;
    },
    usage: () => ({ atEngine, waiting }),
  };
}

function overloaded(message: string): GatewayError {
  return new GatewayError('overloaded', message, { retryAfter: 5 });
}
