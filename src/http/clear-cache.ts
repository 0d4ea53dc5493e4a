import type { IncomingMessage, ServerResponse } from 'node:http';
import { canonicalAuthorization, type Login, type Permissions } from '../auth/authenticator.ts';
import type { EngineClear, Purge, PurgeOutcome } from '../cache/purge/purge.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Stale } from '../common/events.ts';
import { asGatewayError, PLAIN_TEXT, sendError, sendJson, sendWhole } from './answers.ts';
import { forgedAct, nameRequest, queryParameters, unclearHead } from './request-head.ts';
import { readXmlaPath } from './xmla-path.ts';

export type ClearCacheHandler = ReturnType<typeof createClearCacheHandler>;

/** Answers `clearCache` (interface document §4.3). Never rejects. */
export function createClearCacheHandler(options: {
  login: Login;
  permissions: Permissions;
  purge: Purge;
  newId: () => string;
  emit: Emit;
}) {
  const { permissions, newId, emit } = options;

  async function clear(request: IncomingMessage, project: string | undefined, id: string) {
    const unclear = unclearHead(request);
    if (unclear !== undefined) throw unclear;
    if (request.method !== 'GET' && request.method !== 'POST') {
      throw new GatewayError('method-not-allowed', 'clearCache is called by GET or POST.', {
        headers: { allow: 'GET, POST' },
      });
    }
    const principal = await options.login(request, id);
    const mayNot = permissions.mayPurge(principal)
      ? undefined
      : `${principal.name} is neither in auth.admins nor in auth.purgers`;
    const forbidden = forgedAct(request.headers) ?? mayNot;
    const why = forbidden ?? mistakenQuery(request);
    if (why !== undefined) {
      emit({ type: 'purge-refused', principal: principal.name, why });
      const reason = forbidden === undefined ? 'bad-request' : 'forbidden';
      throw new GatewayError(reason, `Nothing was done: ${why}.`);
    }
    const stale = project === undefined ? 'everything' : { project };
    const outcome = await options.purge(stale, {
      principal: principal.name,
      cause: 'clear-cache',
      authorization: canonicalAuthorization(request.headers.authorization),
    });
    if (outcome.ok) return outcome.receipt;
    throw purgeFailure(stale, outcome);
  }

  return async (
    request: IncomingMessage,
    response: ServerResponse,
    project: string | undefined,
  ) => {
    const shape = clearCacheShape(request);
    const id = nameRequest(request, response, newId);
    try {
      const receipt = await clear(request, project, id);
      // The exact texts of the interface document §4.3.
      const text = `${project === undefined ? '' : `${project} `}Cache has been cleared.`;
      if (shape === 'text') sendWhole(response, PLAIN_TEXT, text);
      else sendJson(response, { status: 'cleared', ...receipt });
    } catch (error) {
      sendError(response, asGatewayError(error, id, emit), shape, id);
    }
  };
}

/** Form of errors: JSON only if it is named before plain text. */
export function clearCacheShape({ headers: { accept = '' } }: IncomingMessage): 'json' | 'text' {
  const types = accept.split(',').map((range) => range.split(';', 1)[0]?.trim());
  const first = types.find((type) => type === 'application/json' || type === 'text/plain');
  return first === 'application/json' ? 'json' : 'text';
}

/** Refuses parameters (interface document §4.3): `?project=NAME` must not purge everything. */
function mistakenQuery(request: IncomingMessage): string | undefined {
  const given = Object.entries(queryParameters(request));
  if (given.length === 0) return undefined;
  const named = given.find(([name]) => name.toLowerCase() === 'project')?.[1];
  const path = typeof named === 'string' && `/mdx/xmla/${encodeURIComponent(named)}/clearCache`;
  const isOne = path && readXmlaPath(path)?.kind === 'clear-cache';
  const meant = isOne ? path : '/mdx/xmla/{project}/clearCache';
  return `clearCache takes no query parameters; a project is named in the path: ${meant}`;
}

const RETRY_AFTER_SECONDS = 5;

/** Avoids the words that scripts look for, and "cleared" if Redis did not confirm the purge. */
export function purgeFailure(
  stale: Stale,
  outcome: Extract<PurgeOutcome, { readonly ok: false }>,
): GatewayError {
  const { engines } = outcome;
  if (outcome.failed === 'engine') {
    const what = stale === 'everything' ? 'All entries are' : 'The entries of the project are';
    const text = `${what} dropped, on every gateway. But an engine did not clear its own cache: it may still answer from that, and its answers are kept as new ones. ${engineSentences(engines)} Call again when that is mended.`;
    return new GatewayError('engine-not-cleared', text, {
      retryAfter: RETRY_AFTER_SECONDS,
      details: { status: 'engine-not-cleared', ...outcome.receipt, engines },
    });
  }
  const told = JSON.parse(JSON.stringify(engines), withoutTheWord) as typeof engines;
  const text = `Redis did not confirm the purge. The memory of this gateway is empty; other gateways may still answer from their caches. The purge stays owed and is done when Redis answers, if this gateway still runs then; call again to be sure. ${engineSentences(told)}`;
  return new GatewayError('purge-failed', text.trim(), {
    retryAfter: RETRY_AFTER_SECONDS,
    details: { status: 'purge-failed', engines: told },
  });
}

function engineSentences(engines: readonly EngineClear[]): string {
  const emptied = engines.filter(({ ok }) => ok).map(({ replica }) => replica);
  const sentences = engines
    .filter(({ ok }) => !ok)
    .map(({ replica, why = '' }) => `Not emptied: the cache of ${replica}. ${why}`.trim());
  if (emptied.length > 0) sentences.push(`Emptied: the cache of ${emptied.join(', ')}.`);
  return sentences.join(' ');
}

/** Even a replica's URL could hold the word. */
const withoutTheWord = (_name: string, value: unknown): unknown =>
  typeof value === 'string' ? value.replace(/cleared/gi, '…') : value;
