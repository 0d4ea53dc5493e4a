import { randomUUID } from 'node:crypto';
import type { FreshnessStore } from '../../src/freshness/freshness-store.ts';
import type { PurgeLines } from '../../src/cache/purge/purge-log.ts';
import { createWorkerStores } from '../../src/workers/shared.ts';
import { handClock, type HandClock } from '../unit/cache/fakes.ts';
import { linkPair, type LinkPair } from './link-pair.ts';
import { sessionCalls, type SessionCalls } from './session-calls.ts';
import { testPrimary } from './primary.ts';

/** What one worker has of what the primary process keeps. */
export interface WorkerParts {
  readonly pair: LinkPair;
  readonly store: FreshnessStore;
  readonly sessions: SessionCalls;
  readonly purges: PurgeLines;
  /** The worker is gone. */
  leave(): void;
}

/** A primary process and its workers, all in this one, over links that carry JSON. */
export interface WorkerHouse {
  /** Of the primary process. */
  readonly clock: HandClock;
  join(options?: { lease?: number; within?: number }): WorkerParts;
}

const LONGEST_LEASE = 2_000;
/** Nobody waits for it in vain. */
const PATIENCE = 60_000;

export function workerHouse({ orphanLease = 0 } = {}): WorkerHouse {
  const clock = handClock();
  const attach = testPrimary(clock, orphanLease);
  return {
    clock,
    join({ lease = 1_000, within = PATIENCE } = {}) {
      const pair = linkPair(within);
      const leave = attach(pair.primary);
      const { freshness: store, purgeLines } = createWorkerStores({
        link: pair.worker,
        gateway: randomUUID(),
        lease: () => lease,
        longestLease: LONGEST_LEASE,
      });
      return {
        pair,
        store,
        sessions: sessionCalls(store),
        purges: purgeLines,
        leave,
      };
    },
  };
}
