import type { Explanation } from '../query-cache/explain.ts';
import type { XmlaExplanation } from './explain.ts';

type FoundEntry = NonNullable<Explanation['memory']>;

/** An explanation as JSON shows it: names in snake_case with their units, milliseconds without fractions. */
export function explanationJson({ classification, cache }: XmlaExplanation) {
  const { decision, reason, why, method, subject, catalogs, share, ttl } = classification;
  return {
    classification: {
      decision,
      reason,
      // Undefined and '' both mean that there is nothing to say.
      why: why === '' ? undefined : why,
      method,
      subject: subject === '' ? undefined : subject,
      catalogs,
      share,
      ttl_ms: ttl === undefined ? undefined : Math.round(ttl),
    },
    cache: cache === undefined ? undefined : cacheJson(cache),
  };
}

function cacheJson({ key, parts, epochs, memory, redis, flight, nearest }: Explanation) {
  return {
    key,
    parts: parts.map(({ name, digest }) => ({ name, digest })),
    epochs: epochs === 'unknown' ? epochs : epochs.map(({ scope, token }) => ({ scope, token })),
    memory: memory === null ? null : entryJson(memory),
    redis: redis === null || typeof redis === 'string' ? redis : entryJson(redis),
    flight,
    nearest:
      nearest === null ? null : { differs: nearest.differs, age_ms: Math.round(nearest.age) },
  };
}

function entryJson({ age, ttl, bytes, engineMilliseconds }: FoundEntry) {
  return {
    age_ms: Math.round(age),
    ttl_ms: Math.round(ttl),
    bytes,
    engine_ms: Math.round(engineMilliseconds),
  };
}
