import { LRUCache } from 'lru-cache';
import type { Clock } from '../common/clock.ts';
import type { BodiesInUse } from './bodies-in-use.ts';
import type { GzipVariant } from './gzip.ts';
import type { PartDigests } from './key.ts';
import type { GzipSource } from './query.ts';
import { remaining, type StoredAnswer } from './stored-answer.ts';

/**
 * What an entry needs beside its body and its variant: key, headers, the digests of the parts of its key, the
 * bookkeeping of the LRU and of the bodies in use (bytes; measured with 100,000 entries: 784 with the key, and some 150
 * outside of the heap that Node.js counts).
 */
const ENTRY_OVERHEAD = 904;

/** An entry as it is looked at without being used. */
export interface PeekedEntry {
  readonly answer: StoredAnswer;
  readonly digests: PartDigests;
  /** Milliseconds for which it may still be used, by both clocks; 0 or less when it is too old. */
  readonly left: number;
}

export interface MemoryTier {
  get(key: string): StoredAnswer | undefined;
  /**
   * Keeps the answer, unless one is there whose engine request began later: where one of the two is from another
   * gateway, the wall clocks say so.
   * @param digests those of the parts of its key, to look for similar entries
   * @param fill that of this process which brought it, and which began after all of this process that are there;
   *   a fresh one takes the place of whatever is there. Left out for what came from tier 2
   */
  set(key: string, answer: StoredAnswer, digests: PartDigests, fill?: 'usual' | 'fresh'): void;
  /** The compressed variant of this very answer; undefined when the entry holds another, or is gone. */
  gzipOf(key: string, answer: StoredAnswer): GzipSource | undefined;
  /** Looks at an entry: that does not count as use. */
  peek(key: string): PeekedEntry | undefined;
  /** Looks at so many entries, the most recently used first; that does not count as use. */
  peekRecent(most: number): readonly PeekedEntry[];
  clear(): void;
  /** What it holds now. */
  usage(): { readonly entries: number; readonly bytes: number };
}

interface Entry {
  readonly answer: StoredAnswer;
  readonly digests: PartDigests;
  /** By the monotonic clock (ms): a wall clock that is set back must not make it live longer. */
  readonly until: number;
  /** Whether a fill of this process brought it. */
  readonly filledHere: boolean;
  readonly variant: GzipVariant | undefined;
}

/** Tier 1: the answers in the memory of this process, the least recently used dropped first. */
export function createMemoryTier(options: {
  /** Bytes of all entries together, bodies, variants and overhead. 0 keeps nothing. */
  maxBytes: number;
  clock: Clock;
  /** Told what is counted here; left out where the rest is not counted. */
  inUse?: Pick<BodiesInUse, 'kept' | 'dropped'>;
}): MemoryTier {
  const { clock, inUse } = options;
  const entries = new LRUCache<string, Entry>({
    // It knows no limit of 0; no entry is as small as this.
    maxSize: Math.max(1, options.maxBytes),
    sizeCalculation: bytesOf,
    dispose: (entry) => bodiesOf(entry).forEach((body) => inUse?.dropped(body)),
  });
  const left = ({ answer, until }: Entry) =>
    Math.min(until - clock.now(), remaining(answer, clock.wall()));
  const peeked = (entry: Entry): PeekedEntry => ({
    answer: entry.answer,
    digests: entry.digests,
    left: left(entry),
  });

  /** A body that takes the place of itself is never counted twice, nor not at all in between. */
  function put(key: string, entry: Entry): void {
    for (const body of bodiesOf(entry)) inUse?.kept(body);
    entries.set(key, entry);
    // What is too large alone was not taken.
    if (entries.peek(key) === entry) return;
    for (const body of bodiesOf(entry)) inUse?.dropped(body);
  }

  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (left(entry) > 0) return entry.answer;
      entries.delete(key);
      return undefined;
    },
    set(key, answer, digests, fill) {
      const present = entries.peek(key);
      const isNewest = fill === 'fresh' || (fill === 'usual' && present?.filledHere === true);
      const later = present !== undefined && present.answer.requestedAt > answer.requestedAt;
      if (!isNewest && later && left(present) > 0) return;
      const until = clock.now() + remaining(answer, clock.wall());
      const filledHere = fill !== undefined;
      put(key, { answer, digests, until, filledHere, variant: undefined });
    },
    gzipOf(key, answer) {
      const found = entries.peek(key);
      if (found?.answer !== answer) return undefined;
      return {
        variant: found.variant,
        keep(variant) {
          const entry = entries.peek(key);
          if (entry?.answer !== answer) return;
          const grown = { ...entry, variant };
          // What is too large alone would be dropped, and the answer with it.
          if (bytesOf(grown, key) <= options.maxBytes) put(key, grown);
        },
      };
    },
    peek(key) {
      const entry = entries.peek(key);
      return entry && peeked(entry);
    },
    peekRecent: (most) => [...entries.values().take(most)].map(peeked),
    clear: () => entries.clear(),
    usage: () => ({ entries: entries.size, bytes: entries.calculatedSize }),
  };
}

function bodiesOf({ answer, variant }: Entry): readonly Buffer[] {
  return variant === undefined ? [answer.body] : [answer.body, variant.tail];
}

function bytesOf({ answer, variant }: Entry, key: string): number {
  return answer.body.length + (variant?.bytes ?? 0) + key.length + ENTRY_OVERHEAD;
}
