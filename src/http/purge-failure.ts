import { GatewayError } from '../errors.ts';
import type { Stale } from '../invalidation.ts';
import type { EngineClear } from '../query-cache/purge/engine-clear.ts';
import type { PurgeOutcome } from '../query-cache/purge/purge.ts';

/** Seconds after which it is worth to call again. */
const RETRY_AFTER = 5;

/**
 * What is told of a purge that was not done as a whole: what was done, and what was not. No text holds the words that
 * a script looks for after a purge, and that of a purge which Redis did not confirm says nowhere "cleared".
 * @returns `engine-not-cleared` or `purge-failed`
 */
export function purgeFailure(
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
