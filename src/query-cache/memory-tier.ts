import { LRUCache } from 'lru-cache';
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
  wall: () => number;
}): MemoryTier {
  if (options.maxBytes === 0) {
    return { get: () => undefined, set() {}, clear() {}, usage: () => ({ entries: 0, bytes: 0 }) };
  }
  const answers = new LRUCache<string, StoredAnswer>({
    maxSize: options.maxBytes,
    sizeCalculation: (answer, key) => answer.body.length + key.length + ENTRY_OVERHEAD,
  });
  return {
    get(key) {
      const answer = answers.get(key);
      if (answer === undefined) return undefined;
      if (remaining(answer, options.wall()) > 0) return answer;
      answers.delete(key);
      return undefined;
    },
    set(key, answer) {
      const present = answers.peek(key);
      if (present !== undefined && present.requestedAt > answer.requestedAt) return;
      answers.set(key, answer);
    },
    clear: () => answers.clear(),
    usage: () => ({ entries: answers.size, bytes: answers.calculatedSize }),
  };
}
