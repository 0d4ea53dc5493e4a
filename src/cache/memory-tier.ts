import { LRUCache } from 'lru-cache';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import { onlyOnce } from '../common/in-turn.ts';
import {
  type AnswerText,
  bytesOf,
  GZIP_FROM,
  inflated,
  makeVariant,
  type StoredAnswer,
  variantBytes,
} from './stored-answer.ts';
import { type PartDigests, queryDigestOf } from './key.ts';

/** Bytes beside its bodies (measured with 100,000 entries). */
const ENTRY_OVERHEAD = 964;
/** An entry with fewer hits hardly paid for its room. */
const WORTH_KEEPING = 2;
/** Parts of the memory for long texts kept uncompressed: all of them, and one. */
const PLAIN_PART = 1 / 2;
const ONE_PLAIN_PART = 1 / 32;

interface MemoryEntry {
  readonly answer: StoredAnswer;
  readonly digests: PartDigests;
  /** Monotonic (ms), for a wall clock that is set back. */
  readonly until: number;
  readonly filledHere: boolean;
  /** A short text compressed; a long one, which lies compressed, as it is. */
  readonly variant: AnswerText | undefined;
  hits: number;
  used: number;
  warmed: boolean;
}

/** How far the wall clocks of two gateways may differ (ms). */
const CLOCK_TOLERANCE = 60_000;
/** Milliseconds of lifetime left; 0 or less when too old, none at all when from the future. */
export function remaining(answer: StoredAnswer, wall: number): number {
  if (answer.requestedAt > wall + CLOCK_TOLERANCE) return -Infinity;
  return answer.requestedAt + answer.lifetime - wall;
}
/** Milliseconds left under a ttl that may have been shortened since. */
export const timeLeft = (answer: StoredAnswer, ttl: number, wall: number): number =>
  Math.min(remaining(answer, wall), answer.requestedAt + ttl - wall);
/** Answers of less engine time are not asked for ahead (ms): few users notice that wait. */
const SLOW_MS = 250;
const LAST_PART = 1 / 10;
/** True where an answer took the engine long, and less than a tenth of its time is left. */
export const isEnding = (answer: StoredAnswer, ttl: number, left: number): boolean =>
  answer.engineMilliseconds >= SLOW_MS && left < LAST_PART * Math.min(answer.lifetime, ttl);
export const ageOf = ({ requestedAt }: StoredAnswer, wall: number): number =>
  Math.max(0, wall - requestedAt);
const leftOf = ({ answer, until }: MemoryEntry, now: number, wall: number) =>
  Math.min(until - now, remaining(answer, wall));

interface TierOptions {
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly account: Pick<BodyAccount, 'open' | 'countSending'>;
  readonly compress?: typeof makeVariant;
  /** How long past its lifetime an entry is kept (ms). */
  readonly staleIfError?: () => number;
}
export type MemoryTier = ReturnType<typeof createMemoryTier>;
/**
 * Tier 1: answers in memory, the least recently used dropped first. Also counts bodies that clients
 * still need and no entry holds, once each.
 */
export function createMemoryTier(options: TierOptions) {
  const { maxBytes, clock, account, staleIfError = () => 0 } = options;
  const uses = createBodyUses(account);
  const entries = createEntries(maxBytes, uses);
  const { current, evicted, warmed } = entries;
  const peeked = (entry: MemoryEntry) => ({
    ...entry,
    left: leftOf(entry, clock.now(), clock.wall()),
  });

  return {
    /** @param past how much longer than its lifetime an entry counts (ms) */
    get(key: string, uses = false, wall = clock.wall(), past = 0): StoredAnswer | undefined {
      const entry = current.table.get(key);
      if (entry === undefined) return undefined;
      const now = clock.now();
      const left = leftOf(entry, now, wall);
      if (left + past <= 0) {
        if (left + staleIfError() <= 0) current.table.delete(key);
        return undefined;
      }
      if (!uses) return entry.answer;
      entry.hits += 1;
      entry.used = now;
      if (entry.warmed) {
        warmed.hits += 1;
        warmed.unused -= 1;
        entry.warmed = false;
      }
      return entry.answer;
    },
    /**
     * Keeps the answer, unless a later one is there (between gateways: by wall clocks). A `fill` is
     * of this process, later than its earlier ones; `fresh` replaces any; `warm` is for no user.
     */
    set(
      key: string,
      answer: StoredAnswer,
      digests: PartDigests,
      fill?: 'usual' | 'fresh' | 'warm',
    ): void {
      const [used, wall] = [clock.now(), clock.wall()];
      const present = current.table.peek(key);
      const filledHere = fill !== undefined;
      const isNewest = fill === 'fresh' || (filledHere && present?.filledHere === true);
      const later = present !== undefined && present.answer.requestedAt > answer.requestedAt;
      if (!isNewest && later && leftOf(present, used, wall) > 0) return;
      if (present?.warmed === true) warmed.wasted += 1;
      const until = used + remaining(answer, wall);
      const isWarm = fill === 'warm';
      const unused = { variant: undefined, hits: 0, used, warmed: isWarm };
      entries.put(key, { answer, digests, until, filledHere, ...unused });
    },
    /** Without dropping an entry put or used since then (monotonic, ms). */
    hasRoom(bytes: number, since: number): boolean {
      const { table } = current;
      let free = maxBytes - table.calculatedSize - ENTRY_OVERHEAD;
      for (const key of table.rkeys()) {
        const entry = table.peek(key);
        if (entry === undefined || free >= bytes || entry.used >= since) break;
        free += entryBytes(entry, key);
      }
      return free >= bytes;
    },
    textOf: createVariants(options, entries),
    hold: uses.hold,
    /** Does not count as use. `left` by both clocks. */
    peek(key: string) {
      const entry = current.table.peek(key);
      return entry && peeked(entry);
    },
    peekRecent: (most: number) => [...current.table.values().take(most)].map(peeked),
    list: () => ({ total: current.table.size, each: describe(current, clock) }),
    /** Takes as long with many entries as with one. */
    clear: entries.clear,
    usage: () => ({ entries: current.table.size, bytes: current.table.calculatedSize }),
    evictions: () => ({ ...evicted }),
    /** Filled for no user: hit by a user, or dropped without that. */
    warmed: () => ({ hits: warmed.hits, wasted: warmed.wasted }),
  };
}

const bodyOf = (text: AnswerText): Buffer => (Buffer.isBuffer(text) ? text : text.tail);

/** @returns whether it is the first of them, or was the last */
function countIn(counts: Map<Buffer, number>, body: Buffer, by: 1 | -1): boolean {
  const before = counts.get(body) ?? 0;
  if (before + by === 0) counts.delete(body);
  else counts.set(body, before + by);
  return before === 0 || before + by === 0;
}

function createBodyUses(account: TierOptions['account']) {
  const holders = new Map<Buffer, number>();
  let kept = new Map<Buffer, number>();

  function hold(body: Buffer, by: 1 | -1): void {
    if (countIn(holders, body, by) && !kept.has(body)) account.countSending(by * body.length);
  }

  return {
    hold(text: AnswerText): () => void {
      const body = bodyOf(text);
      hold(body, 1);
      return onlyOnce(() => hold(body, -1));
    },
    keep(text: AnswerText, by: 1 | -1): void {
      const body = bodyOf(text);
      if (countIn(kept, body, by) && holders.has(body)) account.countSending(-by * body.length);
    },
    keepNone(): void {
      const before = kept;
      kept = new Map();
      for (const body of holders.keys()) if (before.has(body)) account.countSending(body.length);
    },
  };
}

type Entries = ReturnType<typeof createEntries>;
function createEntries(maxBytes: number, uses: ReturnType<typeof createBodyUses>) {
  const evicted = { all: 0, unused: 0 };
  /** `unused`: in the table, and not hit yet. */
  const warmed = { hits: 0, wasted: 0, unused: 0 };
  const current = createTables();

  function createTables() {
    const table = new LRUCache<string, MemoryEntry>({
      // It knows no limit of 0; no entry is as small as this.
      maxSize: Math.max(1, maxBytes),
      sizeCalculation: entryBytes,
      dispose(entry, key, reason) {
        count(entry, -1);
        current.plainKeys.delete(key);
        if (reason !== 'set') current.keys.delete(key);
        if (entry.warmed && reason !== 'set') warmed.wasted += 1;
        if (reason !== 'evict') return;
        evicted.all += 1;
        if (entry.hits < WORTH_KEEPING) evicted.unused += 1;
      },
    });
    /** A walk over the table takes many turns, in which entries come, go and are used. */
    const keys = new Set<string>();
    return { table, keys, plainKeys: new Set<string>(), plainBytes: 0 };
  }

  function count({ answer, variant, warmed: isWarm }: MemoryEntry, by: 1 | -1): void {
    if (isWarm) warmed.unused += by;
    uses.keep(answer.body, by);
    if (variant === undefined) return;
    uses.keep(variant, by);
    if (Buffer.isBuffer(variant)) current.plainBytes += by * variant.length;
  }

  /** In this order a body that replaces itself is counted once. */
  function put(key: string, entry: MemoryEntry): void {
    const { table, keys } = current;
    count(entry, 1);
    table.set(key, entry);
    keys.add(key);
    if (table.peek(key) === entry) return;
    count(entry, -1);
    keys.delete(key);
  }

  /** Replaces the tables: no entry is disposed of one by one. */
  function clear(): void {
    warmed.wasted += warmed.unused;
    warmed.unused = 0;
    Object.assign(current, createTables());
    uses.keepNone();
  }

  return { current, evicted, warmed, put, clear };
}

function createVariants(
  { maxBytes, clock, account, compress = makeVariant }: TierOptions,
  { current, put }: Entries,
) {
  const tried = new WeakSet<StoredAnswer>();
  let isMaking = false;
  const usedAt = (key: string) => current.table.peek(key)?.used ?? 0;

  /** One at a time: logins need the same threads. */
  async function addVariant(key: string, answer: StoredAnswer): Promise<void> {
    if (isMaking || tried.has(answer)) return;
    const { body, session } = answer;
    const isShort = Buffer.isBuffer(body);
    const room = account.open('value');
    if (!room.grow(isShort ? body.length : 2 * body.length)) return;
    tried.add(answer);
    isMaking = true;
    const making = isShort ? compress(body, session?.at ?? 0) : inflated(body);
    const variant = await making.catch(() => undefined);
    isMaking = false;
    room.release();
    const entry = current.table.peek(key);
    if (variant === undefined || entry?.answer !== answer) return;
    const grown = { ...entry, variant };
    // Too large, it would be dropped, and the answer with it.
    if (entryBytes(grown, key) > maxBytes) return;
    if (!isShort) makeRoomForPlain(body.length);
    put(key, grown);
    if (!isShort) current.plainKeys.add(key);
  }

  /** Least recently used first; their answers stay, unless their time is over. */
  function makeRoomForPlain(bytes: number): void {
    const byUse = [...current.plainKeys].sort((a, b) => usedAt(a) - usedAt(b));
    for (const key of byUse) {
      if (current.plainBytes + bytes <= maxBytes * PLAIN_PART) return;
      const entry = current.table.peek(key);
      const isOver = entry === undefined || leftOf(entry, clock.now(), clock.wall()) <= 0;
      if (isOver) current.table.delete(key);
      else put(key, { ...entry, variant: undefined });
    }
  }

  const isWorth = ({ answer: { body }, hits }: MemoryEntry): boolean =>
    Buffer.isBuffer(body)
      ? body.length >= GZIP_FROM
      : hits >= WORTH_KEEPING && body.length <= maxBytes * ONE_PLAIN_PART;

  /** Text in the wanted form, or in the other one, while making the wanted if it is worth that. */
  return function textOf(key: string, answer: StoredAnswer, compressed: boolean): AnswerText {
    const { body } = answer;
    if (Buffer.isBuffer(body) !== compressed) return body;
    const entry = current.table.peek(key);
    if (entry?.answer !== answer) return body;
    if (entry.variant === undefined && isWorth(entry)) void addVariant(key, answer);
    return entry.variant ?? body;
  };
}

/** Bytes as they count, seconds. Takes the time once: there may be hundreds of thousands. */
function* describe(current: Entries['current'], clock: Clock) {
  const [now, wall] = [clock.now(), clock.wall()];
  const present = [...current.keys];
  for (const key of present) {
    const entry = current.table.peek(key);
    if (entry === undefined) continue;
    const age = ageOf(entry.answer, wall);
    yield {
      digest: queryDigestOf(entry.digests),
      bytes: entryBytes(entry, key),
      hits: entry.hits,
      age: Math.round(age / 1000),
      rest: Math.round(Math.max(-age, leftOf(entry, now, wall)) / 1000),
    };
  }
}

const entryBytes = ({ answer, variant }: MemoryEntry, key: string) =>
  bytesOf(answer.body) + (variant ? bytesBeside(variant) : 0) + key.length + ENTRY_OVERHEAD;
const bytesBeside = (variant: AnswerText) =>
  Buffer.isBuffer(variant) ? variant.length : variantBytes(variant);
