import { LRUCache } from 'lru-cache';
import type { EpochStore } from '../query-cache/purge/epoch-store.ts';
import { READ_DEADLINE, WRITE_DEADLINE } from './deadlines.ts';
import type { Link } from './link.ts';
import { readAcknowledgement, readAnnouncement, readEpochReading, readNumber } from './reading.ts';

/** Acknowledgements are counted for so many purges. */
const MAX_ANNOUNCED = 1_000;

/** Epochs that the primary process keeps for all workers. */
export function createWorkerEpochStore(options: {
  /** To the primary process. */
  link: Link;
  /** Names who holds what it read. Random, and new with every store. */
  holder: string;
  /** Milliseconds for which this worker uses what it reads. */
  lease: number;
  /** The longest lease that the configuration may name (ms). */
  longestLease: number;
  /** The configured secret of the keys; undefined: the one that the primary process has made. */
  keySecret: string | undefined;
}): EpochStore {
  const { link, lease } = options;
  const caller = { holder: options.holder, lease };
  /** Purges announced here → holders that handled the announcement. */
  const acknowledgements = new LRUCache<string, Set<string>>({ max: MAX_ANNOUNCED });
  const listening = [
    link.onTold('forgotten', (said) => {
      const { purge, holder } = readAcknowledgement(said);
      acknowledgements.get(purge)?.add(holder);
    }),
  ];

  return {
    async read(scopes) {
      const said = await link.call('epochs', 'read', [caller, scopes], READ_DEADLINE);
      const { tokens, keySecret } = readEpochReading(said);
      if (tokens.length !== scopes.length) {
        throw new Error('the primary process answered with another number of epochs');
      }
      return { tokens, keySecret: options.keySecret ?? keySecret };
    },
    async renew(scopes) {
      const said = await link.call('epochs', 'renew', [caller, scopes], WRITE_DEADLINE);
      const longest = readNumber(said);
      if (longest >= lease && longest <= options.longestLease) return longest;
      // Nobody knows then for how long the old ones are used.
      throw new Error(`the primary process names a lease that nobody can have: ${longest} ms`);
    },
    async incarnation() {
      return String(await link.call('epochs', 'incarnation', [], WRITE_DEADLINE));
    },
    async announce({ purge, scopes }) {
      acknowledgements.set(purge, new Set([caller.holder]));
      link.tell('forget', { purge, scopes });
    },
    acknowledged: (purge) => acknowledgements.get(purge)?.size ?? 1,
    onAnnouncement(listener) {
      listening.push(
        link.onTold('forget', (said) => {
          const { purge, scopes } = readAnnouncement(said);
          listener(scopes);
          link.tell('forgotten', { purge, holder: caller.holder });
        }),
      );
    },
    async close() {
      for (const end of listening.splice(0)) end();
    },
  };
}
