import { systemClock } from './clock.ts';
import { GatewayError } from './errors.ts';

/**
 * What bodies are in memory for: requests; answers that are fetched; values of tier 2 and compressed variants on their
 * way; answers that are sent and that tier 1 does not count.
 */
export const BODY_USES = ['request', 'fill', 'value', 'sending'] as const;
type BodyUse = (typeof BODY_USES)[number];

/** Requests may always have this part of the limit, whatever else is under way. */
const OF_REQUESTS = 1 / 4;
/** Of that quarter, this part of the limit is kept for small requests, so that they need not wait behind large ones. */
const OF_SMALL = 1 / 16;
/** The longest body that is small (bytes). Hardly any query is longer. */
const SMALL = 64 * 1024;
/** What one user gets at most, of room and of the queue. */
const OF_ONE = 3 / 4;
/**
 * How long one request may wait for room, all its waits together (ms). Programs give up after a minute or so, and what
 * has come of its body lies in memory all the while. It is longer than it takes to break off a slow client.
 */
const LONGEST_WAIT = 30_000;

/** What one body takes of the account. */
export interface Share {
  /** Takes room for so many bytes more. False when there is none: then nothing has changed. */
  grow(bytes: number): boolean;
  /** Gives so many bytes back. */
  shrink(bytes: number): void;
  /** Gives everything back; calling it twice does no harm. */
  release(): void;
}

/** What the body of one request takes. */
export interface RequestShare {
  /**
   * Takes room for so many bytes more. Undefined when there is some; else it resolves when there is.
   * Rejects with GatewayError `overloaded` when too many wait already or it has waited too long, and with the signal's
   * reason when that aborts.
   */
  grow(bytes: number, signal: AbortSignal): Promise<void> | undefined;
  /** Keeps no more than so many bytes. */
  shrinkTo(bytes: number): void;
  /** Gives everything back. Not while it waits. */
  release(): void;
  /** Whether another request waits for room that this one could give. */
  isInTheWay(): boolean;
}

/**
 * The memory that bodies under way take, beside tier 1.
 *
 * It is a ceiling: what is counted here and in tier 1 is never more than both limits together, and what reading one
 * request takes. What tier 1 drops while it is sent moves to this account, which may then hold more than its own limit.
 *
 * Requests of one user wait in their order, and users have their turns, so that nobody waits for what another user
 * queues. No user can take all room alone, or all of the queue.
 *
 * Of requests that find no room one at a time is given it all the same, beyond the limit, so that those that wait with
 * a part of their body in memory do not wait for each other: there is always one that gets on.
 */
export interface BodyAccount {
  /** @param announced how long its body is, as far as it says so (bytes) */
  request(user: string, announced?: number): RequestShare;
  /** For what can be done without. */
  open(use: Exclude<BodyUse, 'request' | 'sending'>): Share;
  /** Counts what is in memory already, or no longer (a negative number of bytes), whether there is room or not. */
  countSending(bytes: number): void;
  /** Bytes now and the limit, and how many requests wait for room. */
  usage(): {
    readonly bytes: Readonly<Record<BodyUse, number>>;
    readonly limit: number;
    readonly waiting: number;
  };
}

/** Bytes of requests: in the part for small ones, and outside. */
interface Held {
  small: number;
  large: number;
}

interface User extends Held {
  requests: number;
  readonly waiting: Set<Waiting>;
}

interface Waiting {
  readonly share: object;
  readonly bytes: number;
  /** Takes the room. */
  readonly enter: () => void;
}

/** @param limits asked each time, since a reload may change them */
export function createBodyAccount(
  limits: () => {
    /** Bytes of all bodies. */
    readonly in_flight: number;
    /** Requests that may wait for room. */
    readonly queue: number;
  },
): BodyAccount {
  const requests: Held = { small: 0, large: 0 };
  const others = { fill: 0, value: 0, sending: 0 };
  /** In the order of their turns. */
  const users = new Map<string, User>();
  let waiting = 0;
  /** The request that may go beyond the limit. */
  let beyond: { readonly share: object; readonly user: User } | undefined;

  /** All but the part for small requests. */
  const total = () => requests.large + others.fill + others.value + others.sending;

  const hasSmallRoom = (user: User, more: number) =>
    within(requests.small + more, user.small + more, limits().in_flight * OF_SMALL);

  function hasRoom(user: User, more: number): boolean {
    const limit = limits().in_flight;
    const ofUser = user.large + more;
    return (
      within(requests.large + more, ofUser, limit * (OF_REQUESTS - OF_SMALL)) ||
      within(total() + more, ofUser, limit * (1 - OF_SMALL))
    );
  }

  /** Whether it is the user's part that leaves no room, whatever others give back. */
  function hasItsPart(user: User, more: number): boolean {
    return user.large + more > limits().in_flight * (1 - OF_SMALL) * OF_ONE;
  }

  /** Makes it the one that may go beyond the limit, where it needs that and nobody is. */
  function isLetIn(share: object, user: User, more: number): boolean {
    if (hasRoom(user, more) || beyond?.share === share) return true;
    if (beyond !== undefined) return false;
    beyond = { share, user };
    return true;
  }

  /** After bytes were given back. */
  function serve(): void {
    if (beyond !== undefined && hasRoom(beyond.user, 0)) beyond = undefined;
    if (waiting === 0) return;
    for (const [name, user] of users) {
      const [next] = user.waiting;
      if (next === undefined || !isLetIn(next.share, user, next.bytes)) continue;
      next.enter();
      // Its next turn is after those of all others; this loop comes to it again.
      users.delete(name);
      users.set(name, user);
    }
  }

  /** @throws GatewayError `overloaded` */
  function refuseCrowd({ waiting: own }: User): void {
    const { queue } = limits();
    if (waiting >= queue) throw overloaded('Too many requests wait for memory; try again.');
    if (own.size < queue - Math.floor(queue * (1 - OF_ONE))) return;
    throw overloaded('Too many of your requests wait for memory; try again.');
  }

  function wait(
    user: User,
    { share, bytes, enter }: Waiting,
    patience: number,
    signal: AbortSignal,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      refuseCrowd(user);
      const leave = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        user.waiting.delete(next);
        waiting -= 1;
      };
      const refuse = (reason: Error) => {
        leave();
        reject(reason);
        serve();
      };
      const onAbort = () => refuse(signal.reason as Error);
      const late = () => refuse(overloaded('No memory came free in time; try again.'));
      const timer = setTimeout(late, patience);
      signal.addEventListener('abort', onAbort, { once: true });
      const next: Waiting = {
        share,
        bytes,
        enter() {
          leave();
          enter();
          resolve();
        },
      };
      user.waiting.add(next);
      waiting += 1;
    });
  }

  return {
    request(name, announced = 0) {
      const user = users.get(name) ?? { requests: 0, small: 0, large: 0, waiting: new Set() };
      users.set(name, user);
      user.requests += 1;
      const own: Held = { small: 0, large: 0 };
      let patience = LONGEST_WAIT;
      let released = false;

      function take(part: keyof Held, more: number): void {
        for (const held of [own, user, requests]) held[part] += more;
      }

      const share: RequestShare = {
        grow(more, signal) {
          if (signal.aborted) return Promise.reject(signal.reason as Error);
          const isSmall = Math.max(announced, own.small + own.large + more) <= SMALL;
          if (isSmall && hasSmallRoom(user, more)) return void take('small', more);
          const isNext = user.waiting.size === 0 || beyond?.share === share;
          if (isNext && isLetIn(share, user, more)) return void take('large', more);
          const since = systemClock.now();
          const enter = () => {
            patience -= systemClock.now() - since;
            take('large', more);
          };
          return wait(user, { share, bytes: more, enter }, patience, signal);
        },
        shrinkTo(left) {
          const less = Math.max(0, own.small + own.large - left);
          const ofLarge = Math.min(less, own.large);
          take('large', -ofLarge);
          take('small', ofLarge - less);
          serve();
        },
        release() {
          if (released) return;
          released = true;
          if (beyond?.share === share) beyond = undefined;
          user.requests -= 1;
          if (user.requests === 0) users.delete(name);
          share.shrinkTo(0);
        },
        isInTheWay() {
          if (beyond?.share === share) return waiting > 0;
          for (const other of users.values()) {
            const next = [...other.waiting].find((one) => one.share !== share);
            if (next === undefined) continue;
            if (other === user || !hasItsPart(other, next.bytes)) return true;
          }
          return false;
        },
      };
      return share;
    },
    open(use) {
      let own = 0;
      const share: Share = {
        grow(more) {
          const limit = limits().in_flight;
          const beside = total() - requests.large + more;
          const room =
            beside <= limit * (1 - OF_REQUESTS) && total() + more <= limit * (1 - OF_SMALL);
          if (!room) return false;
          others[use] += more;
          own += more;
          return true;
        },
        shrink(less) {
          const given = Math.min(less, own);
          own -= given;
          others[use] -= given;
          serve();
        },
        release: () => share.shrink(own),
      };
      return share;
    },
    countSending(more) {
      others.sending += more;
      if (more < 0) serve();
    },
    usage: () => ({
      bytes: { request: requests.small + requests.large, ...others },
      limit: limits().in_flight,
      waiting,
    }),
  };
}

/** Whether all together stay below a limit, and one user below what is one user's of it. */
function within(all: number, ofUser: number, limit: number): boolean {
  return all <= limit && ofUser <= limit * OF_ONE;
}

function overloaded(message: string): GatewayError {
  return new GatewayError('overloaded', message, {
    retryAfter: 5,
    // The rest of the body is not read.
    headers: { connection: 'close' },
  });
}
