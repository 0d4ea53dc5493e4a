import { type Waiting, waitIn } from '../common/body-account.ts';
import { GatewayError } from '../common/errors.ts';

export type Admission = ReturnType<typeof createAdmission>;

/** Requests of one user. */
interface User {
  readonly name: string;
  atEngine: number;
  readonly waiting: Set<Waiting>;
}

/** The part of the queue that is left to those who have few waiting yet. */
const OF_OTHERS = 1 / 4;

/**
 * The next request at the engine is of the user who has the fewest there, of equals of the one who
 * has waited longest for a turn. No user can fill the queue alone: its last quarter is for those
 * who have not three quarters of it.
 */
export function createAdmission(
  limits: Readonly<Record<'concurrency' | 'per_user' | 'queue', number>>,
) {
  /** Those whose last turn is longest ago come first. */
  const users = new Map<string, User>();
  const mostOfOne = limits.queue - Math.floor(limits.queue * OF_OTHERS);
  let atEngine = 0;
  const mayEnter = (user: User) => user.atEngine < limits.per_user;
  const waiting = () => users.values().reduce((sum, user) => sum + user.waiting.size, 0);

  function forget(user: User): void {
    if (user.atEngine === 0 && user.waiting.size === 0) users.delete(user.name);
  }

  function count(user: User): void {
    users.delete(user.name);
    users.set(user.name, user);
    user.atEngine += 1;
    atEngine += 1;
  }

  /** What ends the stay of one that was counted. */
  function endOf(user: User): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      user.atEngine -= 1;
      atEngine -= 1;
      forget(user);
      letNextIn();
    };
  }

  function letNextIn(): void {
    let next: User | undefined;
    for (const user of users.values()) {
      const isReady = user.waiting.size > 0 && mayEnter(user);
      if (isReady && user.atEngine < (next?.atEngine ?? Infinity)) next = user;
    }
    if (next === undefined) return;
    const [first] = next.waiting;
    count(next);
    first?.enter();
  }

  /** What ends the stay at the engine; undefined where there is no place now. */
  function enter(name: string): (() => void) | undefined {
    const user: User = users.get(name) ?? { name, atEngine: 0, waiting: new Set() };
    if (atEngine >= limits.concurrency || !mayEnter(user)) return undefined;
    count(user);
    return endOf(user);
  }

  return {
    enter,
    /**
     * Resolves to what ends the stay at the engine, once.
     * @throws GatewayError `overloaded`; the signal's reason when that aborts
     */
    async admit(name: string, signal: AbortSignal): Promise<() => void> {
      signal.throwIfAborted();
      const entered = enter(name);
      if (entered !== undefined) return entered;
      const user: User = users.get(name) ?? { name, atEngine: 0, waiting: new Set() };
      if (waiting() >= limits.queue) throw overloaded('Too many requests');
      if (user.waiting.size >= mostOfOne) throw overloaded('Too many of your requests');
      users.set(name, user);
      await waitIn(user.waiting, {}, signal).catch((reason: unknown) => {
        forget(user);
        throw reason;
      });
      const end = endOf(user);
      // The client may have gone in the very turn in which its own came.
      if (!signal.aborted) return end;
      end();
      throw signal.reason;
    },
    usage: () => ({ atEngine, waiting: waiting() }),
  };
}

function overloaded(what: string): GatewayError {
  const message = `${what} wait for the engine; try again.`;
  return new GatewayError('overloaded', message, { retryAfter: 5 });
}
