import type { Clock } from '../clock.ts';
import { GatewayError } from '../errors.ts';
import type { Emit, Outcome } from '../events.ts';
import type { RefusalReason } from '../reasons.ts';
import { inspectAnswer, refuseByHead } from '../xmla/inspect-answer.ts';
import type { Flight } from './flight.ts';
import { holdBack } from './held-back.ts';
import type { Client, EngineAnswer, Query } from './query.ts';
import type { StoredAnswer } from './stored-answer.ts';

export interface FillJob {
  readonly query: Query;
  /** The client that leads: it is sent the answer as it arrives, whatever its inspection says. */
  readonly client: Client;
  /** Those who wait for the same answer; undefined when nobody can. */
  readonly flight: Flight | undefined;
  /**
   * Keeps the answer in memory, before the client has its last byte: whoever got an answer and asks again
   * finds it. Undefined when nothing may be stored.
   */
  readonly keep: ((answer: StoredAnswer) => void) | undefined;
  /**
   * Called as soon as it is known that the answer may not be kept; a long one may go on for a while. Not
   * called when the engine failed, which says nothing of its next answer.
   */
  readonly refused?: () => void;
  /** What to say instead of `miss`, for a request that does not use the cache. */
  readonly bypass?: Outcome;
}

/**
 * Asks the engine, streams its answer to the client that leads, inspects it on the way, and keeps it when it
 * may be kept. The engine request is not bound to the client: when that goes away, the fill goes on for the
 * others, as long as its answer may still be shared.
 *
 * @returns the answer, or why it was not kept; undefined when none began
 */
export async function fill(
  job: FillJob,
  options: {
    /** Larger bodies are not kept (bytes). */
    maxEntry: number;
    /** The ttl with its jitter (ms). */
    lifetime: (ttl: number) => number;
    clock: Clock;
    emit: Emit;
  },
): Promise<StoredAnswer | RefusalReason | undefined> {
  const { query, client, flight } = job;
  const { emit } = options;
  const abort = new AbortController();
  try {
    const engineAnswer = await query.ask(abort.signal);
    const result = await relay(engineAnswer, abort);
    if (typeof result === 'string')
      emit({ type: 'not-stored', project: query.project, reason: result });
    return result;
  } catch (error) {
    client.fail(error);
    return undefined;
  } finally {
    flight?.land(undefined);
  }

  async function relay(
    { head, body, began }: EngineAnswer,
    abort: AbortController,
  ): Promise<StoredAnswer | RefusalReason> {
    let refusal = refuseByHead(head);
    const inspector = inspectAnswer({
      contentType: head.headers['content-type'],
      method: query.parts.request.method,
    });
    let kept: Buffer[] = [];
    let size = 0;
    const out = holdBack(client, head, outcome);

    function outcome(whole: boolean): Outcome {
      if (job.bypass !== undefined) return job.bypass;
      if (refusal !== undefined) return { kind: 'miss', detail: refusal, stored: false };
      return whole ? { kind: 'miss', stored: true } : { kind: 'miss' };
    }

    function refuse(reason: RefusalReason): void {
      refusal = reason;
      kept = [];
      job.refused?.();
      flight?.land(undefined);
    }

    if (refusal !== undefined) refuse(refusal);
    try {
      for await (const chunk of body) {
        if (refusal === undefined) {
          size += chunk.length;
          if (size <= options.maxEntry) inspector.write(chunk);
          const found = size > options.maxEntry ? 'too-large' : inspector.refusal;
          if (found === undefined) kept.push(chunk);
          else refuse(found);
        }
        const taken = out.write(chunk);
        if (refusal === undefined) continue;
        // Only what nobody else waits for moves at the pace of this client, and ends when it goes away.
        if (!taken) await client.drained();
        if (client.signal.aborted) abort.abort(client.signal.reason);
      }
    } catch (error) {
      out.fail(
        error instanceof GatewayError || abort.signal.aborted
          ? error
          : new GatewayError('engine-unreachable', 'The engine broke its answer off.', {
              cause: error,
            }),
      );
      return refusal ?? 'truncated';
    }
    const verdict = refusal ?? inspector.end();
    if (verdict !== undefined) {
      refuse(verdict);
      out.end();
      return verdict;
    }
    const answer: StoredAnswer = {
      body: Buffer.concat(kept),
      contentType: head.headers['content-type'] ?? '',
      contentLanguage: head.headers['content-language'],
      requestedAt: began.wall,
      lifetime: options.lifetime(query.ttl),
      engineMilliseconds: options.clock.now() - began.now,
    };
    job.keep?.(answer);
    flight?.land(answer);
    out.end();
    return answer;
  }
}
