/* What comes over a link, read strictly: each function throws for what is not as it should be. */

import type { Scope } from '../query-cache/purge/scopes.ts';
import type { SessionRecord } from '../sessions/session-store.ts';

/** Who calls, and for how long he uses what he reads (ms). */
export interface Holder {
  readonly holder: string;
  readonly lease: number;
}

/** What stands in notes and receipts: nothing else than ids that gateways make. */
const ID = /^[\w-]{1,100}$/;

function readId(said: unknown): string {
  if (typeof said !== 'string' || !ID.test(said)) throw unreadable('an id');
  return said;
}

/** @param longest the longest lease that is allowed (ms) */
export function readHolder(said: unknown, longest: number): Holder {
  const { holder, lease } = objectOf(said, 'a holder');
  const length = readNumber(lease);
  if (length <= 0 || length > longest) throw unreadable('a lease');
  return { holder: readId(holder), lease: length };
}

export function readText(said: unknown): string {
  if (typeof said !== 'string') throw unreadable('a text');
  return said;
}

export function readNumber(said: unknown): number {
  if (typeof said !== 'number' || !Number.isFinite(said)) throw unreadable('a number');
  return said;
}

export function readTexts(said: unknown): readonly string[] {
  if (!Array.isArray(said)) throw unreadable('a list');
  return said.map(readText);
}

export function readScopes(said: unknown): readonly Scope[] {
  return readTexts(said).map((text) => {
    if (!isScope(text)) throw unreadable('a scope');
    return text;
  });
}

function isScope(text: string): text is Scope {
  return text === 'everything' || text === 'unassigned' || text.startsWith('project:');
}

/** What is told of a purge: `{ purge, scopes }`. */
export function readAnnouncement(said: unknown): { purge: string; scopes: readonly Scope[] } {
  const { purge, scopes } = objectOf(said, 'an announcement');
  return { purge: readId(purge), scopes: readScopes(scopes) };
}

/** That a holder has handled the announcement of a purge: `{ purge, holder }`. */
export function readAcknowledgement(said: unknown): { purge: string; holder: string } {
  const { purge, holder } = objectOf(said, 'an acknowledgement');
  return { purge: readId(purge), holder: readId(holder) };
}

export function readEpochReading(said: unknown): { tokens: readonly string[]; keySecret: string } {
  const { tokens, keySecret } = objectOf(said, 'epochs');
  return { tokens: readTexts(tokens), keySecret: readText(keySecret) };
}

export function readRecord(said: unknown): SessionRecord {
  const { principal, profile, catalog, replica, dirty, spelling, version, forwardedAt } = objectOf(
    said,
    'a session',
  );
  if (typeof dirty !== 'boolean') throw unreadable('a session');
  return {
    principal: readText(principal),
    profile: readText(profile),
    catalog: catalog === null ? null : readText(catalog),
    replica: readText(replica),
    dirty,
    spelling: readText(spelling),
    version: readText(version),
    forwardedAt: readNumber(forwardedAt),
  };
}

export function readNext(said: unknown): Pick<SessionRecord, 'catalog' | 'profile' | 'version'> {
  const { catalog, profile, version } = objectOf(said, 'a catalog');
  return {
    catalog: catalog === null ? null : readText(catalog),
    profile: readText(profile),
    version: readText(version),
  };
}

/** The record as it is now, if there is one, and the lease that others may go on for (ms). */
export function readReceipt(said: unknown): { record: SessionRecord | undefined; lease: number } {
  const { record, lease } = objectOf(said, 'a receipt');
  return {
    record: record === undefined ? undefined : readRecord(record),
    lease: readNumber(lease),
  };
}

function objectOf(said: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof said !== 'object' || said === null) throw unreadable(what);
  return said as Readonly<Record<string, unknown>>;
}

function unreadable(what: string): Error {
  return new Error(`what came over the link is not ${what}`);
}
