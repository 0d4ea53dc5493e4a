import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../clock.ts';
import type { PassThroughClient } from '../engine/engine.ts';
import { GatewayError } from '../errors.ts';
import type { Emit, Outcome } from '../events.ts';
import { breakOff } from '../proxy/answer.ts';
import { answerHeaders } from '../proxy/forwarded.ts';
import type { BodiesInUse } from '../query-cache/bodies-in-use.ts';
import { GZIP_FROM, type GzipMaker } from '../query-cache/gzip.ts';
import type { AnswerHead, Client } from '../query-cache/query.ts';
import type { StoredAnswer } from '../query-cache/stored-answer.ts';
import { asGatewayError, sendError, type ErrorShape } from './answers.ts';
import { acceptsGzip } from './request-head.ts';
import { cacheStatus, NO_TRANSPORT_CAPS, sendStored, TRANSPORT_CAPS } from './stored-reply.ts';

/** The facts of a replay. */
type Replay = Parameters<Client['replay']>[1];

/** How long a client may take nothing of an answer that is held for it (ms); engines are as patient by default. */
const LONGEST_STALL = 300_000;
/** In an answer with one of these a length would be wrong, or speak of another answer (RFC 9110 §8.6). */
const BODILESS: ReadonlySet<number> = new Set([204, 304]);

/** Of what a request says of itself, so much is told (characters): the rest of a long one helps nobody. */
const LONGEST_TOLD = 255;

const OVER = Promise.resolve();

/** What the event of an answered request says; filled in as the request becomes known. */
export interface RequestFacts {
  readonly id: string;
  principal: string;
  project: string;
  subject: string;
  why: string;
}

export interface XmlaClient extends Client {
  readonly facts: RequestFacts;
  /** What the head says when the request is passed through. */
  passingThrough(outcome: Outcome): PassThroughClient;
}

/**
 * The client of one XMLA request. Every head of an XMLA answer is written here and nowhere else, so that
 * Cache-Status, Age and the transport flags are on all of them.
 *
 * @param options.gzip makes compressed answers for later; undefined, as `inUse`, where nothing stored is ever replayed
 * @param options.errorShape how its errors are told; as a SOAP Fault unless it is said
 * @param options.stall how long it may take nothing of an answer that is held for it, in milliseconds
 */
export function createXmlaClient(
  request: IncomingMessage,
  response: ServerResponse,
  options: {
    id: string;
    clock: Clock;
    emit: Emit;
    gzip?: GzipMaker;
    inUse?: BodiesInUse;
    stall?: number;
    errorShape?: ErrorShape;
  },
): XmlaClient {
  const { clock, emit, inUse, stall = LONGEST_STALL, errorShape = 'soap-fault' } = options;
  const began = clock.now();
  const gone = new AbortController();
  const facts: RequestFacts = { id: options.id, principal: '', project: '', subject: '', why: '' };
  // SSAS clients expect the flags on every reply: plain text, no binary XML, no compression.
  const asksForCaps = request.headers[TRANSPORT_CAPS] !== undefined;
  let outcome: Outcome = { kind: 'gateway', detail: 'client-gone' };
  let bytes = 0;
  let saved = 0;

  const whenOver: (() => void)[] = [];

  response.once('close', () => {
    for (const tell of whenOver) tell();
    const complete = response.writableFinished;
    if (!complete) gone.abort(new GatewayError('client-gone', 'The client went away.'));
    const { id, principal, project, subject, why } = facts;
    emit({
      type: 'xmla-answered',
      id,
      principal,
      project,
      subject: subject.slice(0, LONGEST_TOLD),
      why: why.slice(0, LONGEST_TOLD),
      outcome,
      status: response.headersSent ? response.statusCode : 499,
      bytes,
      milliseconds: clock.now() - began,
      saved,
      complete,
    });
  });

  /** Those of an answer that does not come from the cache. */
  function gatewayHeaders(): Record<string, string> {
    const headers: Record<string, string> = { 'cache-status': cacheStatus(outcome), age: '0' };
    if (asksForCaps) headers[TRANSPORT_CAPS] = NO_TRANSPORT_CAPS;
    return headers;
  }

  function open(head: AnswerHead, said: Outcome, length: number | undefined): void {
    if (gone.signal.aborted || response.headersSent) return;
    outcome = said;
    const headers = Object.assign(answerHeaders(head.headers), gatewayHeaders());
    if (length !== undefined && !BODILESS.has(head.status)) headers['content-length'] ??= length;
    response.writeHead(head.status, head.statusMessage, headers);
  }

  function replay(
    answer: StoredAnswer,
    { outcome: said, ttl, age, sessionId, gzip }: Replay,
  ): void {
    if (gone.signal.aborted) return;
    const wantsGzip =
      gzip !== undefined &&
      answer.body.length >= GZIP_FROM &&
      acceptsGzip(request.headers['accept-encoding']);
    const variant = wantsGzip ? gzip.variant : undefined;
    const source = said.detail;
    bytes = sendStored(response, answer, { source, ttl, age, sessionId, variant, asksForCaps });
    outcome = said;
    saved = answer.engineMilliseconds;
    const letGo = inUse?.hold(variant?.tail ?? answer.body);
    if (letGo !== undefined) response.once('close', letGo);
    watchStall();
    if (wantsGzip && variant === undefined) {
      options.gzip?.prepare(answer, (made) => gzip.keep(made));
    }
  }

  /** What is left of an answer that was ended is in memory until the client has it. */
  function watchStall(): void {
    if (response.writableLength > 0) response.setTimeout(stall, () => response.destroy());
  }

  function fail(error: unknown): void {
    if (gone.signal.aborted) return;
    const failure = asGatewayError(error, facts.id, emit);
    // What was ended is whole: only the storing of it failed.
    if (response.writableEnded) return;
    if (response.headersSent) return breakOff(request, response);
    outcome = { kind: 'gateway', detail: failure.reason };
    sendError(response, failure, errorShape, facts.id, gatewayHeaders());
  }

  return {
    facts,
    signal: gone.signal,
    open,
    fail,
    replay,
    write(chunk) {
      if (gone.signal.aborted) return true;
      bytes += chunk.length;
      return response.write(chunk);
    },
    async drained() {
      if (gone.signal.aborted || !response.writableNeedDrain) return;
      await once(response, 'drain', { signal: gone.signal }).catch(() => {});
    },
    end() {
      if (gone.signal.aborted) return;
      response.end();
      watchStall();
    },
    over: () => (response.closed ? OVER : new Promise((resolve) => void whenOver.push(resolve))),
    passingThrough: (said) => ({
      request,
      response,
      signal: gone.signal,
      open: (head) => open(head, said, undefined),
      sent(count) {
        bytes += count;
      },
      fail,
    }),
  };
}
