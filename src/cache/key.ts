import { hash, randomUUID } from 'node:crypto';
import { normalizeStatement } from '../xmla/mdx/statement-policy.ts';
import { soapActionOf } from '../xmla/names.ts';
import { keyedProperties } from '../xmla/request/property-policy.ts';
import type { DiscoverRequest, ExecuteRequest, XmlaRequest } from '../xmla/request/read-request.ts';
import type { CacheScope } from '../freshness/freshness-store.ts';
import type { Epochs, KeyEpochs } from '../freshness/freshness.ts';

/** Raised when the meaning of a part or the encoding changes, so that no old entry is read. */
const KEY_VERSION = 7;

/**
 * Parts of a request that are alike for any user. With {@link KeyParts} they are all that reaches
 * the engine with a cacheable request and can change its answer: what is neither here nor stripped
 * on the way is a security bug.
 */
export interface AskedParts {
  /** Which engine is asked: its URL template and how the gateway logs in there. */
  readonly engine: string;
  /** The project of the request path, decoded once, exactly as spelt; null without one. */
  readonly project: string | null;
  /** The query parameters that are forwarded, in the order in which they are. */
  readonly query: readonly string[];
  /** The User-Agent that the engine is sent: the kind of client program, never the raw header. */
  readonly userAgentClass: string | null;
  readonly accept: string | null;
  /** The header SOAPAction that is forwarded. */
  readonly soapAction: string;
  /** Media type and charset in one spelling, and the encoding of a body that is not UTF-8. */
  readonly contentType: string;
  /** Headers forwarded because `engine.headers` names them, sorted; undefined for none. */
  readonly namedHeaders: Readonly<Record<string, string>> | undefined;
  readonly request: XmlaRequest;
}

/** A question as the key takes it, made once for each request. It holds no id of a session. */
export interface Question extends Pick<AskedParts, 'query'> {
  readonly method: XmlaRequest['method'];
  readonly texts: PartTexts;
  /** SHA-256 of `texts`, as 43 characters of base64url: stands for them in the key. */
  readonly hash: string;
  /**
   * Names what is asked, by any user at any time: the first 128 bits of the hash, as 22 characters.
   * It stays the same without a secret: who reads it can test guesses of what was asked.
   */
  readonly digest: string;
}

export interface KeyParts {
  readonly asked: Question;
  /** Owner of the answers: `user:NAME`, `roles:STORAGE:TOKEN:IDS`, or `everyone`. */
  readonly identity: string;
  /** Part of the session (its profile, how it is named), never its id; null without a session. */
  readonly session: string | null;
}

/** A part as the key takes it; undefined where requests of this method have none. */
type Part = readonly [
  name: string,
  value:
    | { readonly asked: (parts: AskedParts) => unknown }
    | { readonly by: (parts: KeyParts, epochs: KeyEpochs) => unknown },
];

const ofAsked = (asked: (parts: AskedParts) => unknown) => ({ asked });
const ofExecute = (value: (request: ExecuteRequest) => unknown) =>
  ofAsked(({ request }) => (request.method === 'Execute' ? value(request) : undefined));
const ofDiscover = (value: (request: DiscoverRequest) => unknown) =>
  ofAsked(({ request }) => (request.method === 'Discover' ? value(request) : undefined));

/** How a SOAP toolkit writes it; undefined where it is written as all other clients do. */
function formOf({ soapAction, request: { method, forms } }: AskedParts) {
  const isUsual = forms.length === 0 && soapAction === soapActionOf(method);
  return isUsual ? undefined : [soapAction, forms];
}

/** Parts of the key by the names under which they are explained. */
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
  ['statement', ofExecute((request) => normalizeStatement(request.statement))],
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

/** The JSON of each part of {@link KEY_PARTS}; undefined where this method has none. */
export type PartTexts = readonly (string | undefined)[];

const asText = (value: unknown) => JSON.stringify(value) as string | undefined;

export const partTexts = (parts: KeyParts, epochs: KeyEpochs): PartTexts =>
  KEY_PARTS.map(([, value], i) =>
    'by' in value ? asText(value.by(parts, epochs)) : parts.asked.texts[i],
  );

/** Characters. */
const QUERY_DIGEST = 22;

/** Makes the parts that the key takes, with their digests. */
export function askedOf(parts: AskedParts): Question {
  const texts: (string | undefined)[] = [];
  const list: string[] = [];
  for (const [, value] of KEY_PARTS) {
    const text = 'asked' in value ? asText(value.asked(parts)) : undefined;
    texts.push(text);
    if ('asked' in value) list.push(text ?? 'null');
  }
  // The last two parts are of few queries. All others keep the digests that operators noted before
  // there were these parts.
  while (list.at(-1) === 'null') list.pop();
  const asked = hash('sha256', asList(list), 'base64url');
  const digest = asked.slice(0, QUERY_DIGEST);
  return { query: parts.query, method: parts.request.method, texts, hash: asked, digest };
}

/** Makes JSON; not by `join`, which copies long texts. */
const asList = (texts: readonly string[]) => `[${texts.reduce((all, text) => `${all},${text}`)}]`;

/** Stands for the epochs in the key of what does not depend on them. */
export const withoutEpochs = (keySecret: string) => ({ scopes: [], tokens: [], keySecret });

/**
 * SHA-512/256 (FIPS 180-4) of all parts, as one JSON array, in which no two lists look alike (no
 * part that is there is null where it could be absent), and of the epochs: 43 characters of
 * base64url. What is asked stands there by its hash. It lies behind a secret: who reads the keys in
 * Redis cannot test guesses of what was asked; as half of the state is cut off, no digest can be
 * continued.
 */
export function queryKey(parts: KeyParts, epochs: KeyEpochs): string {
  const others = OTHERS.map((by) => by(parts, epochs));
  const encoded = JSON.stringify([KEY_VERSION, parts.asked.hash, ...others]);
  return hash('sha512-256', `${epochs.keySecret}\0${encoded}`, 'base64url');
}

/** Bytes of each digest: enough that no two parts in one memory meet by chance. */
const DIGEST = 8;
/** Stands for a part that requests of this method do not have. */
const ABSENT = '\0'.repeat(DIGEST);

/**
 * Eight characters for each part, all below U+0100 (a Buffer would take three times the memory),
 * and the digest of {@link Question}.
 */
export type PartDigests = string;

/**
 * Digests each part by itself, behind the secret, so that it can be told in which parts two keys
 * differ. Remembers the request before: most have all parts but the statement in common.
 * @param askedDigest that of {@link Question}
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
    // As one text: what was joined would keep a tree of texts alive.
    return Buffer.from(digests.join('') + askedDigest, 'latin1').toString('latin1');
  };
}

/** The parts that are there, with their digests as base64url. */
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

/** Digest of the {@link Question}, out of the digests of its parts; '' where they are not known. */
export const queryDigestOf = (digests: PartDigests): string =>
  digests.slice(KEY_PARTS.length * DIGEST);

/** In a form that can be shown: equal for equal epochs, and of no other use. */
export function describeEpochs({ scopes, tokens, keySecret }: KeyEpochs) {
  const tokenOf = (i: number) => asBase64(digest(keySecret, 'token', JSON.stringify(tokens[i])));
  return scopes.map((scope, i) => ({ scope, token: tokenOf(i) }));
}

/** Keyed by the secret in front, which is enough for a digest that is cut off. */
function digest(keySecret: string, name: string, text: string): string {
  return hash('sha256', `${keySecret}\0["${name}",${text}]`, 'latin1').slice(0, DIGEST);
}

const digestAt = (digests: PartDigests, i: number) => digests.slice(i * DIGEST, (i + 1) * DIGEST);
const asBase64 = (found: string) => Buffer.from(found, 'latin1').toString('base64url');

/** A query as far as its key goes. */
export interface Named {
  readonly parts: KeyParts;
  readonly scopes: readonly CacheScope[];
  /** Milliseconds. */
  readonly ttl: number;
}

/** Names a query: by the key under which it is looked up, and by digests of the parts of that. */
export function createKeys(epochs: Epochs) {
  /** Keys the flights while the epochs, and with them the shared secret, are not known. */
  const noEpochs = withoutEpochs(randomUUID());
  const partDigests = createPartDigests();

  function nameOf(keyParts: KeyParts, captured: KeyEpochs) {
    const texts = () => partTexts(keyParts, captured);
    const digests = () => partDigests(captured, texts(), keyParts.asked.digest);
    return { key: queryKey(keyParts, captured), digests };
  }

  /** Key under which an answer would be found now; undefined where the epochs are not known. */
  async function keyOf({ parts, scopes, ttl }: Named) {
    const captured = epochs.held(scopes) ?? (await epochs.obtain(scopes));
    if (captured === undefined) return undefined;
    const { key, digests } = nameOf(parts, captured);
    return { key, captured, ttl, digests: digests() };
  }

  return { noEpochs, nameOf, keyOf };
}
export type Keys = ReturnType<typeof createKeys>;
