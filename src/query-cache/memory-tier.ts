import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import { remaining, type StoredAnswer } from './stored-answer.ts';

/** What an entry needs beside its body: key, headers, the LRU's own bookkeeping (measured, rounded up). */
const ENTRY_OVERHEAD = 512;

export interface MemoryTier {
  get(key: string): StoredAnswer | undefined;
  /** Keeps the answer, unless one is there whose engine request began later. */
  set(key: string, answer: StoredAnswer): void;
  clear(): void;
  /** What it holds now. */
  usage(): { readonly entries: number; readonly bytes: number };
}

/** Tier 1: the answers in the memory of this process, the least recently used dropped first. */
export function createMemoryTier(options: {
  /** Bytes of all entries together, bodies and overhead. 0 keeps nothing. */
  maxBytes: number;
  clock: Clock;
}): MemoryTier {
  if (options.maxBytes === 0) {
    return { get: () => undefined, set() {}, clear() {}, usage: () => ({ entries: 0, bytes: 0 }) };
  }
  const { clock } = options;
  const entries = new LRUCache<string, Entry>({
    maxSize: options.maxBytes,
    sizeCalculation: ({ answer }, key) => answer.body.length + key.length + ENTRY_OVERHEAD,
  });
  const isFresh = ({ answer, until }: Entry) =>
    clock.now() < until && remaining(answer, clock.wall()) > 0;

  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      if (isFresh(entry)) return entry.answer;
      entries.delete(key);
      return undefined;
    },
    set(key, answer) {
      const present = entries.peek(key);
      if (present && isFresh(present) && present.answer.requestedAt > answer.requestedAt) return;
      entries.set(key, { answer, until: clock.now() + remaining(answer, clock.wall()) });
    },
    clear: () => entries.clear(),
    usage: () => ({ entries: entries.size, bytes: entries.calculatedSize }),
  };
}

interface Entry {
  readonly answer: StoredAnswer;
  /** By the monotonic clock (ms): a wall clock that is set back must not make it live longer. */
  readonly until: number;
}
