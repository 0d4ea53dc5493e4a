import type { Clock } from '../common/clock.ts';
import type { CapturedEpochs, Epochs } from '../freshness/freshness.ts';
import type { Flights } from './flights.ts';
import {
  describeParts,
  differingParts,
  partDigests,
  partTexts,
  queryKey,
  tokenDigest,
  type KeyPartName,
  type PartDigests,
} from './key.ts';
import type { MemoryTier } from './memory-tier.ts';
import type { Scope } from './purge/scopes.ts';
import type { Query } from './query.ts';
import type { SharedEntries } from './shared-entries.ts';
import type { StoredAnswer } from './stored-answer.ts';

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
   * fewest parts; of several the youngest. After a purge that is the earlier entry, which differs in `epochs`.
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
  noEpochs: CapturedEpochs;
  /** Milliseconds for which an answer may be used under a ttl. */
  timeLeft: (answer: StoredAnswer, ttl: number) => number;
}): Explain {
  const { epochs, memory, entries, flights, clock, noEpochs, timeLeft } = options;

  const ageOf = (answer: StoredAnswer) => Math.max(0, clock.wall() - answer.requestedAt);

  function facts(answer: StoredAnswer | undefined, left = 0): EntryFacts | null {
    if (answer === undefined) return null;
    const { body, engineMilliseconds } = answer;
    const ttl = Math.max(0, left);
    return { age: ageOf(answer), ttl, bytes: body.length, engineMilliseconds };
  }

  async function inTier2(key: string, ttl: number): Promise<Explanation['redis']> {
    if (entries === undefined) return 'off';
    try {
      const answer = await entries.peek(key);
      return facts(answer, answer && timeLeft(answer, ttl));
    } catch {
      return 'unavailable';
    }
  }

  function inMemory(key: string, ttl: number): EntryFacts | null {
    const entry = memory.peek(key);
    return facts(entry?.answer, entry && Math.min(entry.left, timeLeft(entry.answer, ttl)));
  }

  function nearest(digests: PartDigests): Explanation['nearest'] {
    const alike = memory.peekRecent(COMPARED).flatMap(({ answer, left, digests: others }) => {
      const differs = left > 0 ? differingParts(digests, others) : undefined;
      return differs === undefined ? [] : { differs, age: ageOf(answer) };
    });
    const [best] = alike.sort((a, b) => a.differs.length - b.differs.length || a.age - b.age);
    return best ?? null;
  }

  return async ({ parts, scopes, ttl }) => {
    const held = epochs.held(scopes) ?? (await epochs.obtain(scopes));
    const captured = held ?? noEpochs;
    const texts = partTexts(parts, captured);
    const key = queryKey(parts, captured, texts);
    const digests = partDigests(captured, texts);
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
    const found = { redis: await inTier2(key, ttl), memory: inMemory(key, ttl) };
    const flight = flights.underWay(key);
    const hits = flight || isUsable(found.memory) || isUsable(found.redis);
    return {
      ...known,
      ...found,
      epochs: held.scopes.map((scope, i) => ({
        scope,
        token: tokenDigest(held.keySecret, held.tokens[i] ?? ''),
      })),
      flight,
      nearest: hits ? null : nearest(digests),
    };
  };
}

const isUsable = (found: Explanation['redis']) =>
  found !== null && typeof found === 'object' && found.ttl > 0;
