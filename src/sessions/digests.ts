import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { foldObjectName } from '../common/fold-case.ts';
import { keyedProperties } from '../xmla/request/property-policy.ts';
import type { XmlaRequest } from '../xmla/request/read-request.ts';

export interface SessionName {
  /** The engine, and the project where its URL names one: elsewhere the id is another session's. */
  readonly endpoint: string;
  readonly id: string;
}

/**
 * Name under which a session is noted (SHA-256, as an id is a right): by its id alone, since two
 * endpoints may be one engine, and in one spelling for all that an engine could take for the same
 * (a GUID with or without braces, in any letter case). So no change is noted beside its session;
 * two sessions that meet under one name cost their users the cache, and nothing else.
 */
export const sessionName = ({ id }: SessionName) => digest(withoutBraces(foldObjectName(id)));
/** Endpoint and id exactly as they are: only under these a session is ever taken for clean. */
export const sessionSpelling = ({ endpoint, id }: SessionName) => digestOf([endpoint, id]);

/** Bound of remembered ids, and of their characters. Engines make ids of some forty. */
const MAX_DIGESTED = 10_000;
const LONGEST_REMEMBERED = 128;

/** Digests names of sessions, and remembers those of the latest. */
export function createSessionDigests() {
  const known = new LRUCache<string, { endpoint: string; key: string; spelling: string }>({
    max: MAX_DIGESTED,
  });

  return (name: SessionName): { readonly key: string; readonly spelling: string } => {
    const { endpoint, id } = name;
    const before = known.get(id);
    if (before?.endpoint === endpoint) return before;
    const digests = { endpoint, key: sessionName(name), spelling: sessionSpelling(name) };
    if (id.length <= LONGEST_REMEMBERED) known.set(id, digests);
    return digests;
  };
}

/** Strips blanks as well. It matches what is kept: matching what goes would be quadratic. */
const withoutBraces = (text: string) => /[^{}\s](?:.*[^{}\s])?/s.exec(text)?.[0] ?? '';
/** Raised whenever the meaning changes: profiles of other versions are in Redis. */
const VERSION = 4;
/** No digest begins with it. */
const LATER = '+';

/**
 * Digests all that a session was begun with that may count for its later requests: of properties
 * what is keyed, of headers those named.
 */
export function sessionProfile(
  { properties, headers, forms }: Pick<XmlaRequest, 'properties' | 'headers' | 'forms'>,
  namedHeaders: Readonly<Record<string, string>> | undefined,
) {
  return digestOf([
    VERSION,
    keyedProperties(properties),
    headers.map(({ uri, local, attributes, content }) => [uri, local, attributes, content]),
    forms,
    namedHeaders,
  ]);
}

/** Profile of a session that was begun with this one and named its first catalog later. */
export function extendProfile(profile: string, catalog: string): string {
  return `${LATER}${digestOf([profile, catalog])}`;
}

/** Tells a profile made by {@link extendProfile}. */
export const isExtended = (profile: string) => profile.startsWith(LATER);

const digestOf = (parts: readonly unknown[]) => digest(JSON.stringify(parts));
const digest = (text: string) => hash('sha256', text, 'base64url');
