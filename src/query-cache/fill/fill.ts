import type { BodyAccount } from '../../body-account.ts';
import type { Clock } from '../../clock.ts';
import { GatewayError } from '../../errors.ts';
import type { Emit, Outcome } from '../../events.ts';
import type { RefusalReason } from '../../reasons.ts';
import { inspectAnswer, refuseByHead } from '../../xmla/answer/inspect-answer.ts';
import { refuseBySessionHeader, tellBegun, withoutSession } from './answer-sessions.ts';
import type { BodiesInUse } from '../entries/bodies-in-use.ts';
import type { Flight } from '../flight.ts';
import { holdBack } from './held-back.ts';
import { inPieces } from './in-pieces.ts';
import type { Inspections } from './inspections.ts';
import { ownBytes } from '../entries/own-bytes.ts';
import type { Client, EngineAnswer, Query } from '../query.ts';
import type { StoredAnswer } from '../entries/stored-answer.ts';

/** What a piece needs beside its bytes, however few these are (bytes; measured, rounded up). */
const PIECE_OVERHEAD = 256;

export interface FillJob {
  readonly query: Query;
  /** The client that leads: it is sent the answer as it arrives, whatever its inspection says. */
  readonly client: Client;
  /** Those who wait for the same answer; undefined when nobody can. */
  readonly flight: Flight | undefined;
  /**
   * Keeps the answer in memory. Whoever got a short answer and asks again finds it there; who got a long one may find
   * the flight still, and waits for its inspection. Undefined when nothing may be stored. `began` is when the engine request began, by the clock that
   * never steps back (ms).
   */
  readonly keep: ((answer: StoredAnswer, began: number) => void) | undefined;
  /**
   * Called as soon as it is known that the answer may not be kept; a long one may go on for a while. Not
   * called for what says nothing of the next answer: the engine failed, a session changed, there was no room.
   */
  readonly refused?: () => void;
  /** What to say instead of `miss`, for a request that does not use the cache. */
  readonly bypass?: Outcome;
}

/**
 * Asks the engine, streams its answer to the client that leads, inspects it (a long one without keeping the client
 * waiting for that), and keeps it when it may be kept. The engine request is not bound to the client: when that goes away, the fill goes on for the
 * others, as long as its answer may still be shared.
 *
 * What it keeps has its room in the account, piece by piece. Where there is none, the answer passes unstored, and the
 * engine waits for the client.
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
    account: Pick<BodyAccount, 'open'>;
    inUse: Pick<BodiesInUse, 'hold'>;
    inspections: Inspections;
    clock: Clock;
    emit: Emit;
  },
): Promise<StoredAnswer | RefusalReason | undefined> {
  const { query, client, flight } = job;
  const { emit } = options;
  const abort = new AbortController();
  /** Aborted when no client is left that waits for an answer: then the engine need not be asked any more. */
  const unwanted = new AbortController();
  const look = () => {
    if (client.signal.aborted && flight?.awaited() !== true) {
      unwanted.abort(client.signal.reason);
    }
  };
  client.signal.addEventListener('abort', look, { once: true });
  flight?.onUnawaited(look);
  look();
  const share = options.account.open('fill');
  try {
    const engineAnswer = await query.ask(abort.signal, unwanted.signal);
    const result = await relay(engineAnswer, abort);
    if (typeof result === 'string')
      emit({ type: 'not-stored', project: query.project, reason: result });
    return result;
  } catch (error) {
    client.fail(error);
    return undefined;
  } finally {
    flight?.land(undefined);
    // What a slow client has not taken yet are the very pieces that were kept.
    void client.over().then(share.release);
  }

  async function relay(
    { head, body, began }: EngineAnswer,
    abort: AbortController,
  ): Promise<StoredAnswer | RefusalReason> {
    const { errorsAsData, successHeader } = query.engineTraits;
    let refusal = refuseByHead(head, successHeader) ?? refuseBySessionHeader(query, head);
    const inspector = inspectAnswer({
      contentType: head.headers['content-type'],
      method: query.parts.request.method,
      errorsAsData,
    });
    // What a fresh answer takes the place of would be found in memory until it is kept.
    const how = { announced: announcedBy(head), atOnce: query.fresh };
    const inspection = options.inspections.begin(inspector, how, refuse);
    const begun = tellBegun(query, head);
    let kept: Buffer[] = [];
    let size = 0;
    /** What is left of the inspection when the client has everything. */
    let behind: Promise<void> | undefined;
    const out = holdBack(client, head, outcome);

    function outcome(whole: boolean): Outcome {
      if (job.bypass !== undefined) return job.bypass;
      if (refusal !== undefined) return { kind: 'miss', detail: refusal, stored: false };
      return whole && behind === undefined ? { kind: 'miss', stored: true } : { kind: 'miss' };
    }

    function refuse(reason: RefusalReason): void {
      refusal = reason;
      kept = [];
      inspection.stop();
      if (!SAYS_NOTHING_OF_THE_NEXT.has(reason)) job.refused?.();
      flight?.land(undefined);
    }

    function noRoom(piece: Buffer): RefusalReason | undefined {
      return share.grow(piece.length + PIECE_OVERHEAD) ? undefined : 'no-room';
    }

    /** What may be kept of the whole answer, or why nothing may. */
    async function verdict() {
      if (refusal !== undefined) return refusal;
      const inspected = inspector.end();
      if (!inspected.ok) return inspected.reason;
      // The pieces stay until the client has them; where a session is cut out, there are two copies for a moment.
      const copies = inspected.session === undefined ? 1 : 2;
      if (!share.grow(copies * size)) return 'no-room';
      const shared = withoutSession(query, head, ownBytes(kept), inspected.session);
      kept = [];
      share.shrink((copies - 1) * size);
      if (shared === undefined) return 'session-in-answer';
      // After the last byte: whatever made the session another one before that may have shaped the answer.
      if (query.session && !(await query.session.confirm())) return 'session-changed';
      return shared;
    }

    if (refusal !== undefined) refuse(refusal);
    try {
      // From here on somebody listens to the body: nothing may be awaited before.
      for await (const piece of inPieces(body)) {
        if (refusal === undefined) {
          size += piece.length;
          const found = size > options.maxEntry ? 'too-large' : noRoom(piece);
          if (found === undefined) {
            kept.push(piece);
            inspection.write(piece);
          } else refuse(found);
        }
        const telling = begun(piece);
        if (telling !== undefined) await telling;
        const taken = out.write(piece);
        if (refusal === undefined) {
          const room = options.inspections.room();
          if (room !== undefined) await room;
          continue;
        }
        // Only what nobody else waits for moves at the pace of this client, and ends when it goes away.
        if (!taken) await client.drained();
        share.release();
        if (client.signal.aborted) abort.abort(client.signal.reason);
      }
    } catch (error) {
      inspection.stop();
      out.fail(
        error instanceof GatewayError || abort.signal.aborted
          ? error
          : new GatewayError('engine-unreachable', 'The engine broke its answer off.', {
              cause: error,
            }),
      );
      return refusal ?? 'truncated';
    }
    await begun();
    if (refusal === undefined) behind = inspection.done();
    if (behind !== undefined) {
      out.end();
      await behind;
    }
    const shared = await verdict();
    if (typeof shared === 'string') {
      refuse(shared);
      if (behind === undefined) out.end();
      return shared;
    }
    const answer: StoredAnswer = {
      ...shared,
      contentType: head.headers['content-type'] ?? '',
      contentLanguage: head.headers['content-language'],
      requestedAt: began.wall,
      lifetime: options.lifetime(query.ttl),
      engineMilliseconds: options.clock.now() - began.now,
    };
    query.answered?.();
    // From here on the body counts for those who need it.
    share.shrink(size);
    const letGo = options.inUse.hold(answer.body);
    job.keep?.(answer, began.now);
    flight?.land(answer);
    // By then those who waited for the flight need it themselves.
    setImmediate(letGo);
    if (behind === undefined) out.end();
    return answer;
  }
}

function announcedBy({ headers }: EngineAnswer['head']): number | undefined {
  const length = headers['content-length'];
  return length === undefined ? undefined : Number(length);
}

const SAYS_NOTHING_OF_THE_NEXT: ReadonlySet<RefusalReason> = new Set([
  // The next one may be asked in another session.
  'session-changed',
  'no-room',
]);
