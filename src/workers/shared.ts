import { type AskLeave, createLoginThrottle } from '../auth/login-throttle.ts';
import type { PurgeLines } from '../cache/purge/purge-log.ts';
import { type Clock, pause } from '../common/clock.ts';
import {
  checkLease,
  type Announcement,
  type FreshnessStore,
  type SessionRecord,
} from '../freshness/freshness-store.ts';
import { createMemoryFleet, fleetOf } from '../freshness/fleet.ts';
import { createMemoryStore } from '../freshness/memory-store.ts';
import { createUnnoted, type Note, type UnnotedSessions } from '../freshness/unnoted.ts';
import type { States } from '../observability/figures.ts';
import type { Link } from './link.ts';
import { createPrimaryMetrics } from './metrics.ts';

const READ_DEADLINE_MS = 250;
/** Limit of changes (ms). */
export const WRITE_DEADLINE = 500;

/** Versioned: a worker from newer sources than its primary process finds nothing. */
const FRESHNESS = 'freshness 3';
const FLEET = 'fleet 2';
const SYSTEM = 'system';
/** Longer than a replica of the engine may take to answer. */
const SYSTEM_DEADLINE_MS = 6_000;
/** Served at both ends: a worker gives its figures, the primary process those of all. */
export const STATISTICS = 'statistics';
/** A stalled worker must not keep the others waiting. */
const TOLD_WITHIN_MS = 500;
const LOGINS = 'logins';
const UNNOTED = 'unnoted';
/** Longer than the wait for the longest lease. */
const NOTE_DEADLINE_MS = 6_000;
/** Served at both ends: `renewed` tells all workers, `forgotten` tells the first who has heard. */
const NEWS = 'news';
type Told = Announcement & { readonly gateway: string };
type Forgotten = Pick<Told, 'purge' | 'gateway'> & { readonly to: string };

/**
 * State of all workers: tokens, sessions and purges without Redis; the login throttle, so that a
 * crash gives no more tries; metrics and statistics. @returns serves a worker; its result ends that
 * @param options.orphanLease how long workers of a dead primary process may still answer (ms)
 */
export function createPrimary(options: {
  clock: Clock;
  newToken: () => string;
  orphanLease: number;
  engineStates: () => Promise<unknown>;
  inForce: () => unknown;
  configuration: () => string;
  states: States;
}) {
  const purges: string[] = [];
  const freshness = {
    ...createMemoryStore(options),
    purges: () => purges,
    addPurge(line: string, most: number) {
      purges.push(line);
      purges.splice(0, purges.length - most);
    },
  };
  const fleetFor = createMemoryFleet(options.clock);
  const throttle = createLoginThrottle(options);
  const joinMetrics = createPrimaryMetrics(options.states);
  const links = new Set<Link>();
  let turns = 0;
  const note: Note = async (session) => {
    const link = [...links][(turns += 1) % links.size];
    if (link === undefined) throw new Error('no worker lives');
    await link.call(UNNOTED, 'note', [session], NOTE_DEADLINE_MS);
  };
  const unnoted = {
    ...createUnnoted(note, (milliseconds) => pause(options.clock, milliseconds)),
    async elsewhere(name: string) {
      const ask = (link: Link) => link.call(UNNOTED, 'last', [name], READ_DEADLINE_MS);
      const said = await Promise.all([...links].map((link) => ask(link).catch(() => undefined)));
      return said.find((record) => record !== undefined);
    },
  };
  const statistics = statisticsOfLinks(links, options.newToken());
  const tellAll = (method: string) => (said: unknown) => {
    for (const each of links) each.tell(NEWS, method, said);
  };
  const attach = (link: Link): (() => void) => {
    links.add(link);
    link.serve(FRESHNESS, freshness);
    const { gone, ...fleet } = fleetFor(options.newToken());
    link.serve(FLEET, fleet);
    link.serve(LOGINS, throttle);
    link.serve(STATISTICS, statistics);
    link.serve(UNNOTED, unnoted);
    const { engineStates: states, inForce, configuration } = options;
    link.serve(SYSTEM, { states, inForce, configuration });
    link.serve(NEWS, { renewed: tellAll('renewed'), forgotten: tellAll('forgotten') });
    const leaveMetrics = joinMetrics(link);
    return () => {
      links.delete(link);
      leaveMetrics();
      gone();
    };
  };
  return Object.assign(attach, { close: unnoted.close });
}

export const statisticsOfLinks = (links: ReadonlySet<Pick<Link, 'call'>>, gateway: string) => ({
  async ask(method: string, args: readonly unknown[]) {
    const asked = [...links].map((link) => link.call(STATISTICS, method, args, TOLD_WITHIN_MS));
    const ended = await Promise.allSettled(asked);
    const told = ended.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    if (told.length === 0) throw new Error('no worker answered in time');
    return { told, complete: told.length === asked.length };
  },
  gateway: () => gateway,
});

/**
 * A worker's view of the primary process's state.
 * @param options.lease how long this worker uses what it reads now (ms)
 * @param options.longestLease longest lease that may be configured (ms)
 */
export function createWorkerStores(options: {
  link: Link;
  gateway: string;
  lease: () => number;
  longestLease: number;
}) {
  const { link, gateway, lease } = options;
  const ask = <M extends keyof FreshnessStore>(method: M, within: number, ...args: unknown[]) => {
    const holder = { id: gateway, lease: lease() };
    return link.call(FRESHNESS, method, [...args, holder], within) as ReturnType<FreshnessStore[M]>;
  };

  const freshness: FreshnessStore = {
    read: (scopes) => ask('read', READ_DEADLINE_MS, scopes),
    async renew(scopes) {
      const own = lease();
      const renewed = await ask('renew', WRITE_DEADLINE, scopes);
      checkLease(renewed.lease, own, options.longestLease, 'the primary process');
      return renewed;
    },
    incarnation: () => ask('incarnation', WRITE_DEADLINE),
    session(name, call) {
      const within = call.do === 'read' || call.do === 'peek' ? READ_DEADLINE_MS : WRITE_DEADLINE;
      return ask('session', within, name, call);
    },
    async announce(announcement) {
      link.tell(NEWS, 'renewed', { ...announcement, gateway } satisfies Told);
    },
    listen(listener) {
      link.serve(NEWS, {
        renewed({ purge, scopes, gateway: to }: Told) {
          listener.renewed(scopes);
          if (to !== gateway)
            link.tell(NEWS, 'forgotten', { purge, gateway, to } satisfies Forgotten);
        },
        forgotten({ purge, gateway: other, to }: Forgotten) {
          if (to === gateway) listener.forgotten(purge, other);
        },
      });
    },
  };
  const purgeLines: PurgeLines = {
    async add(...added) {
      await link.call(FRESHNESS, 'addPurge', added, WRITE_DEADLINE);
    },
    all: () => link.call(FRESHNESS, 'purges', [], READ_DEADLINE_MS) as Promise<readonly string[]>,
  };
  const fleet = fleetOf((method, ...args) => link.call(FLEET, method, args, WRITE_DEADLINE));
  return { freshness, purgeLines, fleet };
}

/** Sessions that Redis does not know, kept for all workers. @param here this worker's part */
export function unnotedAtPrimary(
  link: Pick<Link, 'call' | 'serve'>,
  here: { note: Note; last: (name: string) => SessionRecord | undefined },
): UnnotedSessions {
  link.serve(UNNOTED, here);
  const ask = (method: keyof UnnotedSessions) => (asked: unknown) =>
    link.call(UNNOTED, method, [asked], WRITE_DEADLINE) as Promise<never>;
  const [get, keep, drop, elsewhere] = [ask('get'), ask('keep'), ask('drop'), ask('elsewhere')];
  return { get, keep, drop, elsewhere, close: () => undefined };
}

/**
 * Counts logins of all workers at the primary process. Without its answer this worker's own count
 * decides, which adds tries but no more than its limit.
 */
export function loginsAtPrimary(link: Pick<Link, 'call'>, own: AskLeave): AskLeave {
  return async (...attempt) => {
    const ask = (method: string) => link.call(LOGINS, method, attempt, WRITE_DEADLINE);
    const wait = await ask('admit').catch(() => undefined);
    if (typeof wait !== 'number' || !(wait >= 0)) return own(...attempt);
    // A lost report costs a user one try.
    return wait || ((how) => ask(how).then(Number, () => 0));
  };
}

/** Asks the primary process, so that all workers ask an engine once. Falls back on `own`. */
export function atPrimary<T>(
  link: Pick<Link, 'call'> | undefined,
  what: 'states' | 'inForce' | 'configuration',
  own: () => Promise<T>,
): () => Promise<T> {
  if (link === undefined) return own;
  return () => link.call(SYSTEM, what, [], SYSTEM_DEADLINE_MS).then((said) => said as T, own);
}
