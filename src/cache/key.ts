import { hash, randomUUID } from 'node:crypto';
import type { MdxTokens } from '../xmla/mdx/mdx-tokens.ts';
import { MAX_STATEMENT, normalizeStatement } from '../xmla/mdx/statement-policy.ts';
import { soapActionOf } from '../xmla/names.ts';
import { keyedProperties } from '../xmla/request/property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, XmlaRequest } from '../xmla/request/read-request.ts';
import type { CacheScope } from '../freshness/freshness-store.ts';
import type { Epochs, KeyEpochs } from '../freshness/freshness.ts';

/** Raised when a part or the encoding changes its meaning: old entries are not read then. */
const KEY_VERSION = 7;

/**
 * Parts of a request alike for any user. With {@link KeyParts} they are all that reaches the engine
 * with a cacheable request and can change its answer: a part that is neither here nor stripped on
 * the way is a security bug.
 */
export interface AskedParts {
  /** URL template of the engine, and how the gateway logs in there. */
  readonly engine: string;
  readonly project: string | null;
  readonly query: readonly string[];
  /** Kind of client program that the engine is sent, never the raw header. */
  readonly userAgentClass: string | null;
  readonly accept: string | null;
  readonly soapAction: string;
  readonly contentType: string;
  readonly namedHeaders: Readonly<Record<string, string>> | undefined;
  readonly request: XmlaRequest;
  /** Those of its statement, where they were read. */
  readonly tokens?: MdxTokens | undefined;
}

/** Made once for each request. Holds no id of a session. */
export interface Question extends Pick<AskedParts, 'query'> {
  readonly method: XmlaRequest['method'];
  readonly texts: PartTexts;
  /** SHA-256 of `texts` (43 characters of base64url), in their place in the key. */
  readonly hash: string;
  /**
   * Names the question, for any user: the first 128 bits of the hash, as 22 characters. It needs no
   * secret: who reads it can test guesses of the question.
   */
  readonly digest: string;
}

export interface KeyParts {
  readonly asked: Question;
  /** Owner of the answers: `user:NAME`, `roles:STORAGE:TOKEN:IDS`, or `everyone`. */
  readonly identity: string;
  /** Its profile and how it is named, never its id; null without a session. */
  readonly session: string | null;
}

type Part = readonly [
  name: string,
  value:
    | { readonly asked: (parts: AskedParts) => unknown }
    | { readonly by: (parts: KeyParts, epochs: KeyEpochs) => unknown },
];

const ofAsked = (asked: (parts: AskedParts) => unknown) => ({ asked });
const ofExecute = (value: (request: ExecuteRequest, tokens?: MdxTokens) => unknown) =>
  ofAsked(({ request, tokens }) =>
    request.method === 'Execute' ? value(request, tokens) : undefined,
  );
const ofDiscover = (value: (request: DiscoverRequest) => unknown) =>
  ofAsked(({ request }) => (request.method === 'Discover' ? value(request) : undefined));

/** Spelling of a SOAP toolkit; undefined for the usual one. */
function formOf({ soapAction, request: { method, forms } }: AskedParts) {
  const isUsual = forms.length === 0 && soapAction === soapActionOf(method);
  return isUsual ? undefined : [soapAction, forms];
}

export const KEY_PARTS = [
  ['engine', ofAsked(({ engine }) => engine)],
  ['project', ofAsked(({ project }) => project)],
  ['query', ofAsked(({ query }) => query)],
  ['identity', { by: ({ identity }) => identity }],
  ['user-agent', ofAsked(({ userAgentClass }) => userAgentClass)],
  ['accept', ofAsked(({ accept }) => accept)],
  ['content-type', ofAsked(({ contentType }) => contentType)],
  ['session', { by: ({ session }) => session }],
  [
    'headers',
    ofAsked(({ request }) => request.headers.map((h) => [h.uri, h.local, h.attributes, h.content])),
  ],
  [
    'statement',
    ofExecute(({ statement }, tokens) =>
      // One that is not read is in no key.
      statement.length > MAX_STATEMENT
        ? hash('sha256', statement)
        : normalizeStatement(statement, tokens),
    ),
  ],
  ['request-type', ofDiscover((request) => request.requestType)],
  [
    'restrictions',
    ofDiscover((r) => r.restrictions.map((one) => [one.name, one.form, one.values])),
  ],
  ['parameters', ofExecute((r) => r.parameters.map((one) => [one.name, one.type, one.value]))],
  ['properties', ofAsked(({ request }) => keyedProperties(request.properties))],
  ['form', ofAsked(formOf)],
  ['engine-headers', ofAsked(({ namedHeaders }) => namedHeaders)],
  ['epochs', { by: (_parts, { scopes, tokens }) => [scopes, tokens] }],
] as const satisfies readonly Part[];

const OTHERS = KEY_PARTS.flatMap(([, value]) => ('by' in value ? value.by : []));
export type KeyPartName = (typeof KEY_PARTS)[number][0];

export type PartTexts = readonly (string | undefined)[];

const asText = (value: unknown) => JSON.stringify(value) as string | undefined;

export const partTexts = (parts: KeyParts, epochs: KeyEpochs): PartTexts =>
  KEY_PARTS.map(([, value], i) =>
    'by' in value ? asText(value.by(parts, epochs)) : parts.asked.texts[i],
  );

const QUERY_DIGEST = 22;

export function askedOf(parts: AskedParts): Question {
  const texts: (string | undefined)[] = [];
  const list: string[] = [];
  for (const [, value] of KEY_PARTS) {
    const text = 'asked' in value ? asText(value.asked(parts)) : undefined;
    texts.push(text);
    if ('asked' in value) list.push(text ?? 'null');
  }
  // Few queries have the last two parts; the others keep digests that operators noted before there
  // were such parts.
  while (list.at(-1) === 'null') list.pop();
  const asked = hash('sha256', asList(list), 'base64url');
  const digest = asked.slice(0, QUERY_DIGEST);
  return { query: parts.query, method: parts.request.method, texts, hash: asked, digest };
}

/** Makes JSON; not by `join`, which copies long texts. */
const asList = (texts: readonly string[]) => `[${texts.reduce((all, text) => `${all},${text}`)}]`;

export const withoutEpochs = (keySecret: string) => ({ scopes: [], tokens: [], keySecret });

/**
 * SHA-512/256 (FIPS 180-4) of all parts and epochs as one JSON array, in which no two lists look
 * alike (null never stands for a part that could be absent). 43 characters of base64url. The secret
 * keeps readers of Redis from testing guesses; no digest can be continued, since half of the state
 * is cut off.
 */
export function queryKey(parts: KeyParts, epochs: KeyEpochs): string {
  const others = OTHERS.map((by) => by(parts, epochs));
  const encoded = JSON.stringify([KEY_VERSION, parts.asked.hash, ...others]);
  return hash('sha512-256', `${epochs.keySecret}\0${encoded}`, 'base64url');
}

/** Bytes; enough that no two parts in one memory meet by chance. */
const DIGEST = 8;
const ABSENT = '\0'.repeat(DIGEST);

/**
 * Eight characters for each part, all below U+0100 (a Buffer takes three times the memory), then
 * the digest of the {@link Question}.
 */
export type PartDigests = string;

/**
 * Digests each part, keyed by the secret, to tell in which parts two keys differ. Remembers the
 * request before: most have all parts but the statement in common.
 */
export function createPartDigests() {
  let before: { keySecret: string; texts: PartTexts; digests: readonly string[] } | undefined;

  return ({ keySecret }: KeyEpochs, texts: PartTexts, askedDigest: string): PartDigests => {
    const known = before?.keySecret === keySecret ? before : undefined;
    const digests = KEY_PARTS.map(([name], i) => {
      const text = texts[i];
      if (text === undefined) return ABSENT;
      return text === known?.texts[i]
        ? (known.digests[i] as string)
        : digest(keySecret, name, text);
    });
    before = { keySecret, texts, digests };
    // One flat text: a joined one keeps all its pieces alive.
    return Buffer.from(digests.join('') + askedDigest, 'latin1').toString('latin1');
  };
}

export function describeParts(digests: PartDigests) {
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

export const queryDigestOf = (digests: PartDigests): string =>
  digests.slice(KEY_PARTS.length * DIGEST);

/** For display: equal for equal epochs, of no other use. */
export function describeEpochs({ scopes, tokens, keySecret }: KeyEpochs) {
  const tokenOf = (i: number) => asBase64(digest(keySecret, 'token', JSON.stringify(tokens[i])));
  return scopes.map((scope, i) => ({ scope, token: tokenOf(i) }));
}

/** The secret in front is enough, as the digest is cut off. */
function digest(keySecret: string, name: string, text: string): string {
  return hash('sha256', `${keySecret}\0["${name}",${text}]`, 'latin1').slice(0, DIGEST);
}

const digestAt = (digests: PartDigests, i: number) => digests.slice(i * DIGEST, (i + 1) * DIGEST);
const asBase64 = (found: string) => Buffer.from(found, 'latin1').toString('base64url');

export interface Named {
  readonly parts: KeyParts;
  readonly scopes: readonly CacheScope[];
  readonly ttl: number;
}

export function createKeys(epochs: Epochs) {
  /** Keys flights while the epochs, and so the shared secret, are not known. */
  const noEpochs = withoutEpochs(randomUUID());
  const partDigests = createPartDigests();

  function nameOf(keyParts: KeyParts, captured: KeyEpochs) {
    const texts = () => partTexts(keyParts, captured);
    const digests = () => partDigests(captured, texts(), keyParts.asked.digest);
    return { key: queryKey(keyParts, captured), digests };
  }

  async function keyOf({ parts, scopes, ttl }: Named) {
    const captured = epochs.held(scopes) ?? (await epochs.obtain(scopes));
    if (captured === undefined) return undefined;
    const { key, digests } = nameOf(parts, captured);
    return { key, captured, ttl, digests: digests() };
  }

  return { noEpochs, nameOf, keyOf };
}
export type Keys = ReturnType<typeof createKeys>;
