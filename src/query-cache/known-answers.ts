import type { Clock } from '../clock.ts';
import type { HitSource } from '../reasons.ts';
import type { Epochs } from './epochs.ts';
import type { MemoryTier } from './memory-tier.ts';
import type { Client, GzipSource, KnownKey } from './query.ts';
import type { SharedEntries } from './shared-entries.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** What a client is told of an answer that is replayed; milliseconds. */
interface Recalled {
  readonly answer: StoredAnswer;
  readonly ttl: number;
  readonly age: number;
}

/** What of a query it takes to answer it under a key of before. */
export interface FetchedQuery {
  readonly ttl: number;
  readonly session: { readonly id: string } | undefined;
}

/** Finds answers under keys that were made before, without the query that they were made of. */
export interface KnownAnswers {
  /**
   * The answer that memory holds under a key, where both may be used at this very moment. What it returns counts in
   * this turn only.
   */
  recall(known: KnownKey): Recalled | undefined;
  /**
   * Answers a client from memory or tier 2, if the key still counts when the answer is there. False when the client is
   * still to be answered.
   */
  fetch(known: KnownKey, query: FetchedQuery, client: Client): Promise<boolean>;
  /** The compressed variant of what was recalled. */
  gzipOf(key: string, answer: StoredAnswer): GzipSource | undefined;
}

export function createKnownAnswers(options: {
  epochs: Pick<Epochs, 'areCurrent' | 'obtain'>;
  memory: Pick<MemoryTier, 'get' | 'set' | 'gzipOf'>;
  /** Tier 2; undefined without Redis. */
  entries: Pick<SharedEntries, 'find'> | undefined;
  clock: Pick<Clock, 'wall'>;
  timeLeft: (answer: StoredAnswer, query: { readonly ttl: number }) => number;
  replay: (
    answer: StoredAnswer,
    source: HitSource,
    key: string,
    query: FetchedQuery,
    client: Client,
  ) => void;
}): KnownAnswers {
  const { epochs, memory, entries, clock, timeLeft, replay } = options;

  return {
    recall({ key, captured, ttl }) {
      const answer = memory.get(key);
      if (answer === undefined || !epochs.areCurrent(captured)) return undefined;
      const left = timeLeft(answer, { ttl });
      if (left <= 0) return undefined;
      return { answer, ttl: left, age: Math.max(0, clock.wall() - answer.requestedAt) };
    },
    async fetch({ key, captured, digests }, query, client) {
      if (!epochs.areCurrent(captured)) {
        await epochs.obtain(captured.scopes);
        if (!epochs.areCurrent(captured)) return false;
      }
      const inValues = memory.get(key) === undefined ? await entries?.find(key) : undefined;
      // The await may have outlived the lease, or brought a purge; or another request's fill has landed.
      if (!epochs.areCurrent(captured)) return false;
      const inMemory = memory.get(key);
      const found = inMemory ?? inValues;
      if (found === undefined || timeLeft(found, query) <= 0) return false;
      if (inMemory === undefined) memory.set(key, found, digests);
      replay(found, inMemory === undefined ? 'redis' : 'memory', key, query, client);
      return true;
    },
    gzipOf: memory.gzipOf,
  };
}
