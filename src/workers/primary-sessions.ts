import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { ChangeReceipt, SessionRecord } from '../sessions/session-store.ts';
import { createSessionTable, MAX_SESSIONS } from '../sessions/session-table.ts';
import { createLeaseNotes, type LeaseNotes } from './lease-notes.ts';
import type { Service } from './link.ts';
import { readHolder, readNext, readNumber, readRecord, readText, type Holder } from './reading.ts';

/** Sessions that are being begun at one time; the oldest ones are then not begun. */
const MAX_CLAIMS = 10_000;

/** A session that is being begun: what happens to it until then. */
interface Claim {
  readonly claim: string;
  /** It was dirty before, or was made so in the meantime. */
  readonly dirty: boolean;
  readonly era: number;
}

/**
 * The sessions of all workers, in the primary process. By the rule of those in Redis: who reads a clean session is
 * noted with his lease, and a change says the longest one of all others that are noted. A session is begun in two
 * halves, so that a beginning that is carried out late, when its caller has given up, makes nothing clean that was
 * made dirty in between.
 *
 * @param options.life milliseconds after which a record that nobody asked for is dropped
 * @param options.longestLease the longest lease that the configuration may name (ms)
 * @param options.orphanLease for which workers of a primary process that has just died may still answer (ms)
 */
export function createPrimarySessions(options: {
  clock: Clock;
  life: number;
  longestLease: number;
  orphanLease: number;
}): Service {
  const { clock, longestLease, orphanLease } = options;
  const table = createSessionTable(options);
  const claims = new LRUCache<string, Claim>({ max: MAX_CLAIMS });
  /** Who may hold it as clean. It outlasts the session, since an engine may begin another one under its id. */
  const held = new LRUCache<string, LeaseNotes>({
    // With `max` it would take the memory for all of them at once.
    maxSize: MAX_SESSIONS,
    sizeCalculation: () => 1,
  });
  /** Everybody who asked for anything, for changes of which nobody knows who holds what was. */
  const leases = createLeaseNotes(clock);
  if (orphanLease > 0) leases.note('', orphanLease, orphanLease);
  let era = 0;

  function callerOf(said: unknown): Holder {
    const caller = readHolder(said, longestLease);
    leases.note(caller.holder, caller.lease);
    return caller;
  }

  function leaseOfOthers(name: string, record: unknown, { holder }: Holder): number {
    const notes = record === undefined ? undefined : held.get(name);
    return (notes ?? leases).longest(holder);
  }

  function answer(
    name: string,
    record: SessionRecord | undefined,
    { holder, lease }: Holder,
    leaseToPass = 0,
  ): ChangeReceipt {
    if (record !== undefined && !record.dirty) {
      const notes = held.get(name) ?? createLeaseNotes(clock);
      notes.note(holder, lease);
      held.set(name, notes);
    }
    return { record, lease: leaseToPass };
  }

  return {
    read(by, said) {
      const [caller, name] = [callerOf(by), readText(said)];
      // Who asks for it has its id already: whoever begins it has given up, and what happens now is not noted.
      claims.delete(name);
      return answer(name, table.read(name), caller);
    },
    claim(by, said, claim) {
      callerOf(by);
      const name = readText(said);
      const before = claims.get(name);
      const dirty =
        table.read(name)?.dirty === true ||
        (before !== undefined && (before.dirty || before.era !== era));
      table.end(name);
      claims.set(name, { claim: readText(claim), dirty, era });
    },
    begin(by, said, claim, given) {
      const [caller, name, record] = [callerOf(by), readText(said), readRecord(given)];
      const claimed = claims.get(name);
      if (claimed === undefined || claimed.claim !== claim)
        throw new Error('the claim on the session is gone');
      claims.delete(name);
      const dirty = record.dirty || claimed.dirty || claimed.era !== era;
      return answer(name, table.begin(name, { ...record, dirty }), caller);
    },
    markDirty(by, said, version) {
      const [caller, name] = [callerOf(by), readText(said)];
      const claimed = claims.get(name);
      if (claimed !== undefined) claims.set(name, { ...claimed, dirty: true });
      const record = table.markDirty(name, readText(version));
      return answer(name, record, caller, leaseOfOthers(name, record, caller));
    },
    markAllDirty(by) {
      const { holder } = callerOf(by);
      era += 1;
      table.markAllDirty();
      return leases.longest(holder);
    },
    setCatalog(by, said, expected, next) {
      const [caller, name] = [callerOf(by), readText(said)];
      const record = table.setCatalog(name, readText(expected), readNext(next));
      return answer(name, record, caller, leaseOfOthers(name, record, caller));
    },
    touch(by, name, forwardedAt) {
      callerOf(by);
      table.touch(readText(name), readNumber(forwardedAt));
    },
    end(by, said) {
      callerOf(by);
      const name = readText(said);
      claims.delete(name);
      table.end(name);
    },
  };
}
