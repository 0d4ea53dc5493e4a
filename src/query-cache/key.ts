import { createHmac } from 'node:crypto';
import type { XmlaRequest } from '../xmla/xmla-request.ts';
import { normalizeStatement } from '../xmla/statement-policy.ts';
import { keyedProperties } from '../xmla/property-policy.ts';
import type { CapturedEpochs } from './epochs.ts';

/** Raised whenever the meaning of a part or the encoding changes, so that no old entry is ever read. */
const KEY_VERSION = 1;

/**
 * Everything that reaches the engine with a cacheable request and can change its answer. What is neither
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
  /** The media type that the engine is asked for. */
  readonly accept: string | null;
  /** Media type and charset of the request, in one spelling. */
  readonly contentType: string;
  /** Method, request type or statement, parameters, restrictions, properties. */
  readonly request: XmlaRequest;
}

/**
 * The key of a cached answer: HMAC-SHA-256 of all parts and of the epochs under which it is used, 43
 * characters of base64url. The parts are encoded as one JSON array, in which no two different lists of
 * parts look alike (lone surrogates are escaped). Keyed with a secret of the deployment, so that somebody
 * who can read the Redis keys cannot test guesses of what was asked.
 */
export function queryKey(parts: KeyParts, epochs: CapturedEpochs): string {
  const encoded = JSON.stringify([
    KEY_VERSION,
    parts.engine,
    parts.project,
    parts.query,
    parts.identity,
    parts.userAgentClass,
    parts.accept,
    parts.contentType,
    requestParts(parts.request),
    epochs.scopes,
    epochs.tokens,
  ]);
  return createHmac('sha256', epochs.keySecret).update(encoded).digest('base64url');
}

function requestParts(request: XmlaRequest): readonly unknown[] {
  const properties = keyedProperties(request.properties).map(({ name, value }) => [name, value]);
  if (request.method === 'Discover') {
    const restrictions = request.restrictions.map((r) => [r.name, r.form, r.values]);
    return ['Discover', request.requestType, restrictions, properties];
  }
  const parameters = request.parameters.map((p) => [p.name, p.type, p.value]);
  return ['Execute', normalizeStatement(request.statement), parameters, properties];
}
