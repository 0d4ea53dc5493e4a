import type { Clock } from '../common/clock.ts';
import {
  checkLease,
  type Announcement,
  type FreshnessStore,
  type Reading,
  type Renewed,
  type Scope,
  type SessionCall,
  type SessionReply,
} from '../freshness/freshness-store.ts';
import { createMemoryStore, type Holder } from '../freshness/memory-store.ts';
import type { PurgeLines } from '../cache/purge/purge-log.ts';
import { READ_DEADLINE, WRITE_DEADLINE } from './deadlines.ts';
import type { Link } from './link.ts';

/**
 * What workers share, at both ends of the link. Its name holds a version: a worker that was started from newer sources
 * than its primary process finds no such service, and takes nothing for known.
 */
const SERVICE = 'freshness 2';

/** That scopes have new tokens, told to all workers, and that one has forgotten the old ones, told to the first. */
interface Told extends Announcement {
  readonly gateway: string;
}
interface Forgotten {
  readonly purge: string;
  readonly gateway: string;
  readonly to: string;
}

/**
 * The tokens, sessions and purges of all workers, in the primary process, which outlives them.
 *
 * @param options.orphanLease for which workers of a primary process that has just died may still answer (ms)
 * @returns serves one more worker; what it returns ends that
 */
export function createPrimaryFreshness(options: {
  clock: Clock;
  newToken: () => string;
  orphanLease: number;
}): (link: Link) => () => void {
  const memory = createMemoryStore({ ...options, keySecret: options.newToken() });
  const purges: string[] = [];
  const links = new Set<Link>();
  const service = {
    read: (holder, scopes) => memory.read(holder as Holder, scopes as Scope[]),
    renew: (holder, scopes) => memory.renew(holder as Holder, scopes as Scope[]),
    incarnation: () => memory.incarnation,
    session: (holder, name, call) =>
      memory.session(holder as Holder, name as string, call as SessionCall),
    purges: () => purges,
    addPurge(line, most) {
      purges.push(line as string);
      purges.splice(0, purges.length - (most as number));
    },
  } satisfies Parameters<Link['serve']>[1];

  return (link) => {
    links.add(link);
    link.serve(SERVICE, service);
    const ends = ['renewed', 'forgotten'].map((topic) =>
      link.onTold(topic, (said) => {
        for (const each of links) each.tell(topic, said);
      }),
    );
    return () => {
      links.delete(link);
      for (const end of ends) end();
    };
  };
}

/** What the primary process keeps, as a worker sees it. */
export function createWorkerFreshness(options: {
  /** To the primary process. */
  link: Link;
  /** Names this worker. Random, and new with every store. */
  gateway: string;
  /** Milliseconds for which this worker uses what it reads now. */
  lease: () => number;
  /** The longest lease that the configuration may name (ms). */
  longestLease: number;
  /** The configured secret of the keys; undefined: the one that the primary process has made. */
  keySecret: string | undefined;
}): FreshnessStore {
  const { link, gateway, lease, longestLease } = options;
  const holder = (): Holder => ({ id: gateway, lease: lease() });
  const ends: (() => void)[] = [];
  const ask = <T>(method: string, args: readonly unknown[], within = WRITE_DEADLINE) =>
    link.call(SERVICE, method, [holder(), ...args], within) as Promise<T>;

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
      ends.push(
        link.onTold('renewed', (said) => {
          const { purge, scopes, gateway: from } = said as Told;
          listener.renewed(scopes);
          if (from !== gateway) {
            link.tell('forgotten', { purge, gateway, to: from } satisfies Forgotten);
          }
        }),
        link.onTold('forgotten', (said) => {
          const { purge, gateway: other, to } = said as Forgotten;
          if (to === gateway) listener.forgotten(purge, other);
        }),
      );
    },
    async close() {
      for (const end of ends.splice(0)) end();
    },
  };
}

/** The log of purges that the primary process keeps for all workers. */
export function createWorkerPurgeLines(link: Link): PurgeLines {
  return {
    async add(...added) {
      await link.call(SERVICE, 'addPurge', added, WRITE_DEADLINE);
    },
    all: () => link.call(SERVICE, 'purges', [], READ_DEADLINE) as Promise<readonly string[]>,
  };
}
