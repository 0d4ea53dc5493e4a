import type { BypassReason } from '../../common/reasons.ts';
import { foldName, foldToFind } from '../names.ts';
import type { Property } from './read-request.ts';

/**
 * Properties without effect on the answer, new for each request or client process: their values are
 * not keyed. Their names are, since engines refuse unknown ones. Other spellings do not count.
 */
export const IGNORED_PROPERTIES: ReadonlySet<string> = new Set([
  'DbpropMsmdActivityID',
  'DbpropMsmdRequestID',
  'DbpropMsmdCurrentActivityID',
  'ClientProcessID',
  'SspropInitWsid',
  'SspropInitPacketsize',
  'RequestPriority',
  'DbpropMsmdRequestMemoryLimit',
  'MemoryLockingMode',
  'ApplicationContext',
  'Timeout',
  'CommitTimeout',
  'ForceCommitTimeout',
]);

/** Properties that tell or change who asks, folded: some engine may accept any spelling. */
export const IDENTITY: ReadonlySet<string> = new Set(
  'EffectiveUserName Roles EffectiveRoles CustomData UserName Password'.split(' ').map(foldName),
);
const REAL_TIME_OLAP = foldName('RealTimeOlap');
const NOT_REAL_TIME: ReadonlySet<string> = new Set(['', 'false', '0']);

export function classifyProperties(properties: readonly Property[]): BypassReason | undefined {
  const names = new Set<string>();
  let isRealTime = false;
  for (const { name, value } of properties) {
    const folded = foldToFind(name);
    if (IDENTITY.has(folded.trim())) return 'identity-property';
    names.add(folded);
    isRealTime ||= folded === REAL_TIME_OLAP && !NOT_REAL_TIME.has(foldToFind(value.trim()));
  }
  // Engines differ in whether case matters, and in which of two they take.
  if (names.size < properties.length) return 'duplicate-property';
  return isRealTime ? 'real-time' : undefined;
}

/** The key's part: sorted by name, equal names in their order; null for an ignored value. */
export function keyedProperties(properties: readonly Property[]) {
  return properties
    .map(({ name, value }) => [name, IGNORED_PROPERTIES.has(name) ? null : value] as const)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
