import type { CapturedEpochs } from '../freshness/freshness.ts';
import type { CacheParts } from './cache.ts';
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
import type { Scope } from './projects.ts';
import type { Query } from './query.ts';
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

/** So many entries are compared with a query, which takes some milliseconds. */
const COMPARED = 4_000;

/**
 * @param noEpochs stands for the epochs while they are not known
 * @param timeLeft milliseconds for which an answer may be used under a ttl
 */
export function createExplain(
  { epochs, memory, entries, flights, clock, purgeTakes }: CacheParts,
  noEpochs: CapturedEpochs,
  timeLeft: (answer: StoredAnswer, ttl: number) => number,
) {
  const ageOf = (answer: StoredAnswer) => Math.max(0, clock.wall() - answer.requestedAt);

  function facts(
    answer: StoredAnswer | undefined,
    ttl: number,
    left = Infinity,
  ): EntryFacts | null {
    if (answer === undefined) return null;
    const { body, engineMilliseconds } = answer;
    const usable = Math.max(0, Math.min(left, timeLeft(answer, ttl)));
    return { age: ageOf(answer), ttl: usable, bytes: body.length, engineMilliseconds };
  }

  async function inTier2(key: string, ttl: number): Promise<Explanation['redis']> {
    try {
      return entries === undefined ? 'off' : facts(await entries.peek(key), ttl);
    } catch {
      return 'unavailable';
    }
  }

  function nearest(digests: PartDigests): Explanation['nearest'] {
    const alike = memory.peekRecent(COMPARED).flatMap(({ answer, left, digests: others }) => {
      const differs = left > 0 ? differingParts(digests, others) : undefined;
      return differs === undefined ? [] : { differs, age: ageOf(answer) };
    });
    const [best] = alike.sort((a, b) => a.differs.length - b.differs.length || a.age - b.age);
    return best ?? null;
  }

  /** Rejects for nothing that the cache does. Epochs that are not known are read, as for any query. */
  return async function explain({
    parts,
    scopes,
    ttl,
  }: Pick<Query, 'parts' | 'scopes' | 'ttl'>): Promise<Explanation> {
    const held = epochs.held(scopes) ?? (await epochs.obtain(scopes));
    const captured = held ?? noEpochs;
    const texts = partTexts(parts, captured);
    const key = queryKey(parts, captured, texts);
    const digests = partDigests(captured, texts);
    const known = { key, parts: describeParts(digests) };
    if (held === undefined) {
      const redis = entries === undefined ? 'off' : 'unavailable';
      const flight = flights.underWay(key, purgeTakes);
      return { ...known, epochs: 'unknown', memory: null, redis, flight, nearest: null };
    }
    const redis = await inTier2(key, ttl);
    const entry = memory.peek(key);
    const inMemory = facts(entry?.answer, ttl, entry?.left);
    const flight = flights.underWay(key);
    return {
      ...known,
      redis,
      memory: inMemory,
      epochs: held.scopes.map((scope, i) => ({
        scope,
        token: tokenDigest(held.keySecret, held.tokens[i] ?? ''),
      })),
      flight,
      nearest: flight || isUsable(inMemory) || isUsable(redis) ? null : nearest(digests),
    };
  };
}

const isUsable = (found: Explanation['redis']) =>
  found !== null && typeof found === 'object' && found.ttl > 0;
