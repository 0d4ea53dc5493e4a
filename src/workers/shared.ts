import { type AskLeave, createLoginThrottle } from '../auth/login-throttle.ts';
import type { PurgeLines } from '../cache/purge/purge-log.ts';
import type { Clock } from '../common/clock.ts';
import {
  checkLease,
  type Announcement,
  type FreshnessStore,
  type Reading,
  type Renewed,
  type SessionReply,
} from '../freshness/freshness-store.ts';
import { createMemoryStore } from '../freshness/memory-store.ts';
import type { Link } from './link.ts';
import { createPrimaryMetrics } from './metrics.ts';

/** What a worker asks the primary process for a query that waits (ms). It is on the same machine and does little else. */
const READ_DEADLINE = 250;
/** What changes something there (ms). */
export const WRITE_DEADLINE = 500;

/**
 * The service of tokens, sessions and purges. Its name holds a version: a worker that was started from newer sources
 * than its primary process finds no such service, and takes nothing for known.
 */
const FRESHNESS = 'freshness 2';
/** The service that counts attempts to log in. */
const LOGINS = 'logins';

/** `renewed` tells all workers that scopes have new tokens, `forgotten` the first that another has forgotten the old. */
type Told = Announcement & { readonly gateway: string };
type Forgotten = Pick<Told, 'purge' | 'gateway'> & { readonly to: string };

/**
 * What workers share, in the primary process, which outlives them: tokens, sessions and purges where there is no Redis;
 * the throttle of logins, so that guesses at several workers are counted once, and a crash gives no more tries; metrics.
 *
 * @param options.orphanLease for which workers of a primary process that has just died may still answer (ms)
 */
export function createPrimary(options: {
  clock: Clock;
  newToken: () => string;
  orphanLease: number;
}) {
  const keySecret = options.newToken();
  const { incarnation, ...memory } = createMemoryStore({ ...options, keySecret });
  const purges: string[] = [];
  const freshness = {
    ...memory,
    incarnation: () => incarnation,
    purges: () => purges,
    addPurge(line: string, most: number) {
      purges.push(line);
      purges.splice(0, purges.length - most);
    },
  };
  const throttle = createLoginThrottle(options);
  const joinMetrics = createPrimaryMetrics();
  const links = new Set<Link>();
  return {
    /** Serves one more worker. @returns to be called when that worker is gone */
    attach(link: Link): () => void {
      links.add(link);
      link.serve(FRESHNESS, freshness);
      link.serve(LOGINS, throttle);
      for (const topic of ['renewed', 'forgotten']) {
        link.onTold(topic, (said) => {
          for (const each of links) each.tell(topic, said);
        });
      }
      const leaveMetrics = joinMetrics(link);
      return () => {
        links.delete(link);
        leaveMetrics();
      };
    },
  };
}

/**
 * Tokens and sessions, as a worker sees what the primary process keeps.
 * @param options.gateway names this worker. Random, and new with every store
 * @param options.lease milliseconds for which this worker uses what it reads now
 * @param options.longestLease the longest lease that the configuration may name (ms)
 * @param options.keySecret as configured; undefined: the one that the primary process has made
 */
export function createWorkerFreshness(options: {
  link: Link;
  gateway: string;
  lease: () => number;
  longestLease: number;
  keySecret: string | undefined;
}): FreshnessStore {
  const { link, gateway, lease, longestLease } = options;
  let closed = false;
  const ask = <T>(method: string, args: readonly unknown[], within = WRITE_DEADLINE) =>
    link.call(FRESHNESS, method, [{ id: gateway, lease: lease() }, ...args], within) as Promise<T>;

  return {
    async read(scopes) {
      const { tokens, keySecret } = await ask<Reading>('read', [scopes], READ_DEADLINE);
      return { tokens, keySecret: options.keySecret ?? keySecret };
    },
    async renew(scopes) {
      const own = lease();
      const renewed = await ask<Renewed>('renew', [scopes]);
      checkLease(renewed.lease, own, longestLease, 'the primary process');
      return renewed;
    },
    incarnation: () => ask<string>('incarnation', []),
    session(name, call) {
      const within = call.do === 'read' || call.do === 'peek' ? READ_DEADLINE : WRITE_DEADLINE;
      return ask<SessionReply>('session', [name, call], within);
    },
    async announce(announcement) {
      link.tell('renewed', { ...announcement, gateway } satisfies Told);
    },
    listen(listener) {
      link.onTold('renewed', (said) => {
        const { purge, scopes, gateway: to } = said as Told;
        if (closed) return;
        listener.renewed(scopes);
        if (to !== gateway) link.tell('forgotten', { purge, gateway, to } satisfies Forgotten);
      });
      link.onTold('forgotten', (said) => {
        const { purge, gateway: other, to } = said as Forgotten;
        if (to === gateway && !closed) listener.forgotten(purge, other);
      });
    },
    async close() {
      closed = true;
    },
  };
}

/** The log of purges that the primary process keeps for all workers. */
export function createWorkerPurgeLines(link: Link): PurgeLines {
  return {
    async add(...added) {
      await link.call(FRESHNESS, 'addPurge', added, WRITE_DEADLINE);
    },
    all: () => link.call(FRESHNESS, 'purges', [], READ_DEADLINE) as Promise<readonly string[]>,
  };
}

/**
 * Asks the primary process, which counts the attempts at all workers.
 * @param own decides while the primary process does not answer, and counts what it lets through: beside what all workers
 *   together may try, each one may try so much then, and never more
 */
export function loginsAtPrimary(link: Pick<Link, 'call'>, own: AskLeave): AskLeave {
  return async (...attempt) => {
    const ask = (method: string) => link.call(LOGINS, method, attempt, WRITE_DEADLINE);
    const wait = await ask('admit').catch(() => undefined);
    if (typeof wait !== 'number' || !(wait >= 0)) return own(...attempt);
    // What is lost of this costs a user one of his tries.
    return wait || ((how) => void ask(how).catch(() => {}));
  };
}
