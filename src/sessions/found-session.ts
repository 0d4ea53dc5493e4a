import type { SessionRecord } from './session-store.ts';
import type { FoundSession } from './sessions.ts';

/**
 * Whether what was found under a name was begun in another place, or with an id that was spelt otherwise.
 * @param spelling of the one that was asked for, see `sessionSpelling`
 */
export function isSpeltOtherwise(found: FoundSession, spelling: string): boolean {
  const record = lastRecord(found);
  return record !== undefined && record.spelling !== spelling;
}

/** What is known of a session under this very spelling. */
export function asSpelt(found: FoundSession, spelling: string): FoundSession {
  if (!isSpeltOtherwise(found, spelling)) return found;
  if (found.kind === 'unavailable') return { ...found, last: undefined };
  return found.kind === 'known' ? { kind: 'unknown', otherwise: found.record } : found;
}

/** The record, or the last one known: for where its requests go. */
export function lastRecord(found: FoundSession): SessionRecord | undefined {
  switch (found.kind) {
    case 'known':
      return found.record;
    case 'unavailable':
      return found.last;
    case 'unknown':
      return undefined;
  }
}

export function asDirty(found: FoundSession): FoundSession {
  if (found.kind !== 'known') return found;
  return { kind: 'known', record: { ...found.record, dirty: true } };
}

/** Whether a session is the one of the record, nothing was changed since, and both are clean. */
export function isSame(found: FoundSession, record: SessionRecord): boolean {
  if (found.kind !== 'known' || found.record.dirty || record.dirty) return false;
  return found.record.version === record.version;
}
