import { LEASE_LIMITS } from '../config/config.ts';
import type { Link } from '../workers/link.ts';
import { createWorkerFreshness, createWorkerPurgeLines } from '../workers/shared-freshness.ts';
import { ALONE, type Backend, type CacheLimits, type CacheSettings } from './cache-backend.ts';
import { newToken, type Parts } from './parts.ts';

/** Of workers whose primary process keeps what Redis would keep, without entries. */
export function inPrimary(
  settings: CacheSettings,
  limits: CacheLimits,
  parts: Parts,
  link: Link,
): Backend {
  const lease = () => limits().lease;
  return {
    ...ALONE,
    freshness: createWorkerFreshness({
      link,
      gateway: newToken(parts),
      lease,
      longestLease: LEASE_LIMITS.longest,
      keySecret: settings.key_secret,
    }),
    purgeLines: createWorkerPurgeLines(link),
    lease,
    // Through a worker that a reload has not reached yet, whose lease may be shorter than this one's.
    purgeTakes: LEASE_LIMITS.shortest,
    whyFailed: () => 'the primary process did not confirm it in time',
  };
}
