import { type Waiter, waitIn, type WaitQueue } from '../common/semaphore.ts';
import { GatewayError } from '../common/errors.ts';
import { onlyOnce } from '../common/in-turn.ts';

export type Admission = ReturnType<typeof createAdmission>;

interface User {
  readonly name: string;
  atEngine: number;
  turn: number;
  readonly waiting: WaitQueue<Waiter>;
}

/**
 * Called when a user needs a place of background work: true if it gives the place up at once, false
 * if users have joined the work, so that the place counts as theirs.
 */
export type Overtake = () => boolean;

const OF_OTHERS = 1 / 4;

/**
 * Gives the next place to the user with the fewest requests at the engine, then to the longest
 * without a turn. The last quarter of the queue is for users who do not fill the rest. Background
 * work gets a place only while no user wants one, and gives it up for one.
 */
export function createAdmission(
  limits: Readonly<Record<'concurrency' | 'per_user' | 'queue', number>>,
) {
  const users = createUsers(limits);
  const background = new Set<Overtake>();
  const lowest: WaitQueue<Waiter> = [];
  let atEngine = 0;

  const endOf = (user: User) =>
    onlyOnce(() => {
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
  /** Wakes background work, which looks again by itself, since a user may come first. */
  function wakeLowest(): void {
    if (isIdle()) for (const one of lowest.splice(0)) one.enter();
  }

  function overtake(): boolean {
    const isFree = background.values().some((give) => background.delete(give) && give());
    if (isFree) atEngine -= 1;
    return isFree;
  }

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
    /** @throws GatewayError `overloaded`; the signal's reason */
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
      // The client may have gone in the turn in which its own came.
      if (!signal.aborted) return end;
      end();
      throw signal.reason;
    },
    /** Waits for a place that no user wants. @throws the signal's reason */
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
    // By now another request of that name may be waiting.
    const isCurrent = users.get(user.name) === user;
    if (isCurrent && user.atEngine === 0 && user.waiting.length === 0) users.delete(user.name);
  }

  return {
    mayEnter,
    forget,
    named,
    waiting,
    /** @throws GatewayError `overloaded` */
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
    next(): User | undefined {
      let next: User | undefined;
      for (const user of users.values()) {
        if (user.waiting.length === 0 || !mayEnter(user)) continue;
        const { atEngine, turn } = next ?? { atEngine: Infinity, turn: Infinity };
        if ((user.atEngine - atEngine || user.turn - turn) < 0) next = user;
      }
      return next;
    },
  };
}

const overloaded = (what: string) => refused(`${what} wait for the engine; try again.`);

const tooLate = () => refused('No place at the engine came free in time; try again.');

const refused = (message: string): GatewayError =>
  new GatewayError('overloaded', message, { retryAfter: 5 });
