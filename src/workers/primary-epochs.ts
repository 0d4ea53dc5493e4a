import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import { createMemoryEpochStore } from '../query-cache/purge/memory-epoch-store.ts';
import { createLeaseNotes } from './lease-notes.ts';
import type { Link } from './link.ts';
import { readAcknowledgement, readAnnouncement, readHolder, readScopes } from './reading.ts';

/** Of so many purges it is remembered who announced them. */
const MAX_ANNOUNCED = 1_000;

/**
 * The epochs of all workers, and the secret of their keys, in the primary process. By the rule of those in Redis: who
 * reads leaves the lease for which he uses what he read, and a renewal says the longest one that counts.
 *
 * @param options.longestLease the longest lease that the configuration may name (ms)
 * @param options.orphanLease for which workers of a primary process that has just died may still answer (ms)
 * @returns serves one more worker; what it returns ends that
 */
export function createPrimaryEpochs(options: {
  clock: Pick<Clock, 'now'>;
  newToken: () => string;
  longestLease: number;
  orphanLease: number;
}): (link: Link) => () => void {
  const { newToken, longestLease, orphanLease } = options;
  const store = createMemoryEpochStore({ newToken, keySecret: newToken() });
  const incarnation = newToken();
  const leases = createLeaseNotes(options.clock);
  if (orphanLease > 0) leases.note('', orphanLease, orphanLease);
  const links = new Set<Link>();
  /** Purges → who wants to know that the announcement was handled. */
  const announcers = new LRUCache<string, Link>({ max: MAX_ANNOUNCED });

  function noteLease(said: unknown): void {
    const { holder, lease } = readHolder(said, longestLease);
    leases.note(holder, lease);
  }

  return (link) => {
    links.add(link);
    link.serve('epochs', {
      read(holder, scopes) {
        noteLease(holder);
        return store.read(readScopes(scopes));
      },
      async renew(holder, scopes) {
        noteLease(holder);
        // In this turn: who reads from now on gets the new ones.
        const renewed = store.renew(readScopes(scopes));
        const longest = leases.longest();
        await renewed;
        return longest;
      },
      incarnation: () => incarnation,
    });
    const ends = [
      link.onTold('forget', (said) => {
        const announcement = readAnnouncement(said);
        announcers.set(announcement.purge, link);
        for (const each of links) each.tell('forget', announcement);
      }),
      link.onTold('forgotten', (said) => {
        const told = readAcknowledgement(said);
        announcers.get(told.purge)?.tell('forgotten', told);
      }),
    ];
    return () => {
      links.delete(link);
      for (const end of ends) end();
    };
  };
}
