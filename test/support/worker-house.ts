import { randomUUID } from 'node:crypto';
import type { EpochStore } from '../../src/query-cache/purge/epoch-store.ts';
import { readPurgeLine } from '../../src/redis/purge-line.ts';
import type { PurgeLines } from '../../src/query-cache/purge/purge-log.ts';
import type { SessionStore } from '../../src/sessions/session-store.ts';
import { createPrimary } from '../../src/workers/primary.ts';
import { createWorkerEpochStore } from '../../src/workers/worker-epoch-store.ts';
import { createWorkerPurgeLines } from '../../src/workers/worker-purge-lines.ts';
import { createWorkerSessionStore } from '../../src/workers/worker-session-store.ts';
import { handClock, type HandClock } from '../unit/query-cache/fakes.ts';
import { linkPair, type LinkPair } from './link-pair.ts';

/** What one worker has of what the primary process keeps. */
export interface WorkerParts {
  readonly pair: LinkPair;
  readonly epochs: EpochStore;
  readonly sessions: SessionStore;
  readonly purges: PurgeLines;
  /** The worker is gone. */
  leave(): void;
}

/** A primary process and its workers, all in this one, over links that carry JSON. */
export interface WorkerHouse {
  /** Of the primary process. */
  readonly clock: HandClock;
  join(options?: { lease?: number; keySecret?: string; within?: number }): WorkerParts;
}

const LONGEST_LEASE = 2_000;
/** Nobody waits for it in vain. */
const PATIENCE = 60_000;

export function workerHouse({ orphanLease = 0 } = {}): WorkerHouse {
  const clock = handClock();
  const newToken = () => randomUUID();
  const primary = createPrimary({ clock, newToken, longestLease: LONGEST_LEASE, orphanLease });
  return {
    clock,
    join({ lease = 1_000, keySecret, within = PATIENCE } = {}) {
      const pair = linkPair(within);
      const leave = primary.attach(pair.primary);
      const common = { link: pair.worker, holder: randomUUID(), lease };
      return {
        pair,
        epochs: createWorkerEpochStore({ ...common, longestLease: LONGEST_LEASE, keySecret }),
        sessions: createWorkerSessionStore({ ...common, newToken }),
        purges: createWorkerPurgeLines({ link: pair.worker, read: readPurgeLine }),
        leave,
      };
    },
  };
}
