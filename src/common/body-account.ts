import { systemClock } from './clock.ts';
import { GatewayError } from './errors.ts';

/**
 * What bodies are in memory for: requests; answers that are fetched; values of tier 2 and compressed variants on their
 * way; answers that are sent and that tier 1 does not count.
 */
type BodyUse = 'request' | 'fill' | 'value' | 'sending';

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
 * Requests of one user wait in their order, and users have their turns, so that no user waits for what another one
 * queues. No user can take all room alone, or all of the queue.
 *
 * Of requests that find no room one at a time is given it all the same, beyond the limit, so that those that wait with
 * a part of their body in memory do not wait for each other: there is always one that gets on.
 */
export interface BodyAccount {
  /** @param announced how long its body is, as far as it says so (bytes) */
  request(user: string, announced?: number): RequestShare;
  /** For what can be done without. */
  open(use: 'fill' | 'value'): Share;
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
  readonly queue: Set<Waiting>;
}
interface Waiting {
  readonly share: RequestShare;
  readonly bytes: number;
  /** Takes the room. */
  readonly enter: () => void;
}

/** @param limits asked each time, since a reload may change them; of all bodies (bytes), and of requests that wait */
export function createBodyAccount(
  limits: () => { readonly in_flight: number; readonly queue: number },
): BodyAccount {
  const requests: Held = { small: 0, large: 0 };
  const others = { fill: 0, value: 0, sending: 0 };
  /** In the order of their turns. */
  const users = new Map<string, User>();
  let waiting = 0;
  /** The request that may go beyond the limit. */
  let beyond: { readonly share: RequestShare; readonly user: User } | undefined;

  const part = (of: number) => limits().in_flight * of;
  const ofOthers = () => others.fill + others.value + others.sending;
  /** All but the part for small requests. */
  const total = () => requests.large + ofOthers();
  const fitsUser = (user: User, more: number) => user.large + more <= part(1 - OF_SMALL) * OF_ONE;

  function hasSmallRoom(user: User, more: number): boolean {
    return requests.small + more <= part(OF_SMALL) && user.small + more <= part(OF_SMALL) * OF_ONE;
  }

  function hasRoom(user: User, more: number): boolean {
    const own = part(OF_REQUESTS - OF_SMALL);
    const fitsOwn = requests.large + more <= own && user.large + more <= own * OF_ONE;
    return fitsOwn || (total() + more <= part(1 - OF_SMALL) && fitsUser(user, more));
  }

  /** Makes it the one that may go beyond the limit, where it needs that and there is none. */
  function isLetIn(share: RequestShare, user: User, more: number): boolean {
    if (hasRoom(user, more)) return true;
    beyond ??= { share, user };
    return beyond.share === share;
  }

  /** After bytes were given back. */
  function serve(): void {
    if (beyond !== undefined && hasRoom(beyond.user, 0)) beyond = undefined;
    for (const [name, user] of waiting === 0 ? [] : users) {
      const [next] = user.queue;
      if (next === undefined || !isLetIn(next.share, user, next.bytes)) continue;
      next.enter();
      // Its next turn is after those of all others; this loop comes to it again.
      users.delete(name);
      users.set(name, user);
    }
  }

  /** Why one more request of the user may not wait. */
  function crowd({ queue: own }: User): GatewayError | undefined {
    const { queue } = limits();
    if (waiting >= queue) return overloaded('Too many requests wait for memory; try again.');
    const isFair = own.size < queue - Math.floor(queue * (1 - OF_ONE));
    return isFair ? undefined : overloaded('Too many of your requests wait for memory; try again.');
  }

  function wait(
    user: User,
    { share, bytes, enter }: Waiting,
    patience: number,
    signal: AbortSignal,
  ): Promise<void> {
    const refusal = crowd(user);
    if (refusal !== undefined) return Promise.reject(refusal);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    function leave(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      user.queue.delete(next);
      waiting -= 1;
    }
    function refuse(reason: unknown): void {
      leave();
      reject(reason);
      serve();
    }
    const onAbort = () => refuse(signal.reason);
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
    user.queue.add(next);
    waiting += 1;
    return promise;
  }

  function request(name: string, announced = 0): RequestShare {
    const user = users.get(name) ?? { requests: 0, small: 0, large: 0, queue: new Set() };
    users.set(name, user);
    user.requests += 1;
    const own: Held = { small: 0, large: 0 };
    let patience = LONGEST_WAIT;

    function take(where: keyof Held, more: number): void {
      for (const held of [own, user, requests]) held[where] += more;
    }

    const share: RequestShare = {
      grow(more, signal) {
        if (signal.aborted) return Promise.reject(signal.reason as Error);
        const isSmall = Math.max(announced, own.small + own.large + more) <= SMALL;
        if (isSmall && hasSmallRoom(user, more)) return void take('small', more);
        const isNext = user.queue.size === 0 || beyond?.share === share;
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
        if (beyond?.share === share) beyond = undefined;
        user.requests -= 1;
        if (user.requests === 0) users.delete(name);
        share.shrinkTo(0);
      },
      isInTheWay() {
        if (beyond?.share === share) return waiting > 0;
        return [...users.values()].some((other) => {
          const next = other.queue.values().find((one) => one.share !== share);
          // Where it is the part of another user that is used up, what this one gives back is of no use.
          return next !== undefined && (other === user || fitsUser(other, next.bytes));
        });
      },
    };
    return share;
  }

  function open(use: 'fill' | 'value'): Share {
    let own = 0;
    const share: Share = {
      grow(more) {
        const fits = ofOthers() + more <= part(1 - OF_REQUESTS);
        if (!fits || total() + more > part(1 - OF_SMALL)) return false;
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
  }

  return {
    request,
    open,
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

function overloaded(message: string): GatewayError {
  return new GatewayError('overloaded', message, {
    retryAfter: 5,
    // The rest of the body is not read.
    headers: { connection: 'close' },
  });
}
