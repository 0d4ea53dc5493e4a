import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../clock.ts';
import type { Emit, Outcome } from '../events.ts';
import { sendStored } from '../http/stored-reply.ts';
import type { BodiesInUse } from '../query-cache/bodies-in-use.ts';
import type { GzipMaker } from '../query-cache/gzip.ts';
import { GZIP_FROM } from '../query-cache/gzip.ts';
import type { KnownAnswers, Recalled } from '../query-cache/query.ts';
import type { KnownKey } from '../query-cache/query.ts';
import type { KnownHead } from './known-queries.ts';

/** A request that is known: what the line would find out of it. */
export interface Recognised {
  readonly principal: string;
  readonly subject: string;
  readonly found: KnownKey;
  /** The id of its session, which is the principal's own and clean at this moment. */
  readonly sessionId: string | undefined;
}

/** A request that was taken, and its answer to come. */
export interface Taken {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly head: KnownHead;
  /** When it was taken, by the monotonic clock (ms). */
  readonly began: number;
}

/** Sends what was recalled, and tells of it. */
export interface HitSender {
  /** @throws as `sendStored` does: then nothing was sent */
  send(taken: Taken, recognised: Recognised, recalled: Recalled): void;
  /** Tells of a request whose client went before there was anything to send. */
  tellGone(taken: Taken, recognised: Recognised): void;
}

/** How long a client may take nothing of an answer (ms). */
const LONGEST_STALL = 300_000;
const HIT: Readonly<Record<Recalled['source'], Outcome>> = {
  memory: { kind: 'hit', detail: 'memory' },
  redis: { kind: 'hit', detail: 'redis' },
};
const GONE: Outcome = { kind: 'gateway', detail: 'client-gone' };

/** The end of a request, as far as one differs from the next. */
interface End {
  readonly outcome: Outcome;
  readonly status: number;
  readonly bytes: number;
  readonly saved: number;
  readonly complete: boolean;
}

export function createHitSender(options: {
  cache: Pick<KnownAnswers, 'gzipOf'>;
  gzip: GzipMaker;
  inUse: Pick<BodiesInUse, 'hold'>;
  clock: Pick<Clock, 'now'>;
  newId: () => string;
  emit: Emit;
}): HitSender {
  const { cache, inUse, clock } = options;

  function tell({ head, began }: Taken, { principal, subject }: Recognised, end: End): void {
    options.emit({
      type: 'xmla-answered',
      id: options.newId(),
      principal,
      project: head.project,
      subject,
      why: '',
      outcome: end.outcome,
      status: end.status,
      bytes: end.bytes,
      milliseconds: clock.now() - began,
      saved: end.saved,
      complete: end.complete,
    });
  }

  /** Most answers are with the system already when they have been written, and need no one to wait for them. */
  function whenOver(
    response: ServerResponse,
    body: Buffer,
    over: (complete: boolean) => void,
  ): void {
    if (response.socket?.writableLength === 0) return over(true);
    const letGo = inUse.hold(body);
    response.once('close', () => {
      letGo();
      over(response.writableFinished);
    });
    response.setTimeout(LONGEST_STALL, () => response.destroy());
  }

  return {
    send(taken, recognised, { answer, source, ttl, age }) {
      const { response, head } = taken;
      const { found, sessionId } = recognised;
      const wantsGzip = head.takesGzip && answer.body.length >= GZIP_FROM;
      const gzip = wantsGzip ? cache.gzipOf(found.key, answer) : undefined;
      const variant = gzip?.variant;
      const { asksForCaps } = head;
      const bytes = sendStored(response, answer, {
        source,
        ttl,
        age,
        sessionId,
        variant,
        asksForCaps,
      });
      const saved = answer.engineMilliseconds;
      whenOver(response, variant?.tail ?? answer.body, (complete) =>
        tell(taken, recognised, { outcome: HIT[source], status: 200, bytes, saved, complete }),
      );
      if (gzip !== undefined && variant === undefined) {
        options.gzip.prepare(answer, (made) => gzip.keep(made));
      }
    },
    tellGone(taken, recognised) {
      const end = { outcome: GONE, status: 499, bytes: 0, saved: 0, complete: false };
      tell(taken, recognised, end);
    },
  };
}
