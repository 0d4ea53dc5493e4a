import { GatewayError } from './errors.ts';

/**
 * What bodies are in memory for: requests; answers that are fetched; values of tier 2 and compressed variants on their
 * way; answers that are sent and that tier 1 does not count.
 */
export const BODY_USES = ['request', 'fill', 'value', 'sending'] as const;
type BodyUse = (typeof BODY_USES)[number];

/** Requests may always have this part of the limit, whatever else is under way. */
const OF_REQUESTS = 0.25;

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
   * Rejects with GatewayError `overloaded` when too many wait already, and with the signal's reason when that aborts.
   */
  grow(bytes: number, signal: AbortSignal): Promise<void> | undefined;
  /** Keeps no more than so many bytes. */
  shrinkTo(bytes: number): void;
  release(): void;
  /** Whether others wait for room. */
  othersWait(): boolean;
}

/**
 * The memory that bodies under way take, beside tier 1.
 *
 * It is a ceiling: what is counted here and in tier 1 is never more than both limits together, and what reading one
 * request takes. What tier 1 drops while it is sent moves to this account, which may then hold more than its own limit.
 *
 * Of requests that find no room one at a time is given it all the same, beyond the limit, so that those that wait with
 * a part of their body in memory do not wait for each other: each has its room in the end, as long as requests end.
 */
export interface BodyAccount {
  request(): RequestShare;
  /** For what can be done without. While requests wait the limit is exceeded, so that it has no room. */
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

interface Waiting {
  readonly share: object;
  readonly bytes: number;
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
  const bytes: Record<BodyUse, number> = { request: 0, fill: 0, value: 0, sending: 0 };
  const waiting = new Set<Waiting>();
  /** The request that may go beyond the limit. */
  let overdrawn: object | undefined;

  const total = () => bytes.request + bytes.fill + bytes.value + bytes.sending;

  function hasRoom(more: number): boolean {
    const limit = limits().in_flight;
    return bytes.request + more <= limit * OF_REQUESTS || total() + more <= limit;
  }

  function isLetIn(share: object, more: number): boolean {
    if (hasRoom(more) || overdrawn === share) return true;
    if (overdrawn !== undefined) return false;
    overdrawn = share;
    return true;
  }

  /** After bytes were given back. */
  function serve(): void {
    if (total() <= limits().in_flight) overdrawn = undefined;
    for (const next of waiting) {
      if (!isLetIn(next.share, next.bytes)) return;
      waiting.delete(next);
      bytes.request += next.bytes;
      next.enter();
    }
  }

  function wait(share: object, more: number, signal: AbortSignal): Promise<void> {
    if (waiting.size >= limits().queue) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiting.delete(next);
        reject(signal.reason as Error);
        serve();
      };
      const enter = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const next = { share, bytes: more, enter };
      signal.addEventListener('abort', onAbort, { once: true });
      waiting.add(next);
    });
  }

  return {
    request() {
      let released = false;
      let own = 0;
      const share: RequestShare = {
        grow(more, signal) {
          if (signal.aborted) return Promise.reject(signal.reason as Error);
          if (overdrawn === share || (waiting.size === 0 && isLetIn(share, more))) {
            bytes.request += more;
            own += more;
            return undefined;
          }
          return wait(share, more, signal).then(() => {
            own += more;
            // It may have been given up in the very turn in which its room came.
            if (released) share.shrinkTo(0);
          });
        },
        shrinkTo(left) {
          const less = Math.max(0, own - left);
          own -= less;
          bytes.request -= less;
          serve();
        },
        release() {
          released = true;
          if (overdrawn === share) overdrawn = undefined;
          share.shrinkTo(0);
        },
        othersWait: () => waiting.size > 0,
      };
      return share;
    },
    open(use) {
      let own = 0;
      const share: Share = {
        grow(more) {
          const limit = limits().in_flight;
          const others = total() - bytes.request + more;
          const room = others <= limit * (1 - OF_REQUESTS) && total() + more <= limit;
          if (!room) return false;
          bytes[use] += more;
          own += more;
          return true;
        },
        shrink(less) {
          const given = Math.min(less, own);
          own -= given;
          bytes[use] -= given;
          serve();
        },
        release: () => share.shrink(own),
      };
      return share;
    },
    countSending(more) {
      bytes.sending += more;
      if (more < 0) serve();
    },
    usage: () => ({ bytes: { ...bytes }, limit: limits().in_flight, waiting: waiting.size }),
  };
}

function tooMany(): GatewayError {
  return new GatewayError('overloaded', 'Too many requests wait for memory; try again.', {
    retryAfter: 5,
    // The rest of the body is not read.
    headers: { connection: 'close' },
  });
}
