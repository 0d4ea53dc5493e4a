import { LRUCache } from 'lru-cache';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
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

/** What an entry needs beside its bodies (bytes; measured with 100,000 entries). */
const ENTRY_OVERHEAD = 964;

/** An entry with fewer hits hardly paid for its room. */
const WORTH_KEEPING = 2;
/** Of the memory, what long texts may take all together that are kept as they are as well, and what one of them may. */
const OF_PLAIN = 1 / 2;
const OF_ONE_PLAIN = 1 / 32;

interface Entry {
  readonly answer: StoredAnswer;
  readonly digests: PartDigests;
  /** Monotonic (ms), for a wall clock that is set back. */
  readonly until: number;
  readonly filledHere: boolean;
  /** Of a short text the compressed one, and of a long one, which lies compressed, the text as it is. */
  readonly variant: AnswerText | undefined;
  /** How often it was used. */
  hits: number;
  /** When it was put or used last (monotonic, ms). */
  used: number;
  /** Filled for no user, and not used yet. */
  warmed: boolean;
}

/** How far the wall clocks of two gateways may differ (ms). */
const CLOCK_TOLERANCE = 60_000;
/** Milliseconds for which it may be used; 0 or less when it is too old, or from the future. */
export function remaining(answer: StoredAnswer, wall: number): number {
  if (answer.requestedAt > wall + CLOCK_TOLERANCE) return 0;
  return answer.requestedAt + answer.lifetime - wall;
}
/** The same under a ttl that may have been shortened after the answer was stored. */
export const timeLeft = (answer: StoredAnswer, ttl: number, wall: number): number =>
  Math.min(remaining(answer, wall), answer.requestedAt + ttl - wall);
/** Milliseconds since the engine request began. */
export const ageOf = ({ requestedAt }: StoredAnswer, wall: number): number =>
  Math.max(0, wall - requestedAt);

export type MemoryTier = ReturnType<typeof createMemoryTier>;
/**
 * Tier 1: answers in memory, the least recently used dropped first. Also counts, once each, bodies
 * that clients still need and no entry holds. `maxBytes`: of all entries; 0 keeps nothing.
 */
export function createMemoryTier(options: {
  maxBytes: number;
  clock: Clock;
  account: Pick<BodyAccount, 'open' | 'countSending'>;
  compress?: typeof makeVariant;
}) {
  const { maxBytes, clock, account, compress = makeVariant } = options;
  const evicted = { all: 0, unused: 0 };
  const warmed = { hits: 0, wasted: 0 };
  const entries = new LRUCache<string, Entry>({
    // It knows no limit of 0; no entry is as small as this.
    maxSize: Math.max(1, maxBytes),
    sizeCalculation: entryBytes,
    dispose(entry, key, reason) {
      countEntry(entry, -1);
      plainKeys.delete(key);
      if (reason !== 'set') keys.delete(key);
      if (entry.warmed && reason !== 'set') warmed.wasted += 1;
      if (reason !== 'evict') return;
      evicted.all += 1;
      if (entry.hits < WORTH_KEEPING) evicted.unused += 1;
    },
  });
  /** Those of the entries: a walk through these takes many turns, in which entries come, go and are used. */
  const keys = new Set<string>();
  /** How many clients need each body (of a compressed one its tail), and how many entries hold it. */
  const uses = new Map<Buffer, { holders: number; entries: number }>();
  const tried = new WeakSet<StoredAnswer>();
  let isMaking = false;
  /** Of long texts that are kept as they are as well: their bytes, and their keys. */
  let plain = 0;
  const plainKeys = new Set<string>();
  const left = ({ answer, until }: Entry, now = clock.now(), wall = clock.wall()) =>
    Math.min(until - now, remaining(answer, wall));
  const usedAt = (key: string) => entries.peek(key)?.used ?? 0;
  const peeked = (entry: Entry) => ({ ...entry, left: left(entry) });

  /** Those that are there when it begins, as far as they still are. There may be hundreds of thousands: the time is taken once. */
  function* described() {
    const [now, wall] = [clock.now(), clock.wall()];
    const present = [...keys];
    for (const key of present) {
      const entry = entries.peek(key);
      if (entry === undefined) continue;
      yield {
        digest: queryDigestOf(entry.digests),
        bytes: entryBytes(entry, key),
        hits: entry.hits,
        age: Math.round(Math.max(0, wall - entry.answer.requestedAt) / 1000),
        rest: Math.round(Math.max(0, left(entry, now, wall)) / 1000),
      };
    }
  }

  /** In this order, a body that takes its own place is never counted twice, nor not at all. */
  function put(key: string, entry: Entry): void {
    countEntry(entry, 1);
    entries.set(key, entry);
    keys.add(key);
    if (entries.peek(key) === entry) return;
    // What is too large alone was not taken.
    countEntry(entry, -1);
    keys.delete(key);
  }

  function countEntry({ answer, variant }: Entry, kept: number): void {
    countUse(answer.body, 0, kept);
    if (variant === undefined) return;
    countUse(variant, 0, kept);
    if (Buffer.isBuffer(variant)) plain += kept * variant.length;
  }

  function countUse(text: AnswerText, holders: number, kept: number): void {
    const body = Buffer.isBuffer(text) ? text : text.tail;
    const known = uses.get(body);
    const use = known ?? { holders: 0, entries: 0 };
    const wasSent = use.holders > 0 && use.entries === 0;
    use.holders += holders;
    use.entries += kept;
    if (use.holders === 0 && use.entries === 0) uses.delete(body);
    else if (known === undefined) uses.set(body, use);
    const isSent = use.holders > 0 && use.entries === 0;
    if (isSent !== wasSent) account.countSending(wasSent ? -body.length : body.length);
  }

  /** In the background, one at a time: logins need the same threads. Again only for want of room. */
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
    const entry = entries.peek(key);
    if (variant === undefined || entry?.answer !== answer) return;
    const grown = { ...entry, variant };
    // What is too large alone would be dropped, and the answer with it.
    if (entryBytes(grown, key) > maxBytes) return;
    if (!isShort) makeRoomForPlain(body.length);
    put(key, grown);
    if (!isShort) plainKeys.add(key);
  }

  /** Those give way that were used least recently; their answers stay, unless their time is over. */
  function makeRoomForPlain(bytes: number): void {
    const byUse = [...plainKeys].sort((a, b) => usedAt(a) - usedAt(b));
    for (const key of byUse) {
      if (plain + bytes <= maxBytes * OF_PLAIN) return;
      const entry = entries.peek(key);
      if (entry === undefined || left(entry) <= 0) entries.delete(key);
      else put(key, { ...entry, variant: undefined });
    }
  }

  /** Whether its variant is worth its room. */
  const isWorth = ({ answer: { body }, hits }: Entry): boolean =>
    Buffer.isBuffer(body)
      ? body.length >= GZIP_FROM
      : hits >= WORTH_KEEPING && body.length <= maxBytes * OF_ONE_PLAIN;

  return {
    /** @param uses whether a client gets it, which is counted */
    get(key: string, uses = false, wall = clock.wall()): StoredAnswer | undefined {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      const now = clock.now();
      if (left(entry, now, wall) <= 0) {
        entries.delete(key);
        return undefined;
      }
      if (!uses) return entry.answer;
      entry.hits += 1;
      entry.used = now;
      if (entry.warmed) warmed.hits += 1;
      entry.warmed = false;
      return entry.answer;
    },
    /**
     * Keeps the answer, unless one is there that began later, by the wall clocks between gateways.
     * @param fill of this process, later than all of its own; `fresh` replaces whatever is there; `warm`: for no user
     */
    set(
      key: string,
      answer: StoredAnswer,
      digests: PartDigests,
      fill?: 'usual' | 'fresh' | 'warm',
    ): void {
      const present = entries.peek(key);
      const filledHere = fill !== undefined;
      const isNewest = fill === 'fresh' || (filledHere && present?.filledHere === true);
      const later = present !== undefined && present.answer.requestedAt > answer.requestedAt;
      if (!isNewest && later && left(present) > 0) return;
      if (present?.warmed === true) warmed.wasted += 1;
      const used = clock.now();
      const until = used + remaining(answer, clock.wall());
      const isWarm = fill === 'warm';
      const unused = { variant: undefined, hits: 0, used, warmed: isWarm };
      put(key, { answer, digests, until, filledHere, ...unused });
    },
    /** Whether so many bytes more find room without one going that was put or used since then (monotonic, ms). */
    hasRoom(bytes: number, since: number): boolean {
      let free = maxBytes - entries.calculatedSize - ENTRY_OVERHEAD;
      for (const key of entries.rkeys()) {
        const entry = entries.peek(key);
        if (entry === undefined || free >= bytes || entry.used >= since) break;
        free += entryBytes(entry, key);
      }
      return free >= bytes;
    },
    /**
     * The text of this very answer, compressed or not, as it is wanted; the other way while that is not there. Begins to make it
     * where it is worth its room.
     */
    textOf(key: string, answer: StoredAnswer, compressed: boolean): AnswerText {
      const { body } = answer;
      if (Buffer.isBuffer(body) !== compressed) return body;
      const entry = entries.peek(key);
      if (entry?.answer !== answer) return body;
      if (entry.variant === undefined && isWorth(entry)) void addVariant(key, answer);
      return entry.variant ?? body;
    },
    /** Needs a body. Returns what ends that, once. */
    hold(body: AnswerText): () => void {
      countUse(body, 1, 0);
      let held = true;
      return () => {
        if (held) countUse(body, -1, 0);
        held = false;
      };
    },
    /** Does not count as use. `left` as of `remaining`, by both clocks. */
    peek(key: string) {
      const entry = entries.peek(key);
      return entry && peeked(entry);
    },
    /** The same of so many entries, the most recently used first. */
    peekRecent: (most: number) => [...entries.values().take(most)].map(peeked),
    /** All, in no order that means anything, also over several turns: bytes as they count, seconds since the engine was asked and until it ends. */
    list: () => ({ total: entries.size, each: described() }),
    clear: () => entries.clear(),
    usage: () => ({ entries: entries.size, bytes: entries.calculatedSize }),
    /** Entries that gave way to others since the start, and those of them that had no second hit. */
    evictions: () => ({ ...evicted }),
    /** Of entries that were filled for no user: those that a user hit, and those that went without that. */
    warmed: () => ({ ...warmed }),
  };
}

const entryBytes = ({ answer, variant }: Entry, key: string) =>
  bytesOf(answer.body) + (variant ? bytesBeside(variant) : 0) + key.length + ENTRY_OVERHEAD;
const bytesBeside = (variant: AnswerText) =>
  Buffer.isBuffer(variant) ? variant.length : variantBytes(variant);
