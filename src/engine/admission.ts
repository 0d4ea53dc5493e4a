import { type Waiter, waitIn, type WaitQueue } from '../common/semaphore.ts';
import { GatewayError } from '../common/errors.ts';

export type Admission = ReturnType<typeof createAdmission>;

/** Requests of one user. */
interface User {
  readonly name: string;
  atEngine: number;
  /** The turn of its last one. */
  turn: number;
  readonly waiting: WaitQueue<Waiter>;
}

/**
 * Called when a user needs a place that was given to what no user waits for: true where it is given up in that very turn;
 * false where users have joined what it is for, so that from then on it counts as theirs.
 */
export type Overtake = () => boolean;

/** The part of the queue that is left to those who have few waiting yet. */
const OF_OTHERS = 1 / 4;

/**
 * The next request at the engine is of the user who has the fewest there, of equals of the one who
 * has waited longest for a turn. No user can fill the queue alone: its last quarter is for those
 * who have not three quarters of it. What no user waits for gets a place only while no user does, and gives it up for one.
 */
export function createAdmission(
  limits: Readonly<Record<'concurrency' | 'per_user' | 'queue', number>>,
) {
  const users = createUsers(limits);
  const background = new Set<Overtake>();
  const lowest: WaitQueue<Waiter> = [];
  /** The background included. */
  let atEngine = 0;

  /** Ends the stay of one that was counted. */
  const endOf = (user: User) =>
    once(() => {
      users.uncount(user);
      atEngine -= 1;
      letNextIn();
    });

  function letNextIn(): void {
    const next = users.next();
    if (next === undefined) return wakeLowest();
    const [first] = next.waiting;
    users.count(next);
    atEngine += 1;
    first?.enter();
  }

  const isIdle = () => atEngine < limits.concurrency && users.waiting() === 0;
  /** They look again by themselves, a moment later: a user may come first. */
  function wakeLowest(): void {
    if (isIdle()) for (const one of lowest.splice(0)) one.enter();
  }

  /** Whether a place is free now that was one of the background. */
  function overtake(): boolean {
    const isFree = background.values().some((give) => background.delete(give) && give());
    if (isFree) atEngine -= 1;
    return isFree;
  }

  /** @returns ends the stay at the engine; undefined where there is no place now */
  function enter(name: string): (() => void) | undefined {
    const user = users.named(name);
    if (!users.mayEnter(user)) return undefined;
    if (atEngine >= limits.concurrency && !overtake()) return undefined;
    users.count(user);
    atEngine += 1;
    return endOf(user);
  }

  return {
    enter,
    /**
     * Resolves to what ends the stay at the engine, once.
     * @param patienceMs how long it may wait
     * @throws GatewayError `overloaded`; the signal's reason when that aborts
     */
    async admit(name: string, signal: AbortSignal, patienceMs: number): Promise<() => void> {
      signal.throwIfAborted();
      const entered = enter(name);
      if (entered !== undefined) return entered;
      const user = users.join(name);
      while (overtake());
      const late = { after: patienceMs, error: tooLate };
      await waitIn(user.waiting, {}, signal, late).catch((reason: unknown) => {
        users.forget(user);
        wakeLowest();
        throw reason;
      });
      const end = endOf(user);
      // The client may have gone in the very turn in which its own came.
      if (!signal.aborted) return end;
      end();
      throw signal.reason;
    },
    /**
     * Resolves to what ends the stay at the engine, as soon as there is a place that no user wants.
     * @throws the signal's reason
     */
    async admitBackground(overtaken: Overtake, signal: AbortSignal): Promise<() => void> {
      signal.throwIfAborted();
      while (!isIdle()) await waitIn(lowest, {}, signal);
      let isOver = false;
      const give = () => (isOver = overtaken());
      background.add(give);
      atEngine += 1;
      return () => {
        if (isOver) return;
        isOver = true;
        background.delete(give);
        atEngine -= 1;
        letNextIn();
      };
    },
    usage: () => ({ atEngine, waiting: users.waiting() }),
  };
}

/** Users who have requests at the engine, or waiting for it. */
function createUsers({ per_user, queue }: Readonly<Record<'per_user' | 'queue', number>>) {
  const mostOfOne = queue - Math.floor(queue * OF_OTHERS);
  const users = new Map<string, User>();
  let turns = 0;
  const nextTurn = () => (turns += 1);
  const waiting = () => users.values().reduce((sum, user) => sum + user.waiting.length, 0);
  const named = (name: string): User =>
    users.get(name) ?? { name, atEngine: 0, turn: nextTurn(), waiting: [] };
  const mayEnter = (user: User) => user.atEngine < per_user;

  function forget(user: User): void {
    // Who gave up is told a moment later: another request of that name may be waiting by then.
    const isCurrent = users.get(user.name) === user;
    if (isCurrent && user.atEngine === 0 && user.waiting.length === 0) users.delete(user.name);
  }

  return {
    mayEnter,
    forget,
    named,
    waiting,
    /** @returns the user whose request is to wait @throws GatewayError `overloaded` */
    join(name: string): User {
      const user = named(name);
      if (waiting() >= queue) throw overloaded('Too many requests');
      if (user.waiting.length >= mostOfOne) throw overloaded('Too many of your requests');
      users.set(name, user);
      return user;
    },
    count(user: User): void {
      users.set(user.name, user);
      user.turn = nextTurn();
      user.atEngine += 1;
    },
    uncount(user: User): void {
      user.atEngine -= 1;
      forget(user);
    },
    /** The user whose request is the next at the engine. */
    next(): User | undefined {
      let next: User | undefined;
      for (const user of users.values()) {
        const isReady = user.waiting.length > 0 && mayEnter(user);
        if (isReady && (next === undefined || isBefore(user, next))) next = user;
      }
      return next;
    },
  };
}

/** Turns go to the user who has fewer at the engine, or as many and had the last turn longer ago. */
const isBefore = (one: User, other: User): boolean =>
  (one.atEngine - other.atEngine || one.turn - other.turn) < 0;

function once(end: () => void): () => void {
  let isOver = false;
  return () => {
    if (isOver) return;
    isOver = true;
    end();
  };
}

const overloaded = (what: string) => refused(`${what} wait for the engine; try again.`);

/** The error of one that has waited for its place as long as it may. */
const tooLate = () => refused('No place at the engine came free in time; try again.');

const refused = (message: string): GatewayError =>
  new GatewayError('overloaded', message, { retryAfter: 5 });
