import type { Clock } from './clock.ts';
import { GatewayError } from './errors.ts';
import { type Waiter, waitIn, type WaitQueue } from './semaphore.ts';

/** Part of the limit that requests may always have. */
const OF_REQUESTS = 1 / 4;
/** Part of that for small requests. */
const OF_SMALL = 1 / 16;
/** Longest small body (bytes); hardly any query is longer. */
const SMALL = 64 * 1024;
/** Largest part of one user, of room and of the queue. */
const OF_ONE = 3 / 4;

type Held = Record<'small' | 'large', number>;
interface User extends Held {
  requests: number;
  /** `own`: what it has; `bytes`: what it waits for. */
  readonly queue: WaitQueue<Waiter & { readonly own: Held; readonly bytes: number }>;
}

export type Reservation = ReturnType<BodyAccount['open']>;
export type RequestReservation = ReturnType<BodyAccount['request']>;
export type BodyAccount = ReturnType<typeof createBodyAccount>;
/** Bytes of all bodies, and requests that wait. A reload may change both. */
type Limits = () => { readonly in_flight: number; readonly queue: number };

/**
 * Bounds the memory of bodies under way, beside tier 1: both together never exceed their limits by
 * more than what reading one request takes. Bodies that tier 1 drops while they are sent count
 * here.
 */
export function createBodyAccount(limits: Limits, clock?: Pick<Clock, 'after'>) {
  const room = createRoom(limits);
  const { others } = room;
  const { request, serve, waiting } = createRequests(room, limits, clock);

  function open(use: 'fill' | 'value') {
    let own = 0;
    function shrinkTo(left: number): void {
      const given = Math.max(0, own - left);
      own -= given;
      others[use] -= given;
      serve();
    }
    return {
      grow(more: number, long = false): boolean {
        if (!room.hasOther(more, long)) return false;
        others[use] += more;
        own += more;
        return true;
      },
      shrinkTo,
      release: () => shrinkTo(0),
    };
  }

  return {
    /** @param patience longest wait from now on (ms) @param announced length of the body (bytes) */
    request,
    open,
    /** Counts what is in memory anyway, or, if negative, no longer. */
    countSending(more: number): void {
      others.sending += more;
      if (more < 0) serve();
    },
    usage: () => ({
      bytes: { request: room.requests.small + room.requests.large, ...others },
      limit: limits().in_flight,
      waiting: waiting(),
    }),
  };
}

function createRoom(limits: Limits) {
  const requests: Held = { small: 0, large: 0 };
  const others = { fill: 0, value: 0, sending: 0 };
  const part = (of: number) => limits().in_flight * of;
  const ofOthers = () => others.fill + others.value + others.sending;
  /** Without the part for small requests. */
  const total = () => requests.large + ofOthers();
  const fitsUser = (user: User, more: number) => user.large + more <= part(1 - OF_SMALL) * OF_ONE;

  return {
    requests,
    others,
    fitsUser,
    take(own: Held, user: User, where: keyof Held, more: number): void {
      own[where] += more;
      user[where] += more;
      requests[where] += more;
    },
    hasSmall: (user: User, more: number) =>
      requests.small + more <= part(OF_SMALL) && user.small + more <= part(OF_SMALL) * OF_ONE,
    has(user: User, more: number): boolean {
      const own = part(OF_REQUESTS - OF_SMALL);
      const fitsOwn = requests.large + more <= own && user.large + more <= own * OF_ONE;
      return fitsOwn || (total() + more <= part(1 - OF_SMALL) && fitsUser(user, more));
    },
    hasOther(more: number, long: boolean): boolean {
      const all = more + part(long ? OF_SMALL : 0);
      return ofOthers() + all <= part(1 - OF_REQUESTS) && total() + all <= part(1 - OF_SMALL);
    },
  };
}

/**
 * Requests of a user wait in order, and users in turn. No user can take all room, or all of the
 * queue. One request at a time may go beyond the limit, so that those which wait with a part of
 * their body in memory do not wait for each other.
 */
function createRequests(
  room: ReturnType<typeof createRoom>,
  limits: Limits,
  clock?: Pick<Clock, 'after'>,
) {
  const users = new Map<string, User>();
  let beyond: { readonly own: Held; readonly user: User } | undefined;
  const waiting = () => [...users.values()].reduce((sum, { queue }) => sum + queue.length, 0);

  function isLetIn(own: Held, user: User, more: number): boolean {
    if (room.has(user, more)) return true;
    beyond ??= { own, user };
    return beyond.own === own;
  }

  function serve(): void {
    if (beyond !== undefined && room.has(beyond.user, 0)) beyond = undefined;
    for (const [name, user] of users) {
      const [next] = user.queue;
      if (next === undefined || !isLetIn(next.own, user, next.bytes)) continue;
      next.enter();
      room.take(next.own, user, 'large', next.bytes);
      users.delete(name);
      users.set(name, user);
    }
  }

  function refuseCrowd({ queue: own }: User): void {
    const { queue } = limits();
    if (waiting() >= queue) throw overloaded('Too many requests wait for memory; try again.');
    if (own.length < queue - Math.floor(queue * (1 - OF_ONE))) return;
    throw overloaded('Too many of your requests wait for memory; try again.');
  }

  function request(name: string, patience: () => number, announced = 0) {
    const user = users.get(name) ?? { requests: 0, small: 0, large: 0, queue: [] };
    users.set(name, user);
    user.requests += 1;
    const own: Held = { small: 0, large: 0 };
    async function wait(bytes: number, signal: AbortSignal): Promise<void> {
      refuseCrowd(user);
      const late = { after: patience(), error: tooLate, gaveUp: serve };
      await waitIn(user.queue, { own, bytes }, signal, late, clock);
    }
    function shrinkTo(left: number): void {
      const less = Math.max(0, own.small + own.large - left);
      const ofLarge = Math.min(less, own.large);
      room.take(own, user, 'large', -ofLarge);
      room.take(own, user, 'small', ofLarge - less);
      serve();
    }
    return {
      /**
       * Undefined when there is room at once. Rejects with GatewayError `overloaded` when too many
       * wait or it waits too long, and with the reason of the signal.
       */
      grow(more: number, signal: AbortSignal): Promise<void> | undefined {
        if (signal.aborted) return Promise.reject(signal.reason as Error);
        const isSmall = Math.max(announced, own.small + own.large + more) <= SMALL;
        const fitsSmall = isSmall && room.hasSmall(user, more);
        const isNext = user.queue.length === 0 || beyond?.own === own;
        if (!fitsSmall && !(isNext && isLetIn(own, user, more))) return wait(more, signal);
        room.take(own, user, fitsSmall ? 'small' : 'large', more);
        return undefined;
      },
      shrinkTo,
      release(): void {
        if (beyond?.own === own) beyond = undefined;
        user.requests -= 1;
        if (user.requests === 0) users.delete(name);
        shrinkTo(0);
      },
      isInTheWay(): boolean {
        if (beyond?.own === own) return waiting() > 0;
        return [...users.values()].some((other) => {
          const next = other.queue.find((one) => one.own !== own);
          // A user without any part left could not use the room.
          return next !== undefined && (other === user || room.fitsUser(other, next.bytes));
        });
      },
    };
  }

  return { request, serve, waiting };
}

const tooLate = () => overloaded('No memory came free in time; try again.');
const CLOSING = { retryAfter: 5, headers: { connection: 'close' } };
const overloaded = (message: string) => new GatewayError('overloaded', message, CLOSING);
