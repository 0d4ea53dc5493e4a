import type { Clock } from '../clock.ts';
import type { HitSource } from '../reasons.ts';
import type { Epochs } from './purge/epochs.ts';
import type { MemoryTier } from './entries/memory-tier.ts';
import type { Client, GzipSource, KnownKey, Query } from './query.ts';
import type { SharedEntries } from './entries/shared-entries.ts';
import type { StoredAnswer } from './entries/stored-answer.ts';

/** What a client is told of an answer that is replayed; milliseconds. */
export interface Recalled {
  readonly answer: StoredAnswer;
  readonly source: Exclude<HitSource, 'coalesced'>;
  readonly ttl: number;
  readonly age: number;
}

/** What of a query it takes to answer it under a key of before. */
export interface FetchedQuery {
  readonly ttl: number;
  readonly session: { readonly id: string } | undefined;
  readonly answered?: Query['answered'];
}

/** Finds answers under keys that were made before, without the query that they were made of. */
export interface KnownAnswers {
  /**
   * The answer that memory holds under a key, else the one that was brought, where it may be used at this very moment.
   * What was brought is kept in memory then. What it returns counts in this turn only.
   */
  recall(known: KnownKey, brought?: StoredAnswer): Recalled | undefined;
  /**
   * Asks tier 2 for an answer that memory does not hold. It may have gone out of force when it is there: so it is for
   * {@link KnownAnswers.recall}. Undefined where there is no tier 2, or what is known of the epochs must be read first.
   * @param beside what the asker keeps in memory meanwhile (bytes)
   * @returns never rejects
   */
  bring(known: KnownKey, beside: number): Promise<StoredAnswer | undefined> | undefined;
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

  function usable(
    { key, captured, ttl, digests }: KnownKey,
    inValues: StoredAnswer | undefined,
  ): Omit<Recalled, 'age'> | undefined {
    const inMemory = memory.get(key);
    const answer = inMemory ?? inValues;
    if (answer === undefined || !epochs.areCurrent(captured)) return undefined;
    const left = timeLeft(answer, { ttl });
    if (left <= 0) return undefined;
    if (inMemory === undefined) memory.set(key, answer, digests);
    return { answer, source: inMemory === undefined ? 'redis' : 'memory', ttl: left };
  }

  return {
    recall(known, brought) {
      const found = usable(known, brought);
      if (found === undefined) return undefined;
      const { answer, source, ttl } = found;
      return { answer, source, ttl, age: Math.max(0, clock.wall() - answer.requestedAt) };
    },
    bring({ key, captured }, beside) {
      if (entries === undefined || !epochs.areCurrent(captured)) return undefined;
      return memory.get(key) === undefined ? entries.find(key, beside) : undefined;
    },
    async fetch(known, query, client) {
      const { key, captured } = known;
      if (!epochs.areCurrent(captured)) {
        await epochs.obtain(captured.scopes);
        if (!epochs.areCurrent(captured)) return false;
      }
      const inValues = memory.get(key) === undefined ? await entries?.find(key) : undefined;
      // The await may have outlived the lease, or brought a purge; or another request's fill has landed.
      const found = usable({ ...known, ttl: query.ttl }, inValues);
      if (found === undefined) return false;
      replay(found.answer, found.source, key, query, client);
      return true;
    },
    gzipOf: memory.gzipOf,
  };
}
