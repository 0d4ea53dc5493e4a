import type { RequestHandler } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../clock.ts';
import { GatewayError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { XmlaHandler } from '../xmla-handler.ts';
import type { ClearCacheHandler } from './clear-cache.ts';
import { createXmlaClient } from './xmla-client.ts';
import { readXmlaPath } from './xmla-path.ts';

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
    switch (path.kind) {
      case 'xmla':
        options.xmla(request, response, path).catch(giveUp);
        break;
      case 'clear-cache':
        options.clearCache(request, response, path.project).catch(giveUp);
        break;
      case 'not-found':
        fail(
          new GatewayError(
            'not-found',
            'Nothing is served under this path; XMLA is at /mdx/xmla and /mdx/xmla/{project}.',
          ),
        );
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
      createXmlaClient(request, response, { id: newId(), clock, emit }).fail(error);
    }
  };
}

/** The same for Express. */
export function asMiddleware(
  routes: (request: IncomingMessage, response: ServerResponse) => boolean,
): RequestHandler {
  return (request, response, next) => {
    if (!routes(request, response)) next();
  };
}
