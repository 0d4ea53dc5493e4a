import type { CapturedEpochs } from '../freshness/freshness.ts';
import type { CacheParts } from './cache.ts';
import {
  describeParts,
  differingParts,
  partDigests,
  partTexts,
  queryKey,
  tokenDigest,
  type PartDigests,
} from './key.ts';
import type { Scope } from './projects.ts';
import type { Query } from './query.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** So many entries are compared with a query, which takes some milliseconds. */
const COMPARED = 4_000;

/**
 * What would become of a query that does not ask for a fresh answer, as this gateway sees it at one moment; for JSON, whose
 * names tell their units.
 * @param noEpochs stands for the epochs while they are not known
 * @param timeLeft milliseconds for which an answer may be used under a ttl
 */
export function createExplain(
  { epochs, memory, entries, flights, clock, purgeTakes }: CacheParts,
  noEpochs: CapturedEpochs,
  timeLeft: (answer: StoredAnswer, ttl: number) => number,
) {
  const ageOf = (answer: StoredAnswer) =>
    Math.round(Math.max(0, clock.wall() - answer.requestedAt));

  /** An entry of a tier: times in milliseconds, bytes of the body. With a ttl of 0 it is too old, and no hit. */
  function facts(answer: StoredAnswer | undefined, ttl: number, left = Infinity) {
    if (answer === undefined) return null;
    const { body, engineMilliseconds } = answer;
    const usable = Math.max(0, Math.min(left, timeLeft(answer, ttl)));
    return {
      age_ms: ageOf(answer),
      ttl_ms: Math.round(usable),
      bytes: body.length,
      engine_ms: Math.round(engineMilliseconds),
    };
  }

  async function inTier2(key: string, ttl: number) {
    try {
      return entries === undefined ? ('off' as const) : facts(await entries.peek(key), ttl);
    } catch {
      return 'unavailable' as const;
    }
  }

  /**
   * The usable entry in memory, among the most recently used ones, whose key differs in the fewest parts; of several the
   * youngest. After a purge that is the earlier entry, which differs in `epochs`. Null when none has a part in common.
   */
  function nearest(digests: PartDigests) {
    const alike = memory.peekRecent(COMPARED).flatMap(({ answer, left, digests: others }) => {
      const differs = left > 0 ? differingParts(digests, others) : undefined;
      return differs === undefined ? [] : { differs, age_ms: ageOf(answer) };
    });
    const [best] = alike.sort((a, b) => a.differs.length - b.differs.length || a.age_ms - b.age_ms);
    return best ?? null;
  }

  /** Rejects for nothing that the cache does. Epochs that are not known are read, as for any query. */
  return async ({ parts, scopes, ttl }: Pick<Query, 'parts' | 'scopes' | 'ttl'>) => {
    const held = epochs.held(scopes) ?? (await epochs.obtain(scopes));
    const captured = held ?? noEpochs;
    const texts = partTexts(parts, captured);
    const key = queryKey(parts, captured, texts);
    const digests = partDigests(captured, texts);
    // The cache cannot be used without epochs, and the key is the one of its flights only.
    const redis = held === undefined && entries ? 'unavailable' : await inTier2(key, ttl);
    const entry = memory.peek(key);
    const inMemory = facts(entry?.answer, ttl, entry?.left);
    const flight = flights.underWay(key, held === undefined ? purgeTakes : undefined);
    const hits = [inMemory, redis].some((one) => typeof one === 'object' && (one?.ttl_ms ?? 0) > 0);
    const tokens: readonly { readonly scope: Scope; readonly token: string }[] | undefined =
      held?.scopes.map((scope, i) => {
        return { scope, token: tokenDigest(held.keySecret, held.tokens[i] ?? '') };
      });
    return {
      key,
      /** Those that requests of its method have; all gateways of a namespace make the same digests. */
      parts: describeParts(digests),
      epochs: tokens ?? ('unknown' as const),
      memory: inMemory,
      redis,
      /** Whether the answer of another request would be waited for, were there no entry. */
      flight,
      nearest: flight || hits ? null : nearest(digests),
    };
  };
}
