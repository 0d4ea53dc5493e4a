import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { FoundSession } from './sessions.ts';

/**
 * Whether what was found under a name was begun at another engine, or with an id that was spelt otherwise.
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
