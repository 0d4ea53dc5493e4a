import type { Clock } from '../common/clock.ts';
import type { HitSource, RefusalReason } from '../common/reasons.ts';
import type { Epochs } from '../freshness/freshness.ts';
import type { Flights } from './flights.ts';
import {
  describeEpochs,
  describeParts,
  differingParts,
  type Keys,
  type Named,
  type PartDigests,
} from './key.ts';
import { ageOf, type MemoryTier, timeLeft } from './memory-tier.ts';
import type { SharedEntries } from './shared-entries.ts';
import type { StoredAnswer } from './stored-answer.ts';

/** Entries that are compared with a query that is explained, which takes some milliseconds. */
const COMPARED = 4_000;
const unavailable = () => 'unavailable' as const;

/** Tells what would become of a query. Changes nothing, never rejects; reads epochs not known. */
export function createExplaining(
  parts: {
    readonly epochs: Epochs;
    readonly memory: Pick<MemoryTier, 'peek' | 'peekRecent'>;
    readonly entries: Pick<SharedEntries, 'peek'> | undefined;
    readonly flights: Pick<Flights, 'underWay'>;
    readonly purgeTakes: number;
    readonly clock: Pick<Clock, 'wall'>;
  },
  keys: Keys,
  whyUnshareable: (key: string) => RefusalReason | undefined,
) {
  const { epochs, memory, entries, flights, purgeTakes, clock } = parts;

  /** Facts about an entry of a tier: milliseconds, bytes. With a ttl of 0 it is too old. */
  function factsOf(answer: StoredAnswer | undefined, ttl: number, left = Infinity) {
    if (answer === undefined) return null;
    const wall = clock.wall();
    return {
      age_ms: Math.round(ageOf(answer, wall)),
      ttl_ms: Math.round(Math.max(0, Math.min(left, timeLeft(answer, ttl, wall)))),
      bytes: answer.body.length,
      engine_ms: Math.round(answer.engineMilliseconds),
    };
  }

  /**
   * The usable entry, among those used most recently, whose key differs in the fewest parts; of
   * several the youngest. After a purge it is the earlier entry, which differs in `epochs`.
   */
  function nearest(digests: PartDigests) {
    const wall = clock.wall();
    const alike = memory.peekRecent(COMPARED).flatMap(({ answer, left, digests: others }) => {
      const differs = left > 0 ? differingParts(digests, others) : undefined;
      return differs === undefined ? [] : [{ differs, age_ms: Math.round(ageOf(answer, wall)) }];
    });
    const [best] = alike.sort((a, b) => a.differs.length - b.differs.length || a.age_ms - b.age_ms);
    return best ?? null;
  }

  return {
    /** Entry that would answer a query now, its key and epochs; undefined without known epochs. */
    async entryOf(query: Named) {
      const known = await keys.keyOf(query);
      if (known === undefined) return undefined;
      const { key, captured, ttl } = known;
      const kept = memory.peek(key);
      const inMemory = kept !== undefined && kept.left > 0 ? kept.answer : undefined;
      const answer = inMemory ?? (await entries?.peek(key).catch(() => undefined));
      const wall = clock.wall();
      // A purge may have come meanwhile.
      const counts = epochs.areCurrent(captured) && answer && timeLeft(answer, ttl, wall) > 0;
      const source: HitSource = inMemory === undefined ? 'redis' : 'memory';
      const entry = counts ? { answer, source, age: ageOf(answer, wall) } : undefined;
      return { key, epochs: describeEpochs(captured), entry };
    },
    /** All of that, for JSON. */
    async explain({ parts: asked, scopes, ttl }: Named) {
      const captured = epochs.held(scopes) ?? (await epochs.obtain(scopes));
      // Without epochs the cache cannot be used, and the key is the one of its flights only.
      const { key, digests: digest } = keys.nameOf(asked, captured ?? keys.noEpochs);
      const digests = digest();
      const inTier2 = captured && entries?.peek(key).then((one) => factsOf(one, ttl), unavailable);
      const redis = entries === undefined ? 'off' : await (inTier2 ?? unavailable());
      const entry = memory.peek(key);
      const inMemory = factsOf(entry?.answer, ttl, entry?.left);
      const flight = flights.underWay(key, captured ? undefined : purgeTakes);
      const ofTier2 = typeof redis === 'string' ? null : redis;
      const hits = (inMemory?.ttl_ms ?? 0) > 0 || (ofTier2?.ttl_ms ?? 0) > 0;
      return {
        key,
        /** All gateways of a namespace make the same digests. */
        parts: describeParts(digests),
        epochs: captured ? describeEpochs(captured) : ('unknown' as const),
        memory: inMemory,
        redis,
        /** Whether the answer of another request would be waited for, were there no entry. */
        flight,
        /** Why the last answer was not stored; null where it was, or that is not known. */
        not_stored: whyUnshareable(key) ?? null,
        nearest: flight || hits ? null : nearest(digests),
      };
    },
  };
}
