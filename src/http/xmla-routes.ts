import type { RequestHandler } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../clock.ts';
import { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { XmlaHandler } from '../xmla-handler.ts';
import { clearCacheShape, type ClearCacheHandler } from './clear-cache.ts';
import { unclearHead } from './unclear-head.ts';
import { createXmlaClient } from './xmla-client.ts';
import { readXmlaPath } from './xmla-path.ts';

const NOTHING_HERE =
  'Nothing is served under this path; XMLA is at /mdx/xmla and /mdx/xmla/{project}.';
const MISSPELT =
  'Nothing was done: nothing is served under this path. Did you mean clearCache? It is at /mdx/xmla/clearCache and /mdx/xmla/{project}/clearCache, and its letter case counts.';

/**
 * Everything below /mdx/xmla, as one plain handler: false when the request is for somebody else. The path is
 * read here, not by Express, whose patterns know neither the difference between `%2F` and `/` nor the rule
 * that `clearCache` counts as the last whole segment only.
 */
export function createXmlaRoutes(options: {
  xmla: XmlaHandler;
  clearCache: ClearCacheHandler;
  clock: Clock;
  newId: () => string;
  emit: Emit;
}): (request: IncomingMessage, response: ServerResponse) => boolean {
  return (request, response) => {
    const path = readXmlaPath(request.url ?? '');
    if (path === undefined) return false;
    // An engine may answer a misspelt clearCache by 200, which a scheduler would take for a purge.
    const meantClearing =
      path.kind !== 'clear-cache' && path.likeClearCache && !carriesXml(request);
    const unclear = unclearHead(request);
    if (unclear !== undefined && path.kind !== 'clear-cache') {
      fail(unclear);
      return true;
    }
    switch (path.kind) {
      case 'xmla':
        if (meantClearing) fail(new GatewayError('not-found', MISSPELT));
        else options.xmla(request, response, path).catch(giveUp);
        break;
      case 'clear-cache':
        options.clearCache(request, response, path.project).catch(giveUp);
        break;
      case 'not-found':
        fail(new GatewayError('not-found', path.likeClearCache ? MISSPELT : NOTHING_HERE));
        break;
      case 'bad-project':
        fail(new GatewayError('bad-request', path.message));
        break;
    }
    return true;

    /** Neither rejects; if one did all the same, its client must not wait for ever. */
    function giveUp(): void {
      response.destroy();
    }

    function fail(error: GatewayError): void {
      const { newId, clock, emit } = options;
      const errorShape = meantClearing ? clearCacheShape(request) : 'soap-fault';
      createXmlaClient(request, response, { id: newId(), clock, emit, errorShape }).fail(error);
    }
  };
}

/** Whether a request is XMLA by its head; a project may have a name like clearCache. */
function carriesXml({ method, headers }: IncomingMessage): boolean {
  const hasBody =
    headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  const mediaType = headers['content-type']?.split(';', 1)[0] ?? '';
  return method === 'POST' && hasBody && /xml/i.test(mediaType);
}

/** The same for Express. */
export function asMiddleware(
  routes: (request: IncomingMessage, response: ServerResponse) => boolean,
): RequestHandler {
  return (request, response, next) => {
    if (!routes(request, response)) next();
  };
}
