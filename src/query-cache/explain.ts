import type { Clock } from '../clock.ts';
import type { CapturedEpochs, Epochs } from './purge/epochs.ts';
import type { Flights } from './flight.ts';
import { queryKey, type KeyPartName } from './key/key.ts';
import type { MemoryTier } from './entries/memory-tier.ts';
import {
  describeParts,
  differingParts,
  partDigests,
  tokenDigest,
  type PartDigests,
} from './key/part-digests.ts';
import type { Query } from './query.ts';
import type { Scope } from './purge/scopes.ts';
import type { StoredAnswer } from './entries/stored-answer.ts';
import type { SharedEntries } from './entries/shared-entries.ts';

/** An entry of a tier. Times in milliseconds. */
export interface EntryFacts {
  readonly age: number;
  /** For how long it may still be used; 0 when it is too old, so that it is no hit. */
  readonly ttl: number;
  /** Of the body. */
  readonly bytes: number;
  readonly engineMilliseconds: number;
}

/** What would become of a query that does not ask for a fresh answer, as this gateway sees it at one moment. */
export interface Explanation {
  readonly key: string;
  /** The parts of the key that requests of its method have; all gateways of a namespace make the same digests. */
  readonly parts: readonly { readonly name: KeyPartName; readonly digest: string }[];
  /** Digests of the epochs; `unknown`: the cache cannot be used, and `key` is the one of its flights only. */
  readonly epochs: readonly { readonly scope: Scope; readonly token: string }[] | 'unknown';
  readonly memory: EntryFacts | null;
  readonly redis: EntryFacts | null | 'off' | 'unavailable';
  /** Whether the answer of another request would be waited for, were there no entry. */
  readonly flight: boolean;
  /**
   * Where it would miss: the usable entry in memory, among the most recently used ones, whose key differs in the
   * fewest parts; of several the youngest. After a purge that is the entry of before, which differs in `epochs`.
   * Null when none has a part in common.
   */
  readonly nearest: { readonly differs: readonly KeyPartName[]; readonly age: number } | null;
}

/** Rejects for nothing that the cache does. Epochs that are not known are read, as for any query. */
export type Explain = (query: Pick<Query, 'parts' | 'scopes' | 'ttl'>) => Promise<Explanation>;

/** So many entries are compared with a query, which takes some milliseconds. */
const COMPARED = 4_000;

export function createExplain(options: {
  epochs: Epochs;
  memory: MemoryTier;
  entries: SharedEntries | undefined;
  flights: Flights;
  clock: Clock;
  /** No purge is acknowledged in less (ms): the age up to which flights are shared without epochs. */
  purgeTakes: number;
  /** Stands for the epochs while they are not known. */
  withoutEpochs: CapturedEpochs;
  /** Milliseconds for which an answer may be used for the query. */
  timeLeft: (answer: StoredAnswer, query: Pick<Query, 'ttl'>) => number;
}): Explain {
  const { epochs, memory, entries, flights, clock, withoutEpochs } = options;

  const ageOf = (answer: StoredAnswer) => Math.max(0, clock.wall() - answer.requestedAt);

  function facts(answer: StoredAnswer, left: number): EntryFacts {
    return {
      age: ageOf(answer),
      ttl: Math.max(0, left),
      bytes: answer.body.length,
      engineMilliseconds: answer.engineMilliseconds,
    };
  }

  async function inTier2(
    key: string,
    query: Pick<Query, 'ttl'>,
  ): Promise<EntryFacts | null | 'off' | 'unavailable'> {
    if (entries === undefined) return 'off';
    try {
      const answer = await entries.peek(key);
      return answer === undefined ? null : facts(answer, options.timeLeft(answer, query));
    } catch {
      return 'unavailable';
    }
  }

  function nearest(digests: PartDigests): Explanation['nearest'] {
    let best: { differs: KeyPartName[]; answer: StoredAnswer } | undefined;
    for (const entry of memory.peekRecent(COMPARED)) {
      const differs = entry.left > 0 ? differingParts(digests, entry.digests) : undefined;
      if (differs === undefined) continue;
      const nearer =
        best === undefined ||
        differs.length < best.differs.length ||
        (differs.length === best.differs.length &&
          entry.answer.requestedAt > best.answer.requestedAt);
      if (nearer) best = { differs, answer: entry.answer };
    }
    return best === undefined ? null : { differs: best.differs, age: ageOf(best.answer) };
  }

  return async (query) => {
    const held = epochs.held(query.scopes) ?? (await epochs.obtain(query.scopes));
    const captured = held ?? withoutEpochs;
    const key = queryKey(query.parts, captured);
    const digests = partDigests(query.parts, captured);
    const known = { key, parts: describeParts(digests) };
    if (held === undefined) {
      return {
        ...known,
        epochs: 'unknown',
        memory: null,
        redis: entries === undefined ? 'off' : 'unavailable',
        flight: flights.underWay(key, options.purgeTakes),
        nearest: null,
      };
    }
    const redis = await inTier2(key, query);
    const entry = memory.peek(key);
    const inMemory =
      entry === undefined
        ? null
        : facts(entry.answer, Math.min(entry.left, options.timeLeft(entry.answer, query)));
    const flight = flights.underWay(key);
    const hits = flight || [inMemory, redis].some(isUsable);
    return {
      ...known,
      epochs: held.scopes.map((scope, i) => ({
        scope,
        token: tokenDigest(held.keySecret, held.tokens[i] ?? ''),
      })),
      memory: inMemory,
      redis,
      flight,
      nearest: hits ? null : nearest(digests),
    };
  };
}

function isUsable(found: EntryFacts | null | string): boolean {
  return found !== null && typeof found === 'object' && found.ttl > 0;
}
