import type { IncomingMessage, ServerResponse } from 'node:http';
import { canonicalAuthorization } from '../auth/basic-credentials.ts';
import type { Permissions } from '../auth/permissions.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import type { Stale } from '../common/invalidation.ts';
import type { EngineClear, Purge, PurgeOutcome } from '../cache/purge/purge.ts';
import { asGatewayError, sendError, sendWhole } from './answers.ts';
import { forgery, unclearHead } from './request-checks.ts';
import type { Login } from './login.ts';

/** Answers `clearCache` (interface document §4.3). Never rejects. */
export type ClearCacheHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  project: string | undefined,
) => Promise<void>;

export function createClearCacheHandler(options: {
  login: Login;
  permissions: Permissions;
  purge: Purge;
  newId: () => string;
  emit: Emit;
}): ClearCacheHandler {
  const { emit } = options;

  async function clear(request: IncomingMessage, project: string | undefined) {
    const unclear = unclearHead(request);
    if (unclear !== undefined) throw unclear;
    if (request.method !== 'GET' && request.method !== 'POST') {
      throw new GatewayError('method-not-allowed', 'clearCache is called by GET or POST.', {
        headers: { allow: 'GET, POST' },
      });
    }
    const principal = await options.login(request);
    const refuse = (why: string) => {
      emit({ type: 'purge-refused', principal: principal.name, why });
      throw new GatewayError('forbidden', `Nothing was done: ${why}.`);
    };
    const forged = forgery(request.headers);
    if (forged !== undefined) refuse(forged);
    if (!options.permissions.mayPurge(principal)) {
      refuse(`${principal.name} is neither in auth.admins nor in auth.purgers`);
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

  return async function handle(request, response, project) {
    const shape = clearCacheShape(request);
    try {
      const receipt = await clear(request, project);
      if (shape === 'text') sendWhole(response, 'text/plain; charset=utf-8', clearedText(project));
      else {
        const body = JSON.stringify({ status: 'cleared', ...receipt });
        sendWhole(response, 'application/json', body);
      }
    } catch (error) {
      const id = options.newId();
      sendError(response, asGatewayError(error, id, emit), shape, id);
    }
  };
}

/** The form in which a caller of clearCache is told of errors: JSON only if it is named before plain text. */
export function clearCacheShape({ headers: { accept = '' } }: IncomingMessage): 'json' | 'text' {
  const types = accept.split(',').map((range) => range.split(';', 1)[0]?.trim());
  const first = types.find((type) => type === 'application/json' || type === 'text/plain');
  return first === 'application/json' ? 'json' : 'text';
}

/** The exact texts of the interface document §4.3. */
function clearedText(project: string | undefined): string {
  return project === undefined ? 'Cache has been cleared.' : `${project} Cache has been cleared.`;
}

/** Seconds after which it is worth to call again. */
const RETRY_AFTER = 5;

/**
 * What is told of a purge that was not done as a whole: what was done, and what was not. No text holds the words that
 * a script looks for after a purge, and that of a purge which Redis did not confirm says nowhere "cleared".
 * @returns `engine-not-cleared` or `purge-failed`
 */
function purgeFailure(
  stale: Stale,
  outcome: Extract<PurgeOutcome, { readonly ok: false }>,
): GatewayError {
  const { engines } = outcome;
  if (outcome.failed === 'engine') {
    const what = stale === 'everything' ? 'All entries are' : 'The entries of the project are';
    const text = `${what} dropped, on every gateway. But an engine did not clear its own cache: it may still answer from that, and its answers are kept as new ones. ${engineSentences(engines)} Call again when that is mended.`;
    return new GatewayError('engine-not-cleared', text, {
      retryAfter: RETRY_AFTER,
      details: { status: 'engine-not-cleared', ...outcome.receipt, engines },
    });
  }
  const told = engines.map(withoutTheWord);
  const text = `Redis did not confirm the purge. The memory of this gateway is empty; other gateways may still answer from their caches. The purge stays owed and is done when Redis answers, if this gateway still runs then; call again to be sure. ${engineSentences(told)}`;
  return new GatewayError('purge-failed', text.trim(), {
    retryAfter: RETRY_AFTER,
    details: { status: 'purge-failed', engines: told },
  });
}

/** One sentence for each replica; '' when none was called. */
function engineSentences(engines: readonly EngineClear[]): string {
  const failed = engines.filter(({ ok }) => !ok);
  const emptied = engines.filter(({ ok }) => ok).map(({ replica }) => replica);
  return [
    ...failed.map(({ replica, why }) =>
      `Not emptied: the cache of ${replica}. ${why ?? ''}`.trim(),
    ),
    ...(emptied.length > 0 ? [`Emptied: the cache of ${emptied.join(', ')}.`] : []),
  ].join(' ');
}

/** Also the URL of a replica could hold it. */
function withoutTheWord({ replica, why, ...rest }: EngineClear): EngineClear {
  return { replica: hushed(replica), ...rest, ...(why !== undefined && { why: hushed(why) }) };
}

function hushed(text: string): string {
  return text.replace(/cleared/gi, '…');
}
