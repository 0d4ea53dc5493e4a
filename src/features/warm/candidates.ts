import { LRUCache } from 'lru-cache';
import { promisify } from 'node:util';
import { deflateRaw, inflateRaw } from 'node:zlib';
import type { Clock } from '../../common/clock.ts';
import type { EventOf, GatewayEvent } from '../../common/events.ts';
import { oneAfterTheOther } from '../../common/in-turn.ts';
import type { Core } from '../feature.ts';
import type { WarmConfig } from './config.ts';
import type { FleetStore } from '../../freshness/fleet.ts';

/** A request without logins, cookies and ids, from which it can be understood again. */
export interface KeptRequest {
  /** Null where the request path names none. */
  readonly project: string | null;
  readonly query: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
  /** Body with each byte as one letter (latin1). */
  readonly body: string;
}

/** How a query was asked. Two ways of one query differ in their sessions. */
export interface Way extends KeptRequest {
  readonly session: {
    /** Index of its id in the body; null where it stood in a header alone. */
    readonly at: number | null;
    readonly byHeader: boolean;
    readonly profile: string;
    readonly catalog: string | null;
  } | null;
  /** Part of the key; '' without a session. */
  readonly part: string;
}

/** How a session was begun that is noted under its profile. */
export interface Beginning extends KeptRequest {
  readonly profile: string;
  /** Latest sight (wall clock, ms). */
  readonly at: number;
}

/** A query that may be asked again. Moments are ms of the wall clock, 0 for never. */
export interface Candidate {
  readonly digest: string;
  readonly subject: string;
  readonly project: string;
  readonly catalogs: readonly string[];
  /** Number at the last ask; it fades by {@link HALF_LIFE}. */
  asks: number;
  last: number;
  before: number;
  /** Average time of the engine (ms). */
  ms: number;
  bytes: number;
  readonly users: readonly string[];
  readonly ways: readonly Way[];
}

export interface CandidateList {
  readonly candidates: readonly Candidate[];
  readonly beginnings: readonly Beginning[];
}

/** A candidate of this process; `added`: asks since the fleet was told. */
type Row = Candidate & { added: number; users: string[]; ways: Way[] };

const HALF_LIFE = 3 * 24 * 3_600_000;
/** Time in which a query must be asked twice to be asked again (ms). */
const ASKED_AGAIN = 7 * 24 * 3_600_000;
const MAX_WAYS = 4;
const MAX_USERS = 8;
const MAX_BEGINNINGS = 50;
/** Bytes of all bodies of a process, and of the list in the fleet. */
const MAX_BYTES = 4 * 1024 * 1024;
/** Bytes of a way beside its body, rounded up. */
const OVERHEAD = 1_000;
/** Weight of the latest figure in an average. */
const LATEST = 1 / 4;
const NOTE = 'warm:candidates';
const TASK_LIFE_MS = 10_000;
const VERSION = 1;
const EMPTY: CandidateList = { candidates: [], beginnings: [] };
const [deflate, inflate] = [promisify(deflateRaw), promisify(inflateRaw)];

type Times = Pick<Candidate, 'asks' | 'last' | 'before'>;
const asksAt = ({ asks, last }: Pick<Times, 'asks' | 'last'>, now: number) =>
  asks * 2 ** (Math.min(0, last - now) / HALF_LIFE);
/** Worth of a candidate: engine time that users do not wait for. */
export const scoreOf = (one: Times & Pick<Candidate, 'ms'>, now: number): number =>
  asksAt(one, now) * Math.max(1, one.ms);
const counts = ({ before }: Times, now: number) => before > now - ASKED_AGAIN;
const bytesOf = ({ ways }: Pick<Candidate, 'ways'>) =>
  ways.reduce(
    (sum, { body, query }) => sum + body.length + String(query).length + OVERHEAD,
    OVERHEAD,
  );

function createRows(clock: Pick<Clock, 'wall'>) {
  const rows = new Map<string, Row>();
  let bytes = 0;

  function forget(row: Row): void {
    rows.delete(row.digest);
    bytes -= bytesOf(row);
  }

  return {
    rows,
    forget,
    /** Adds a way. Rows that are worth least go; the worth of the new one is not known yet. */
    add(row: Row, way: Way): void {
      if (rows.has(row.digest)) bytes -= bytesOf(row);
      row.ways.push(way);
      bytes += bytesOf(row);
      rows.set(row.digest, row);
      if (bytes <= MAX_BYTES) return;
      const now = clock.wall();
      const byWorth = [...rows.values()].sort((a, b) => scoreOf(b, now) - scoreOf(a, now));
      for (const one of fairly(byWorth, rows.size).toReversed())
        if (one !== row && bytes > MAX_BYTES * 0.9) forget(one);
    },
  };
}

const NEVER_ASKED = { asks: 0, added: 0, last: 0, before: 0, ms: 0, bytes: 0 };

function countAnswer(row: Row, event: EventOf<'xmla-answered'>, now: number): boolean {
  const { outcome, engine, complete } = event;
  const isMiss = outcome.kind === 'miss';
  // An answer that is not stored, such as a Fault, would be asked for in vain.
  // A hit was wanted also where its client left early.
  const isAsk = outcome.kind === 'hit' || (isMiss && complete && outcome.detail === undefined);
  if (!isAsk) return false;
  const faded = 2 ** (Math.min(0, row.last - now) / HALF_LIFE);
  row.asks = row.asks * faded + 1;
  row.added = row.added * faded + 1;
  row.before = row.last;
  row.last = now;
  row.bytes = Math.max(row.bytes, event.bytes);
  const ms = isMiss ? (engine?.last ?? 0) : 0;
  if (row.ms === 0) row.ms = ms || event.saved;
  else if (ms > 0) row.ms += (ms - row.ms) * LATEST;
  return true;
}

export type Candidates = ReturnType<typeof createCandidates>;
/**
 * Notes which queries are asked, how often, how, and what they cost: what the warm-up asks again.
 * The fleet has one list. With `mode: off` nothing is kept.
 */
export function createCandidates({ clock, fleet, emit }: Pick<Core, 'clock' | 'fleet' | 'emit'>) {
  const { rows, add, forget } = createRows(clock);
  const beginnings = new LRUCache<string, Beginning>({ max: MAX_BEGINNINGS });
  let settings: Pick<WarmConfig, 'mode' | 'queries'> = { mode: 'off', queries: 0 };
  let isNew = false;
  /** Two at once would read the same list, and the second drop what the first has added. */
  const inTurn = oneAfterTheOther();

  function failed(error: unknown): void {
    isNew = true;
    emit({ type: 'redis-failed', operation: 'warm-up', error });
  }

  async function merge(): Promise<CandidateList> {
    if (!(await fleet.hold(NOTE, TASK_LIFE_MS))) return readList(fleet);
    try {
      const before = await readList(fleet);
      isNew = false;
      const now = clock.wall();
      const list = merged(before, [...rows.values()], [...beginnings.values()], settings, now);
      for (const row of rows.values()) {
        row.added = 0;
        if (row.last > 0 && row.last < now - ASKED_AGAIN) forget(row);
      }
      const text = await deflate(JSON.stringify({ ...list, version: VERSION }));
      await fleet.write(NOTE, text.toString('base64'), NOTE);
      return list;
    } finally {
      await fleet.leave(NOTE);
    }
  }

  return {
    on(event: GatewayEvent): void {
      if (event.type !== 'xmla-answered' || rows.size === 0) return;
      const row = rows.get(event.digest);
      if (row !== undefined && countAnswer(row, event, clock.wall())) isNew = true;
    },
    /** Notes how a user asks. `make` is called for a new way; undefined: it may not be kept. */
    noteWay(
      digest: string,
      part: string,
      user: string,
      make: () => (Pick<Candidate, 'subject' | 'project' | 'catalogs'> & { way: Way }) | undefined,
    ): void {
      if (settings.mode === 'off') return;
      const known = rows.get(digest);
      if (known !== undefined && !known.users.includes(user) && known.users.length < MAX_USERS) {
        known.users.push(user);
      }
      if (known?.ways.some((way) => way.part === part) || known?.ways.length === MAX_WAYS) return;
      const made = make();
      if (made === undefined) return;
      const { way, ...facts } = made;
      add(known ?? { digest, ...facts, ...NEVER_ASKED, users: [user], ways: [] }, way);
      isNew = true;
    },
    noteBeginning(profile: string, make: () => KeptRequest | undefined): void {
      if (settings.mode === 'off') return;
      // What an earlier beginning names may be gone.
      const request = make() ?? beginnings.get(profile);
      if (request === undefined) return;
      beginnings.set(profile, { ...request, profile, at: clock.wall() });
      isNew = true;
    },
    /** Reads the list of the fleet. Rejects when it cannot be read. */
    async list(): Promise<CandidateList> {
      if (settings.mode === 'off') return EMPTY;
      return isNew ? inTurn(merge) : readList(fleet);
    },
    /** Tells the fleet what is new. Never rejects. */
    async share(): Promise<void> {
      if (isNew && settings.mode !== 'off') await inTurn(merge).catch(failed);
    },
    /** `mode: off` forgets all, also in the fleet. */
    configure(next: Pick<WarmConfig, 'mode' | 'queries'>): void {
      const wasOn = settings.mode === 'auto';
      settings = next;
      if (next.mode === 'auto' || !wasOn) return;
      [...rows.values()].forEach(forget);
      beginnings.clear();
      // Those that go on tell it anew.
      fleet.write(NOTE, '').catch(failed);
    },
  };
}

async function readList(fleet: FleetStore): Promise<CandidateList> {
  const text = await fleet.note(NOTE);
  if (!text) return EMPTY;
  try {
    const raw = await inflate(Buffer.from(text, 'base64'), { maxOutputLength: 4 * MAX_BYTES });
    const list = JSON.parse(raw.toString()) as CandidateList & { readonly version: number };
    return list.version === VERSION ? list : EMPTY;
  } catch {
    // It is of another version, or not written by a gateway.
    return EMPTY;
  }
}

function merged(
  list: CandidateList,
  rows: readonly Row[],
  beginnings: readonly Beginning[],
  { queries }: Pick<WarmConfig, 'queries'>,
  now: number,
): CandidateList {
  const all = new Map(list.candidates.map((one) => [one.digest, one]));
  for (const row of rows) all.set(row.digest, together(row, all.get(row.digest)));
  const begun = new Map(list.beginnings.map((one) => [one.profile, one]));
  for (const one of beginnings) begun.set(one.profile, one);
  const latest = [...begun.values()].sort((a, b) => b.at - a.at).slice(0, MAX_BEGINNINGS);
  let room = MAX_BYTES;
  const isAsked = (one: Candidate) => Number(counts(one, now));
  const sorted = [...all.values()]
    .filter(({ last }) => last > now - ASKED_AGAIN)
    .sort((a, b) => isAsked(b) - isAsked(a) || scoreOf(b, now) - scoreOf(a, now));
  const best = fairly(sorted, 2 * queries).filter((one) => (room -= bytesOf(one)) >= 0);
  return { candidates: best, beginnings: latest };
}

function together(row: Row, listed: Candidate | undefined): Candidate {
  const { added, ...own } = row;
  if (listed === undefined) return own;
  const moments = [row.last, row.before, listed.last, listed.before];
  const [last = 0, before = 0] = [...new Set(moments)].sort((a, b) => b - a);
  const asks = asksAt({ asks: added, last: row.last }, last) + asksAt(listed, last);
  const parts = new Set(row.ways.map(({ part }) => part));
  const ways = [...row.ways, ...listed.ways.filter(({ part }) => !parts.has(part))];
  return {
    ...own,
    asks,
    last,
    before,
    ms: row.ms || listed.ms,
    bytes: Math.max(row.bytes, listed.bytes),
    users: [...new Set([...row.users, ...listed.users])].slice(0, MAX_USERS),
    ways: ways.slice(0, MAX_WAYS),
  };
}

/** Part of a list for what one user alone asked, where others' asks would fill the rest. */
const OF_ONE_USER = 1 / 4;

/** Takes the first of a list that is sorted by worth, fair to all users. */
function fairly<One extends Pick<Candidate, 'users'>>(sorted: readonly One[], most: number): One[] {
  const taken = new Map<string, number>();
  const { within = [], beyond = [] } = Object.groupBy(sorted, ({ users: [user, other] }) => {
    if (user === undefined || other !== undefined) return 'within';
    taken.set(user, (taken.get(user) ?? 0) + 1);
    return (taken.get(user) ?? 0) <= Math.ceil(most * OF_ONE_USER) ? 'within' : 'beyond';
  });
  return [...within, ...beyond].slice(0, most);
}

/** Largest part of metadata in a run. */
const OF_METADATA = 1 / 2;

/** Plans a run: what clients ask first of the busiest catalogs, then what is worth most. */
export function planned(candidates: readonly Candidate[], most: number, now: number) {
  const all = candidates.filter((one) => counts(one, now));
  const score = (one: Candidate) => scoreOf(one, now);
  const heat = new Map<string, number>();
  const catalogOf = ({ catalogs, project }: Candidate) => catalogs[0] ?? project;
  for (const one of all) heat.set(catalogOf(one), (heat.get(catalogOf(one)) ?? 0) + score(one));
  const heatOf = (one: Candidate) => heat.get(catalogOf(one)) ?? 0;
  const { metadata = [], queries = [] } = Object.groupBy(all, ({ subject }) =>
    subject === 'Execute' ? 'queries' : 'metadata',
  );
  metadata.sort((a, b) => heatOf(b) - heatOf(a) || score(b) - score(a));
  queries.sort((a, b) => score(b) - score(a));
  const share = Math.max(Math.floor(most * OF_METADATA), most - queries.length);
  const first = fairly(metadata, share);
  return [...first, ...fairly(queries, most - first.length)];
}
