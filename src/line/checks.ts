import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../common/errors.ts';
import type { ErrorShape } from '../http/answers.ts';
import { clearCacheShape } from '../http/clear-cache.ts';
import { carriesBody, forgery, refuseDelegation, unclearHead } from '../http/request-head.ts';
import type { XmlaAddress, XmlaPath } from '../http/xmla-path.ts';

/** Would make the engine send the gateway's own credentials back to the client. */
const REFUSED_METHODS: ReadonlySet<string> = new Set(['TRACE', 'CONNECT']);
const NOTHING_HERE =
  'Nothing is served under this path; XMLA is at /mdx/xmla and /mdx/xmla/{project}.';
const MISSPELT =
  'Nothing was done: nothing is served under this path. Did you mean clearCache? It is at /mdx/xmla/clearCache and /mdx/xmla/{project}/clearCache, and its letter case counts.';

/** Every path below /mdx/xmla but those of clearCache. */
export type AskedPath = Exclude<XmlaPath, { kind: 'clear-cache' }>;

/**
 * How errors are told. A request that may mean clearCache, misspelt, and is no XMLA by its head is told as clearCache is
 * (a project may have such a name).
 */
export function errorShape({ likeClearCache }: AskedPath, request: IncomingMessage): ErrorShape {
  if (likeClearCache !== true) return 'soap-fault';
  const mediaType = request.headers['content-type']?.split(';', 1)[0] ?? '';
  const isXmla = request.method === 'POST' && carriesBody(request) && /xml/i.test(mediaType);
  return isXmla ? 'soap-fault' : clearCacheShape(request);
}

/**
 * What is checked before the login.
 * @throws GatewayError `bad-request`, `not-found`
 */
export function checkHead(
  request: IncomingMessage,
  path: AskedPath,
  shape: ErrorShape,
): XmlaAddress {
  const unclear = unclearHead(request);
  if (unclear !== undefined) throw unclear;
  if (path.kind === 'bad-project') throw new GatewayError('bad-request', path.message);
  // An engine may answer it by 200, which a scheduler would take for a purge.
  if (shape !== 'soap-fault' || path.kind === 'not-found') {
    throw new GatewayError('not-found', path.likeClearCache ? MISSPELT : NOTHING_HERE);
  }
  return path;
}

/** @throws GatewayError `forbidden`: a page of another site can send any statement as text/plain without asking */
export function checkOrigin({ headers }: IncomingMessage, facts: { why: string }): void {
  const forged = forgery(headers);
  if (forged === undefined) return;
  facts.why = forged;
  throw new GatewayError('forbidden', `Nothing was done: ${forged}.`);
}

/** @throws GatewayError `identity-refused`, `bad-request`, `method-not-allowed` */
export function checkRequest({ headers, method = '' }: IncomingMessage, to: XmlaAddress): void {
  refuseDelegation(headers, to.search);
  if (/^\s*(application\/x-www-form-urlencoded|multipart\/)/i.test(headers['content-type'] ?? '')) {
    // Engines take logins from the fields of a form.
    throw new GatewayError(
      'bad-request',
      'A form is no XMLA request; the Content-Type must be text/xml.',
    );
  }
  if (REFUSED_METHODS.has(method)) {
    throw new GatewayError('method-not-allowed', `${method} is not allowed here.`, {
      headers: { allow: 'POST, GET, HEAD, OPTIONS' },
    });
  }
}
