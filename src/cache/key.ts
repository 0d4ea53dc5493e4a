import { hash } from 'node:crypto';
import { normalizeStatement } from '../xmla/mdx/statement-policy.ts';
import { keyedProperties } from '../xmla/request/property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, XmlaRequest } from '../xmla/request/read-request.ts';
import type { KeyEpochs } from '../freshness/freshness.ts';
import type { Scope } from './projects.ts';

/** Raised whenever the meaning of a part or the encoding changes, so that no old entry is ever read. */
const KEY_VERSION = 5;

/**
 * All that reaches the engine with a cacheable request and can change its answer: what is neither
 * here nor stripped on the way is a security bug.
 */
export interface KeyParts {
  /** Which engine is asked: its URL template and how the gateway logs in there. */
  readonly engine: string;
  /** The project of the request path, decoded once, exactly as spelt; null when the path names none. */
  readonly project: string | null;
  /** The query parameters that are forwarded, in the order in which they are. */
  readonly query: readonly string[];
  /** Whose answers these are: `user:NAME`, `roles:STORAGE:TOKEN:IDS`, or `everyone` (design: sharing). */
  readonly identity: string;
  /** The User-Agent that the engine is sent: the kind of client program, never the raw header. */
  readonly userAgentClass: string | null;
  readonly accept: string | null;
  /** Media type and charset of the request, in one spelling, and the encoding of a body that is not UTF-8. */
  readonly contentType: string;
  /** What the session adds (its profile, how it is named), never its id; null without a session. */
  readonly session: string | null;
  readonly request: XmlaRequest;
}

/** What the key takes of a part; undefined where requests of this method have no such part. */
type Part = readonly [name: string, value: (parts: KeyParts, epochs: KeyEpochs) => unknown];

const ofExecute =
  (value: (request: ExecuteRequest) => unknown) =>
  ({ request }: KeyParts) =>
    request.method === 'Execute' ? value(request) : undefined;
const ofDiscover =
  (value: (request: DiscoverRequest) => unknown) =>
  ({ request }: KeyParts) =>
    request.method === 'Discover' ? value(request) : undefined;

/** By the names under which they are explained. Those that are there tell Discover from Execute. */
export const KEY_PARTS = [
  ['engine', ({ engine }) => engine],
  ['project', ({ project }) => project],
  ['query', ({ query }) => query],
  ['identity', ({ identity }) => identity],
  ['user-agent', ({ userAgentClass }) => userAgentClass],
  ['accept', ({ accept }) => accept],
  ['content-type', ({ contentType }) => contentType],
  ['session', ({ session }) => session],
  [
    'headers',
    ({ request }) => request.headers.map((h) => [h.uri, h.local, h.attributes, h.content]),
  ],
  ['statement', ofExecute((request) => normalizeStatement(request.statement))],
  ['request-type', ofDiscover((request) => request.requestType)],
  [
    'restrictions',
    ofDiscover((r) => r.restrictions.map((one) => [one.name, one.form, one.values])),
  ],
  ['parameters', ofExecute((r) => r.parameters.map((one) => [one.name, one.type, one.value]))],
  ['properties', ({ request }) => keyedProperties(request.properties)],
  ['epochs', (_parts, { scopes, tokens }) => [scopes, tokens]],
] as const satisfies readonly Part[];

export type KeyPartName = (typeof KEY_PARTS)[number][0];

/** The JSON of each part of {@link KEY_PARTS}; undefined where this method has none. */
export type PartTexts = readonly (string | undefined)[];

export function partTexts(parts: KeyParts, epochs: KeyEpochs): PartTexts {
  return KEY_PARTS.map(([, value]) => JSON.stringify(value(parts, epochs)) as string | undefined);
}

/** Stands for the epochs in the key of what does not depend on them. */
export const withoutEpochs = (keySecret: string): KeyEpochs => ({
  scopes: [],
  tokens: [],
  keySecret,
});

/**
 * SHA-512/256 (FIPS 180-4) of all parts, as one JSON array, in which no two lists look alike (no part that is there is null
 * where it could be absent), and of the epochs: 43 characters of base64url. Behind a secret: who reads the keys in Redis
 * cannot test guesses of what was asked; as half of the state is cut off, no digest can be continued.
 */
export function queryKey(
  parts: KeyParts,
  epochs: KeyEpochs,
  texts: PartTexts = partTexts(parts, epochs),
): string {
  const encoded = [KEY_VERSION, ...texts.map((text) => text ?? 'null')].join(',');
  return hash('sha512-256', `${epochs.keySecret}\0[${encoded}]`, 'base64url');
}

/** Of each digest: enough that no two parts in one memory meet by chance (bytes). */
const DIGEST = 8;
/** Stands for a part that requests of this method do not have. */
const ABSENT = '\0'.repeat(DIGEST);

/** Eight characters for each part, all below U+0100: a Buffer would take three times the memory. Behind them {@link queryDigest}. */
export type PartDigests = string;

/**
 * Digests each part by itself, behind the secret, so that it can be told in which parts two keys differ. It remembers the
 * digests of the request before: of most requests all parts but the statement come again.
 */
export function createPartDigests() {
  let before: { keySecret: string; texts: PartTexts; digests: readonly string[] } | undefined;

  return ({ keySecret }: KeyEpochs, texts: PartTexts): PartDigests => {
    const known = before?.keySecret === keySecret ? before : undefined;
    const digests = KEY_PARTS.map(([name], i) => {
      const text = texts[i];
      if (text === undefined) return ABSENT;
      return text === known?.texts[i]
        ? (known.digests[i] as string)
        : digest(keySecret, name, text);
    });
    before = { keySecret, texts, digests };
    // As one text: what was joined would keep a tree of texts alive.
    return Buffer.from(digests.join('') + digestOfTexts(texts), 'latin1').toString('latin1');
  };
}

/** The parts that are there, with their digests as base64url. */
export function describeParts(
  digests: PartDigests,
): readonly { readonly name: KeyPartName; readonly digest: string }[] {
  return KEY_PARTS.flatMap(([name], i) => {
    const found = digestAt(digests, i);
    return found === ABSENT ? [] : [{ name, digest: asBase64(found) }];
  });
}

/** Undefined when they have no part in common, as under another secret. */
export function differingParts(a: PartDigests, b: PartDigests): readonly KeyPartName[] | undefined {
  const same = KEY_PARTS.map((_part, i) => digestAt(a, i) === digestAt(b, i));
  const hasCommon = same.some((isSame, i) => isSame && digestAt(a, i) !== ABSENT);
  return hasCommon ? KEY_PARTS.flatMap(([name], i) => (same[i] ? [] : name)) : undefined;
}

const OF_WHO_AND_WHEN: ReadonlySet<KeyPartName> = new Set(['identity', 'session', 'epochs']);
const IS_OF_WHAT = KEY_PARTS.map(([name]) => !OF_WHO_AND_WHEN.has(name));
/** Characters. */
const QUERY_DIGEST = 22;

/**
 * Names what is asked, by any user at any time: 128 bits of the SHA-256 of all other parts, as 22 characters of base64url.
 * Not behind a secret, so that it stays the same: who reads it can test guesses of what was asked.
 */
export const queryDigest = (parts: Omit<KeyParts, 'identity' | 'session'>): string =>
  digestOfTexts(partTexts({ ...parts, identity: '', session: null }, withoutEpochs('')));

/** The same, of texts that are there already. */
function digestOfTexts(texts: PartTexts): string {
  const ofWhat = texts.map((text) => text ?? 'null').filter((_text, i) => IS_OF_WHAT[i]);
  return hash('sha256', `[${ofWhat.join(',')}]`, 'base64url').slice(0, QUERY_DIGEST);
}

/** {@link queryDigest} of the query of which these are digests; '' where they are not known. */
export const queryDigestOf = (digests: PartDigests): string =>
  digests.slice(KEY_PARTS.length * DIGEST);

/** In a form that can be shown: equal for equal epochs, and of no other use. */
export function describeEpochs({
  scopes,
  tokens,
  keySecret,
}: KeyEpochs): readonly { readonly scope: Scope; readonly token: string }[] {
  const tokenOf = (i: number) => asBase64(digest(keySecret, 'token', JSON.stringify(tokens[i])));
  return scopes.map((scope, i) => ({ scope, token: tokenOf(i) }));
}

/** Keyed by the secret in front, which is enough for a digest that is cut off. */
function digest(keySecret: string, name: string, text: string): string {
  return hash('sha256', `${keySecret}\0["${name}",${text}]`, 'latin1').slice(0, DIGEST);
}

const digestAt = (digests: PartDigests, i: number) => digests.slice(i * DIGEST, (i + 1) * DIGEST);
const asBase64 = (found: string) => Buffer.from(found, 'latin1').toString('base64url');
