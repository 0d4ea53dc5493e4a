import type { BypassReason } from '../../common/reasons.ts';
import { foldName, foldToFind } from '../names.ts';
import type { DiscoverRequest, Property, XmlaRequest } from './read-request.ts';

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
/** Ignored properties, folded: what a DISCOVER_PROPERTIES tells of them may not be in the key. */
export const VALUES_NOT_KEYED: ReadonlySet<string> = new Set([...IGNORED_PROPERTIES].map(foldName));
/** ASCII only: engines may take other letters for these. */
const PROPERTY_NAME = /^[a-z\d]+$/i;
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

/**
 * Tells whether a DISCOVER_PROPERTIES asks only for values that the key determines: engines tell
 * those of this very request and session. Those of ignored properties may be asked for outside of
 * a session by a request that has none of them; the answer is kept only if they are empty.
 */
export function asksForKeyedValues(
  { restrictions, properties }: DiscoverRequest,
  { catalogsReread }: { readonly catalogsReread: boolean },
  inSession: boolean,
): boolean {
  const isAllKeyed = !inSession && !properties.some(({ name }) => IGNORED_PROPERTIES.has(name));
  const isKeyed = (text: string): boolean => {
    const name = text.trim();
    const folded = foldToFind(name);
    if (!PROPERTY_NAME.test(name) || IDENTITY.has(folded)) return false;
    if (catalogsReread && folded.includes('catalog')) return false;
    return isAllKeyed || !VALUES_NOT_KEYED.has(folded);
  };
  const isHarmless = ({ name, values }: DiscoverRequest['restrictions'][number]): boolean =>
    // An engine that does not know lists of values reads all text as one name.
    name === 'PropertyName' && [...values, values.join('')].every(isKeyed);
  return restrictions.length > 0 && restrictions.every(isHarmless);
}

/** Names that a DISCOVER_PROPERTIES asks for, folded; undefined for other requests. */
export function propertiesAskedFor(request: XmlaRequest): ReadonlySet<string> | undefined {
  if (request.method !== 'Discover' || request.requestType !== 'DISCOVER_PROPERTIES')
    return undefined;
  const names = request.restrictions.flatMap(({ values }) => values);
  return new Set(names.map((name) => foldName(name.trim())));
}
