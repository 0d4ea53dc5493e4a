import { createHash } from 'node:crypto';
import { keyedProperties } from '../xmla/request/property-policy.ts';
import type { HeaderBlock, Property } from '../xmla/request/xmla-request.ts';

/** Raised whenever the meaning changes, so that no profile equals one that another version left in Redis. */
const VERSION = 2;

/**
 * What a session was begun with and may go on to count for its later requests: what counts of its properties in a key
 * (the catalog among them) and the header blocks. Properties of one name keep their order, as engines differ in
 * which of them they take.
 * @returns SHA-256, base64url
 */
export function sessionProfile(
  properties: readonly Property[],
  headers: readonly HeaderBlock[],
): string {
  return digest([
    VERSION,
    keyedProperties(properties),
    headers.map(({ uri, local, attributes, content }) => [uri, local, attributes, content]),
  ]);
}

/** The profile of a session that was begun with this one and named its first catalog later. */
export function extendProfile(profile: string, catalog: string): string {
  return `${LATER}${digest([profile, catalog])}`;
}

/** Whether the session named its first catalog later than it began. */
export function isExtended(profile: string): boolean {
  return profile.startsWith(LATER);
}

/** No digest begins with it. */
const LATER = '+';

/** Of JSON, which tells apart also what joined texts would not, and lone surrogates. */
function digest(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}
