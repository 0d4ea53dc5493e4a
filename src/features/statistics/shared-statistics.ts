import type { Clock } from '../../common/clock.ts';
import type { Readings } from '../feature.ts';
import type { ReportStore } from '../../freshness/fleet.ts';
import { oneAfterTheOther, inTurns } from '../../common/in-turn.ts';
import { noSums, sumOf } from '../hour-report.ts';
import { fits, isHour, mergeHours } from './hour.ts';
import {
  type DigestFigures,
  ENTRIES_AT_ONCE,
  isOfProject,
  MAX_DIGESTS,
  MAX_USERS,
  NO_FIGURES,
  type RequestFilter,
  type Statistics,
  tenths,
} from './remembered.ts';

/** So many digests are told to other gateways. */
const SHARED_DIGESTS = 500;

/** Of one process, and its gateway; workers are one gateway. */
type Report = Told<'report'> & { readonly gateway: string };

/** An entry of the memory tier: bytes, seconds. */
export type EntryFacts = Readonly<{ digest: string } & Record<EntrySort, number>>;

/** What a process uses, and may use. */
export type Usage = ReturnType<typeof usageOf>;
function usageOf(read: Readings, started_at: string) {
  const { entries, bytes } = read.memory();
  const { open, limit } = read.connections();
  return {
    pid: read.node.pid,
    started_at,
    rss_bytes: read.node.memoryUsage.rss(),
    entries,
    memory_bytes: bytes,
    memory_limit_bytes: read.limits().memory,
    evictions: read.evictions(),
    connections: open,
    connections_limit: limit,
    at_engine: read.engine().atEngine,
    waiting: read.engine().waiting,
    queue_limit: read.limits().queue,
    owed: read.owed(),
    dropped_headers: read.droppedHeaders(),
    timed_out: read.timedOut(),
    /** Of the oldest epoch in use; null without one. */
    lease_age_ms: read.epochAge() ?? null,
  };
}

/** What one process tells the others of its gateway. */
export type OwnFigures = ReturnType<typeof createOwnFigures>;
type Told<M extends keyof OwnFigures> = Awaited<ReturnType<OwnFigures[M]>>;

/** Port: all processes of this gateway. */
export interface Processes {
  /** What each that answered in time told, and whether all did. @throws when none can be asked */
  ask<M extends keyof OwnFigures>(
    method: M,
    ...args: Parameters<OwnFigures[M]>
  ): Promise<{ readonly told: readonly Told<M>[]; readonly complete: boolean }>;
  /** Names the gateway; random. */
  gateway(): Promise<string>;
}

/** By what digests can be sorted, the largest first. */
const DIGEST_SORTS = {
  cost: costOf,
  saved: (row: DigestFigures) => row.saved_ms,
  uncached: (row: DigestFigures) => row.engine_ms,
  asks: (row: DigestFigures) => row.asks,
  engine: averageOf,
  last: (row: DigestFigures) => row.last_asked,
} as const;
type DigestSort = keyof typeof DIGEST_SORTS;
type EntrySort = (typeof SORTS)['entries'][number];
/** The first is the usual one. */
export const SORTS = {
  digests: Object.keys(DIGEST_SORTS) as DigestSort[],
  entries: ['hits', 'bytes', 'age', 'rest'],
} as const;

/** What was counted holds for so many times what counting took. */
const COUNTED_FOR = 50;

/** Which rows are told. */
type Page = Readonly<Record<'limit' | 'offset', number>>;
/** Of digests: each that is given must be equal. */
type DigestFilter = Readonly<Partial<Record<'project' | 'digest', string | undefined>>>;

/**
 * @param parts.entries those of the memory tier: how many, and each
 * @param parts.started wall clock, ms
 */
export function createOwnFigures(
  statistics: Pick<Statistics, 'figures' | 'hour' | 'requests' | 'named' | 'countByProject'>,
  parts: {
    readonly entries: () => { readonly total: number; readonly each: Iterable<EntryFacts> };
    readonly readings: Readings;
    readonly started: number;
    readonly clock: Pick<Clock, 'now'>;
  },
) {
  const { entries, readings, clock } = parts;
  let counted: ReturnType<Statistics['countByProject']> | undefined;
  let countedUntil = -Infinity;
  /** Each walks in many turns: of several at one time a turn has a part of one. */
  const inTurn = oneAfterTheOther();
  const started = new Date(parts.started).toISOString();
  return {
    /** @param most so many digests, the heaviest */
    report: (most: number) =>
      inTurn(async () => {
        const hour = await statistics.hour();
        const { totals, digests } = statistics.figures();
        return { totals, digests: await largest(digests, DIGEST_SORTS.cost, most), hour };
      }),
    usage: () => usageOf(readings, started),
    /** How many of each project. Of hundreds of thousands it takes a while: as it was some of such whiles ago. */
    countEntries() {
      const began = clock.now();
      if (counted !== undefined && began < countedUntil) return counted;
      countedUntil = Infinity;
      return (counted = inTurn(() => statistics.countByProject(entries().each)).finally(() => {
        const end = clock.now();
        countedUntil = end + COUNTED_FOR * (end - began);
      }));
    },
    requests: statistics.requests,
    /** The first `most` of the memory tier, with the names of what they answer as far as they are known. */
    entries: (sort: EntrySort, most: number) =>
      inTurn(async () => {
        const { total, each } = entries();
        const rows = await largest(each, (row) => row[sort], most);
        const named = rows.map((row) => Object.assign(statistics.named(row.digest), row));
        return { total, rows: named };
      }),
  };
}

/** Of a gateway that is one process. */
export const onlyProcess = (own: OwnFigures, gateway: string): Processes => ({
  ask: async (method, ...args) => ({
    told: [await (own[method] as (...given: typeof args) => Promise<Told<typeof method>>)(...args)],
    complete: true,
  }),
  gateway: async () => gateway,
});

export type SharedStatistics = ReturnType<typeof createSharedStatistics>;
/**
 * What an operator is told: the figures of all processes of this gateway, and of the gateways that share a Redis.
 * @param options.id names this process; random
 * @param options.store undefined without Redis
 */
export function createSharedStatistics(options: {
  processes: Processes;
  own: Pick<OwnFigures, 'report'>;
  id: string;
  store: ReportStore | undefined;
  onError: (error: unknown) => void;
}) {
  const { processes, own, id, store, onError } = options;

  /** Those of the processes of this gateway, and of other gateways as far as they can be read. @throws as `Processes.ask` */
  async function reportsOfAll(most: number) {
    const { told, complete } = await processes.ask('report', most);
    const gateway = await processes.gateway();
    const others = await store?.all().catch(onError);
    const read: Report[] = [];
    await inTurns(others ?? [], 1, (text) => read.push(...readReport(text)));
    const reports: Report[] = [
      ...told.map((report) => Object.assign(report, { gateway })),
      ...read.filter((report) => report.gateway !== gateway),
    ];
    return {
      reports,
      told: {
        gateways: new Set(reports.map((one) => one.gateway)).size,
        // Of another version a report may not be understood.
        complete: complete && (store === undefined || read.length === others?.length),
        totals: totalsOf(reports),
      },
    };
  }

  return {
    /** Tells other gateways the heaviest digests of this process. Never rejects. */
    async share(): Promise<void> {
      if (store === undefined) return;
      try {
        const report = await own.report(SHARED_DIGESTS);
        // Statements stay in their gateway.
        for (const row of report.digests) row.text = '';
        const gateway = await processes.gateway();
        await store.set(id, JSON.stringify({ gateway, ...report } satisfies Report));
      } catch (error) {
        onError(error);
      }
    },
    /**
     * The totals are those of all digests, whatever the filter lets through.
     * @param withText whether statements are told, as far as they are kept
     * @throws as `Processes.ask`
     */
    async statistics(
      { sort, limit, offset, project, digest }: Page & DigestFilter & { readonly sort: DigestSort },
      withText = false,
    ) {
      const { reports, told } = await reportsOfAll(MAX_DIGESTS);
      const found = mergeDigests(reports).filter(
        (row) => isOfProject(row, project) && (digest ?? row.digest) === row.digest,
      );
      const rows = (await largest(found, DIGEST_SORTS[sort], offset + limit)).slice(offset);
      return { ...told, total: found.length, digests: rows.map((row) => digestRow(row, withText)) };
    },
    /** This gateway, and what each of its processes uses. @throws as `Processes.ask` */
    async usage() {
      const { told, complete } = await processes.ask('usage');
      return { gateway: await processes.gateway(), complete, processes: told };
    },
    /**
     * The last hour at all gateways, and how many entries of each project the processes of this one have in memory.
     * @throws as `Processes.ask`
     */
    async hour() {
      const { reports, told } = await reportsOfAll(0);
      const entries = await processes.ask('countEntries');
      const hour = mergeHours(reports.map((one) => one.hour));
      return { ...told, hour, entries: entries.told.flat() };
    },
    /** @throws as `Processes.ask` */
    async requests(filter: RequestFilter, { limit, offset }: Page) {
      const { told, complete } = await processes.ask('requests', filter, offset + limit);
      const requests = told.flatMap((one) => one.requests);
      // Of one process they are in order, whatever its wall clock did.
      if (told.length > 1) requests.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
      return { total: totalOf(told), complete, requests: requests.slice(offset, offset + limit) };
    },
    /** @throws as `Processes.ask` */
    async entries({ sort, limit, offset }: Page & { readonly sort: EntrySort }) {
      const { told, complete } = await processes.ask('entries', sort, offset + limit);
      const rows = told.flatMap((one) => one.rows);
      const sorted = await largest(rows, (row) => row[sort], offset + limit);
      return { total: totalOf(told), complete, entries: sorted.slice(offset) };
    },
  };
}

const totalOf = (told: readonly { readonly total: number }[]) =>
  told.reduce((sum, { total }) => sum + total, 0);

/** What the engine needs for it (ms), by what it needed when it was asked, or for what now is a hit. */
function averageOf({ engine_asks, engine_ms, failed_ms, hits, saved_ms }: DigestFigures): number {
  if (engine_asks > 0) return (engine_ms - failed_ms) / engine_asks;
  return hits > 0 ? saved_ms / hits : 0;
}

/** What the engine would need for all asks (ms): of those that failed, what one in vain took. */
function costOf(row: DigestFigures): number {
  const { asks, by_gateway, failed_asks, failed_ms } = row;
  const inVain = failed_asks > 0 ? failed_ms / failed_asks : 0;
  return (asks - by_gateway) * averageOf(row) + by_gateway * inVain;
}

/** The first of them by a figure, the largest first. Of many not all are sorted, nor looked at in one turn. */
export async function largest<T>(items: Iterable<T>, figure: (item: T) => number, most: number) {
  const cut = (rows: T[]) => rows.sort((a, b) => figure(b) - figure(a)).slice(0, most);
  let best: T[] = [];
  /** Of the last one of the first so many. */
  let least = -Infinity;
  await inTurns(items, ENTRIES_AT_ONCE, (item) => {
    if (figure(item) <= least) return;
    best.push(item);
    if (best.length <= 2 * most + MAX_DIGESTS) return;
    best = cut(best);
    least = figure(best[most - 1] as T);
  });
  return cut(best);
}

/** The largest maximum, the latest of what was asked last, and sums of sums. */
function mergeDigests(reports: readonly Pick<Report, 'digests'>[]) {
  const all = reports.flatMap(({ digests }) => digests);
  const merged = Map.groupBy(all, ({ digest }) => digest);
  return Array.from(merged.values(), (rows) => rows.reduce(both));
}

function both(one: DigestFigures, other: DigestFigures): DigestFigures {
  const sum = { ...(other.last_asked > one.last_asked ? other : one), ...sumOf([one, other]) };
  sum.engine_max_ms = Math.max(one.engine_max_ms, other.engine_max_ms);
  sum.users = [...new Set([...one.users, ...other.users])].slice(0, MAX_USERS);
  sum.since = Math.min(one.since, other.since);
  sum.text = one.text || other.text;
  return sum;
}

/** What fades is told to a tenth. */
function totalsOf(reports: readonly Pick<Report, 'totals'>[]) {
  const sum = sumOf(reports.map(({ totals }) => totals));
  return {
    asks: tenths(sum.asks),
    hits: tenths(sum.hits),
    uncached_ms: tenths(sum.engine_ms),
    saved_ms: tenths(sum.saved_ms),
    bytes: Math.round(sum.bytes),
  };
}

const digestRow = (row: DigestFigures, withText: boolean) => ({
  digest: row.digest,
  subject: row.subject,
  project: row.project,
  catalogs: row.catalogs,
  cubes: row.cubes,
  asks: tenths(row.asks),
  hits: tenths(row.hits),
  engine_ms: tenths(averageOf(row)),
  engine_max_ms: tenths(row.engine_max_ms),
  uncached_ms: tenths(row.engine_ms),
  failed_asks: tenths(row.failed_asks),
  failed_ms: tenths(row.failed_ms),
  saved_ms: tenths(row.saved_ms),
  bytes: Math.round(row.bytes / row.asks),
  users: row.users.length,
  last_asked: new Date(row.last_asked).toISOString(),
  last_outcome: row.last_outcome,
  last_reason: row.last_reason,
  since: new Date(row.since).toISOString(),
  ...(withText && row.text !== '' && { text: row.text }),
});

/** None when it is none: others may write to Redis. */
function readReport(text: string): readonly Report[] {
  try {
    const report = JSON.parse(text) as Report;
    const { gateway, totals, digests, hour } = report;
    const areFew = digests.length <= SHARED_DIGESTS;
    const areSound =
      areFew && fits(totals, noSums()) && digests.every((row) => fits(row, NO_FIGURES));
    return typeof gateway === 'string' && areSound && isHour(hour) ? [report] : [];
  } catch {
    return [];
  }
}
