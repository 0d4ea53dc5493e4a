import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { foldObjectName } from '../common/fold-case.ts';
import { keyedProperties } from '../xmla/request/property-policy.ts';
import type { XmlaRequest } from '../xmla/request/read-request.ts';

export interface SessionName {
  /** Engine, and project where its URL names one: elsewhere the id is another session. */
  readonly endpoint: string;
  readonly id: string;
}

/**
 * Name in the store: a hash, since an id is a right. Made of the id alone, as two endpoints may be
 * one engine, in one spelling for all that an engine could take for the same (a GUID with or
 * without braces, in any case). So no change misses its session; sessions that meet under one name
 * only lose the cache.
 */
export const sessionName = ({ id }: SessionName) => digest(withoutBraces(foldObjectName(id)));
/** Exact digest: only under it a session is taken for clean. */
export const sessionSpelling = ({ endpoint, id }: SessionName) => digestOf([endpoint, id]);

/** Bounds of remembered ids and of their characters; engines make some forty. */
const MAX_DIGESTED = 10_000;
const LONGEST_REMEMBERED = 128;

export function createSessionDigests() {
  type Digests = Readonly<Record<'endpoint' | 'key' | 'spelling', string>>;
  const known = new LRUCache<string, Digests>({ max: MAX_DIGESTED });

  return (name: SessionName): Digests => {
    const { endpoint, id } = name;
    const before = known.get(id);
    if (before?.endpoint === endpoint) return before;
    const digests = { endpoint, key: sessionName(name), spelling: sessionSpelling(name) };
    if (id.length <= LONGEST_REMEMBERED) known.set(id, digests);
    return digests;
  };
}

/** Strips blanks too. Matching what goes would be quadratic. */
const withoutBraces = (text: string) => /[^{}\s](?:.*[^{}\s])?/s.exec(text)?.[0] ?? '';
/** Raised when the meaning changes: Redis holds profiles of other versions. */
const VERSION = 4;
/** No digest begins with it. */
const LATER = '+';

/** Digests what may count for later requests: keyed properties, named headers. */
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

export function extendProfile(profile: string, catalog: string): string {
  return `${LATER}${digestOf([profile, catalog])}`;
}

export const isExtended = (profile: string) => profile.startsWith(LATER);

const digestOf = (parts: readonly unknown[]) => digest(JSON.stringify(parts));
const digest = (text: string) => hash('sha256', text, 'base64url');
