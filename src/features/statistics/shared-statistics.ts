import type { Clock } from '../../common/clock.ts';
import type { Readings } from '../feature.ts';
import type { ReportStore } from '../../freshness/fleet.ts';
import { oneAfterTheOther, inTurns } from '../../common/in-turn.ts';
import { noSums, sumOf, tenths } from '../hour-report.ts';
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
} from './remembered.ts';

const SHARED_DIGESTS = 500;

type Report = Told<'report'> & { readonly gateway: string };

/** Entry of the memory tier: bytes, seconds. */
export type EntryFacts = Readonly<{ digest: string } & Record<EntrySort, number>>;

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
    engines_away: read.enginesAway(),
    lease_age_ms: read.epochAge() ?? null,
  };
}

export type OwnFigures = ReturnType<typeof createOwnFigures>;
type Told<M extends keyof OwnFigures> = Awaited<ReturnType<OwnFigures[M]>>;

export interface Processes {
  /** @returns what was told in time, and whether all told. @throws when none can be asked */
  ask<M extends keyof OwnFigures>(
    method: M,
    ...args: Parameters<OwnFigures[M]>
  ): Promise<{ readonly told: readonly Told<M>[]; readonly complete: boolean }>;
  /** Random name of the gateway. */
  gateway(): Promise<string>;
}

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
/** Orders; the first is the default. */
export const SORTS = {
  digests: Object.keys(DIGEST_SORTS) as DigestSort[],
  entries: ['hits', 'bytes', 'age', 'rest'],
} as const;

/** A count holds for this many times the time that counting took. */
const COUNTED_FOR = 50;

type Page = Readonly<Record<'limit' | 'offset', number>>;
type DigestFilter = Readonly<Partial<Record<'project' | 'digest', string | undefined>>>;

/** @param parts.started wall clock, ms */
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
  /** Walks one after the other: each takes many turns of the event loop. */
  const inTurn = oneAfterTheOther();
  const started = new Date(parts.started).toISOString();
  return {
    report: (most: number) =>
      inTurn(async () => {
        const hour = await statistics.hour();
        const { totals, digests } = statistics.figures();
        return { totals, digests: await largest(digests, DIGEST_SORTS.cost, most), hour };
      }),
    usage: () => usageOf(readings, started),
    /** Counts entries by project. Counting takes a while: the count holds for some of these. */
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
    /** Lists the first entries of the memory tier, with names as far as they are known. */
    entries: (sort: EntrySort, most: number) =>
      inTurn(async () => {
        const { total, each } = entries();
        const rows = await largest(each, (row) => row[sort], most);
        const named = rows.map((row) => Object.assign(statistics.named(row.digest), row));
        return { total, rows: named };
      }),
  };
}

export const onlyProcess = (own: OwnFigures, gateway: string): Processes => ({
  ask: async (method, ...args) => ({
    told: [await (own[method] as (...given: typeof args) => Promise<Told<typeof method>>)(...args)],
    complete: true,
  }),
  gateway: async () => gateway,
});

export type SharedStatistics = ReturnType<typeof createSharedStatistics>;
/**
 * Figures for operators, of all processes of this gateway and of gateways that share a Redis.
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

  /** Reads what can be read of other gateways. @throws as `Processes.ask` */
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
        // A report of another version may not be understood.
        complete: complete && (store === undefined || read.length === others?.length),
        totals: totalsOf(reports),
      },
    };
  }

  return {
    /** Never rejects. */
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
     * Totals count all digests, whatever the filter lets through.
     * @param withText tells statements that are kept
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
    async usage() {
      const { told, complete } = await processes.ask('usage');
      return { gateway: await processes.gateway(), complete, processes: told };
    },
    async hour() {
      const { reports, told } = await reportsOfAll(0);
      const entries = await processes.ask('countEntries');
      const hour = mergeHours(reports.map((one) => one.hour));
      return { ...told, hour, entries: entries.told.flat() };
    },
    async requests(filter: RequestFilter, { limit, offset }: Page) {
      const { told, complete } = await processes.ask('requests', filter, offset + limit);
      const requests = told.flatMap((one) => one.requests);
      // Requests of one process are in order, whatever its wall clock did.
      if (told.length > 1) requests.sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
      return { total: totalOf(told), complete, requests: requests.slice(offset, offset + limit) };
    },
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

/** Engine time for one ask (ms), from asks of the engine, or else from what hits saved. */
function averageOf({ engine_asks, engine_ms, failed_ms, hits, saved_ms }: DigestFigures): number {
  if (engine_asks > 0) return (engine_ms - failed_ms) / engine_asks;
  return hits > 0 ? saved_ms / hits : 0;
}

/** Engine time for all asks (ms); failed asks count with what one in vain took. */
function costOf(row: DigestFigures): number {
  const { asks, by_gateway, failed_asks, failed_ms } = row;
  const inVain = failed_asks > 0 ? failed_ms / failed_asks : 0;
  return (asks - by_gateway) * averageOf(row) + by_gateway * inVain;
}

/** Finds the largest by a figure, in order. Of many not all are sorted, nor read in one turn. */
export async function largest<T>(items: Iterable<T>, figure: (item: T) => number, most: number) {
  const cut = (rows: T[]) => rows.sort((a, b) => figure(b) - figure(a)).slice(0, most);
  let best: T[] = [];
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

/** Reads a report, if it is one: others may write to Redis. */
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
