import { LEASE_LIMITS } from '../config/config.ts';
import { readPurgeLine } from '../redis/purge-line.ts';
import type { Link } from '../workers/link.ts';
import { createWorkerEpochStore } from '../workers/worker-epoch-store.ts';
import { createWorkerPurgeLines } from '../workers/worker-purge-lines.ts';
import { createWorkerSessionStore } from '../workers/worker-session-store.ts';
import type { Backend, CacheSettings } from './cache-backend.ts';
import { newToken, type Parts } from './parts.ts';

/** Of workers whose primary process keeps what Redis would keep, without entries. */
export function inPrimary(settings: CacheSettings, parts: Parts, link: Link): Backend {
  const { lease } = settings;
  const holder = newToken(parts);
  return {
    epochStore: createWorkerEpochStore({
      link,
      holder,
      lease,
      longestLease: LEASE_LIMITS.longest,
      keySecret: settings.key_secret,
    }),
    sessionStore: createWorkerSessionStore({
      link,
      holder,
      lease,
      newToken: () => newToken(parts),
    }),
    purgeLines: createWorkerPurgeLines({ link, read: readPurgeLine }),
    values: undefined,
    sweepStore: undefined,
    flightPlaces: undefined,
    lease,
    // Through a worker that a reload has not reached yet, whose lease may be shorter than this one's.
    purgeTakes: LEASE_LIMITS.shortest,
    state: () => 'off',
    why: () => undefined,
    whyFailed: () => 'the primary process did not confirm it in time',
    conditions: () => [],
    settled: async () => {},
    close: async () => {},
  };
}
