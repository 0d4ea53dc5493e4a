import { once } from 'node:events';
import type {
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http';
import {
  type AnswerText,
  dropPiece,
  GZIP_FROM,
  gzipWithSession,
  HEADER_VALUE,
  INFLATING,
  inflatedWithSession,
  LONG,
  type StoredAnswer,
  withSession,
} from '../cache/stored-answer.ts';
import type { MemoryTier } from '../cache/memory-tier.ts';
import type { AnswerHead, Client } from '../cache/query.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Cancel, Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, EngineTimes, GatewayEvent, Outcome } from '../common/events.ts';
import { isOfPage } from '../common/header-names.ts';
import type { RefusalReason } from '../common/reasons.ts';
import type { EngineStep, PassThroughClient } from '../engine/http-engine.ts';
import { asGatewayError, type ErrorShape, sendError } from '../http/answers.ts';
import {
  type OfPage,
  type PageOrigins,
  QUIET_CHALLENGE,
  varyByOrigin,
  dropOriginHeaders,
} from '../http/page-origins.ts';
import {
  acceptsGzip,
  clientProgram,
  REQUEST_ID,
  requestId,
  traceOf,
} from '../http/request-head.ts';
import { answerHeaders, breakOff, endWith, SHORT_BODY_BYTES } from '../proxy/forwarded.ts';
import type { UnderstoodRequest } from './understand.ts';

/** The facts of a replay. */
type Replay = Parameters<Client['replay']>[1];

/** Longest time for which a client may take nothing of its answer; engines are as patient by default. */
const LONGEST_STALL_MS = 300_000;
/** Pause between two looks whether a client takes an answer that is made while it is taken. */
const LOOK_MS = 10_000;
/** In an answer with one of these a length would be wrong, or speak of another answer (RFC 9110 §8.6). */
const BODILESS: ReadonlySet<number> = new Set([204, 304]);
/** Characters that are told of what a request says of itself: the rest helps no reader. */
const TOLD_CHARACTERS = 255;

/** Longer bodies are read as they come (bytes): no more is taken ahead of their room. */
const LONGEST_TAKEN = 64 * 1024;

const TRANSPORT_CAPS = 'x-transport-caps-negotiation-flags';
const NO_TRANSPORT_CAPS = '0,0,0,0,0';

export type Wishes = ReturnType<typeof wishesOf>;

/** Reads how a request wants to be answered, and by which program it is sent. */
export function wishesOf(headers: IncomingHttpHeaders, pageOrigins: PageOrigins) {
  return {
    takesGzip: acceptsGzip(headers['accept-encoding']),
    /** Whether the client negotiates what it can read (SSAS); it is told on every reply: plain text. */
    asksForCaps: headers[TRANSPORT_CAPS] !== undefined,
    /** The class of the client program, `other` for one that is not known; '' where it names none. */
    program: clientProgram(headers['user-agent']),
    /** Headers for the browser of a page; undefined where no origin is listed. */
    page: pageOrigins?.(headers.origin),
  } as const;
}

/** Indexes of the request's id and traceparent among the raw headers of a head. */
export type Places = ReturnType<typeof placesIn>;

export const placesIn = (rawHeaders: readonly string[]) => ({
  id: placeOf(REQUEST_ID, rawHeaders),
  trace: placeOf('traceparent', rawHeaders),
});

/**
 * The index of the value of a header (lower case) of which there is one. For none, or several, the length of the list, where
 * nothing stands: with -1 the look-up would take V8 some 20 times as long.
 */
export function placeOf(name: string, rawHeaders: readonly string[]): number {
  const none = rawHeaders.length;
  let place = none;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const one = rawHeaders[at] ?? '';
    if (one.length !== name.length || one.toLowerCase() !== name) continue;
    if (place !== none) return none;
    place = at + 1;
  }
  return place;
}

type Answered = Extract<GatewayEvent, { type: 'xmla-answered' }>;
const NO_NAMES: Answered['catalogs'] = [];
/** Outcome of a request until there is another one. */
const CLIENT_GONE: Outcome = { kind: 'gateway', detail: 'client-gone' };

/** When each step towards the engine was made, and when its answer was over. */
type EngineSteps = Partial<Record<EngineStep | 'ended', number>> & { readonly waits: number };

/** @param now when the request is over */
function engineTimes(steps: EngineSteps, now: number): EngineTimes {
  const { waits, asked, answers, ended = now } = steps;
  if (asked === undefined) return { waited: now - waits, first: undefined, last: undefined };
  const first = answers === undefined ? undefined : answers - asked;
  return { waited: asked - waits, first, last: ended - asked };
}

/** Collaborators of all clients. */
interface ClientServices {
  readonly account: Pick<BodyAccount, 'request'>;
  /** Counts a body for as long as it is sent. */
  readonly holdBody: MemoryTier['hold'];
  /** Longest wait of a request of a project until it is at the engine (ms). */
  readonly patience: (project: string | undefined) => number;
  /** Address of the client, by the connection or a trusted proxy. */
  readonly addressOf: (request: IncomingMessage) => string;
  /** Which pages of other origins may ask. */
  readonly pageOrigins: PageOrigins;
  readonly clock: Pick<Clock, 'now' | 'every'>;
  readonly newId: () => string;
  readonly emit: Emit;
}

/**
 * The client of one XMLA request. Every head of an XMLA answer is written here and nowhere else, so that
 * Cache-Status, Age and the transport flags are on all of them; and here the one event of the request is told, when its
 * answer has been handed over or given up.
 *
 * A request that memory answers at once needs no listener; for all others {@link XmlaClient.watch} comes first.
 */
export class XmlaClient implements Client, PassThroughClient {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The one event of the request, filled in as that becomes known. */
  readonly facts: { -readonly [Fact in keyof Answered]: Answered[Fact] };
  readonly wishes: Wishes;
  /** User whose limits count for it; '' before the login. */
  owner = '';
  readonly #services: ClientServices;
  readonly #began: number;
  /** End of its wait; undefined until it must wait. */
  #until: number | undefined;
  /** Undefined where no engine was needed. */
  #steps: EngineSteps | undefined;
  #isWatched = false;
  #isGone = false;
  /** Made when something must be broken off with its client. */
  #gone: AbortController | undefined;
  #whenOver: (() => void)[] | undefined;
  #told = false;

  /** @param head what is known of it; else its headers are read, which takes longer than all else of a hit */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    services: ClientServices,
    head?: { readonly wishes: Wishes; readonly places: Places },
  ) {
    this.request = request;
    this.response = response;
    this.#services = services;
    this.wishes = head?.wishes ?? wishesOf(request.headers, services.pageOrigins);
    const given = head ? request.rawHeaders[head.places.id] : request.headers[REQUEST_ID];
    const trace = head ? request.rawHeaders[head.places.trace] : request.headers['traceparent'];
    this.#began = services.clock.now();
    this.facts = {
      type: 'xmla-answered',
      id: given === undefined ? services.newId() : requestId(given, services.newId),
      principal: '',
      address: services.addressOf(request),
      program: this.wishes.program,
      project: '',
      catalogs: NO_NAMES,
      cubes: '?',
      digest: '',
      statement: '',
      subject: '',
      why: '',
      outcome: CLIENT_GONE,
      status: 499,
      bytes: 0,
      milliseconds: 0,
      engine: undefined,
      saved: 0,
      trace: trace === undefined ? '' : traceOf(trace),
      complete: false,
    };
  }

  /** Notices from now on when it goes away, and tells of its end; also of one that has gone already. */
  watch(): void {
    if (this.#isWatched) return;
    this.#isWatched = true;
    if (this.request.socket.destroyed) this.#close();
    else this.response.once('close', () => this.#close());
  }

  get signal(): AbortSignal {
    this.watch();
    this.#gone ??= new AbortController();
    if (this.#isGone) this.#gone.abort(clientGone());
    return this.#gone.signal;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /**
   * A short body without a content coding that is there as a whole, as nearly all are a turn after their head.
   * @param plain whether its head is known, and so has no coding
   */
  takeBody(plain: boolean): Buffer | undefined {
    const { request } = this;
    // Complete is what is in memory, not what was read.
    if (!request.complete || request.socket.destroyed) return undefined;
    if (request.readableLength > LONGEST_TAKEN) return undefined;
    if (!plain && request.headers['content-encoding'] !== undefined) return undefined;
    // Without a length it would be the first chunk alone.
    return (request.read(request.readableLength) as Buffer | null) ?? Buffer.alloc(0);
  }

  /** Takes over the facts of a request that was understood. */
  asks({ parts, request, subject, why, named }: UnderstoodRequest): void {
    if (request?.method === 'Execute') this.facts.statement = request.statement;
    if (parts !== undefined) this.facts.digest = parts.digest;
    this.facts.subject = subject;
    this.facts.why = why;
    if (named === undefined) return;
    this.facts.catalogs = named.catalogs.catalogs;
    this.facts.cubes = named.cubes.certain ? named.cubes.cubes : '?';
  }

  engineStep(step: EngineStep | 'ended'): void {
    if (this.#steps !== undefined) this.#steps[step] = this.#services.clock.now();
  }

  waits(uncounted = 0): number {
    // A second try begins where the first one did.
    this.#steps = { waits: this.#steps?.waits ?? this.#services.clock.now() };
    if (this.#until !== undefined) this.#until += uncounted;
    return this.patience();
  }

  /** Time left until it must be at the engine (ms): one for all its waits, from the first one on. */
  patience(): number {
    const now = this.#services.clock.now();
    this.#until ??= now + this.#longestWait();
    return Math.max(0, this.#until - now);
  }

  #longestWait(): number {
    return this.#services.patience(this.facts.project || undefined);
  }

  replay(answer: StoredAnswer, reply: Replay): void {
    if (this.isGone) return;
    const { response, facts } = this;
    const text = reply.text?.(this.wishes.takesGzip) ?? answer.body;
    const sent = sendStored(response, answer, reply, text, this);
    if ('pieces' in sent) return void this.#stream(answer, reply, text, sent);
    facts.bytes = sent.bytes;
    facts.outcome = reply.outcome;
    facts.saved = answer.engineMilliseconds;
    if (!this.#isWatched && response.socket?.writableLength === 0) {
      // The system has it already, as most answers: there is nothing to wait for.
      return this.#tell(true);
    }
    this.watch();
    response.once('close', this.#services.holdBody(text));
    this.#watchStall();
  }

  /**
   * What is made for this client while that takes it has its share of the memory before it begins: many may ask at one time,
   * and each takes it as slowly as it likes. One that takes nothing while others wait for memory is broken off.
   */
  async #stream(answer: StoredAnswer, reply: Replay, text: AnswerText, sent: StreamedText) {
    const { response, facts, signal } = this;
    const { bytes, pieces, areOwn } = sent;
    const { account, clock, holdBody } = this.#services;
    const letGo = holdBody(text);
    // It has waited for the engine already, as long as that took.
    const room = account.request(this.owner, () => this.#longestWait());
    let stopLooks: Cancel | undefined;
    try {
      const since = clock.now();
      const waiting = room.grow(INFLATING, signal);
      if (waiting !== undefined) await waiting;
      const waited = clock.now() - since;
      const { outcome, ttl, age } = reply;
      Object.assign(facts, { outcome, saved: answer.engineMilliseconds });
      const later = { ...reply, ttl: ttl - waited, age: age + waited };
      response.writeHead(200, storedHead(answer, bytes, later, undefined, this));
      response.setTimeout(LONGEST_STALL_MS, () => response.destroy());
      let taken: number | undefined = 0;
      stopLooks = clock.every(LOOK_MS, () => {
        const before = taken;
        taken = response.socket?.bytesWritten;
        if (taken === before && room.isInTheWay()) response.destroy();
      });
      for await (const piece of pieces()) {
        facts.bytes += piece.length;
        response.write(piece, (error) => {
          if (areOwn && !error) dropPiece(piece);
        });
        await this.drained();
        if (this.isGone) return;
      }
      this.end(bytes);
      await this.over();
    } catch (error) {
      this.fail(error);
    } finally {
      stopLooks?.();
      letGo();
      room.release();
    }
  }

  open(head: AnswerHead, outcome: Outcome, length: number | undefined): void {
    const { response } = this;
    if (this.isGone || response.headersSent) return;
    this.facts.outcome = outcome;
    const headers = answerHeaders(head.headers);
    if (this.wishes.page !== undefined) dropOriginHeaders(headers);
    Object.assign(headers, this.#gatewayHeaders(headers));
    if (length !== undefined && !BODILESS.has(head.status)) headers['content-length'] ??= length;
    response.writeHead(head.status, head.statusMessage, headers);
  }

  notStored(reason: RefusalReason): void {
    this.facts.outcome = { kind: 'miss', detail: reason, stored: false };
  }

  backlog(): number {
    return this.response.writableLength;
  }

  write(chunk: Buffer): boolean {
    if (this.isGone) return true;
    this.facts.bytes += chunk.length;
    return this.response.write(chunk);
  }

  async drained(): Promise<void> {
    if (this.isGone || !this.response.writableNeedDrain) return;
    await once(this.response, 'drain', { signal: this.signal }).catch(() => {});
  }

  end(length: number, last?: Buffer): void {
    this.engineStep('ended');
    if (this.isGone) return;
    const bytes = this.facts.bytes + (last?.length ?? 0);
    // A clean end would say that this is all of it.
    if (bytes !== length) return this.fail(new Error(`${bytes} of ${length} bytes were to go out`));
    this.facts.bytes = bytes;
    if (last === undefined) this.response.end();
    else endWith(this.response, last);
    this.#watchStall();
  }

  over(): Promise<void> {
    return this.response.closed
      ? Promise.resolve()
      : new Promise((resolve) => void (this.#whenOver ??= []).push(resolve));
  }

  /**
   * Tells a browser what the page may send.
   * @throws GatewayError `forbidden` when there is nothing to tell it: the origin of the page is not listed
   */
  allow(preflight: OfPage['preflight']): void {
    if (preflight === undefined) {
      this.facts.why = 'the origin of the page is not listed';
      throw new GatewayError('forbidden', `Nothing was done: ${this.facts.why}.`);
    }
    this.facts.outcome = { kind: 'gateway', detail: 'preflight' };
    this.response.writeHead(204, { ...this.#gatewayHeaders(), ...preflight });
    this.end(0);
  }

  /** @param shape how the error is told */
  fail(error: unknown, shape: ErrorShape = 'soap-fault'): void {
    this.watch();
    if (this.isGone) return;
    const { request, response, facts } = this;
    const failure = asGatewayError(error, facts.id, this.#services.emit);
    if (failure.reason === 'client-gone') return this.#leave(failure);
    // The answer is whole: only storing it failed.
    if (response.writableEnded) return;
    if (response.headersSent) return breakOff(request, response);
    facts.outcome = { kind: 'gateway', detail: failure.reason };
    sendError(response, failure, shape, facts.id, this.#gatewayHeaders(failure.headers));
  }

  /** Headers without those of a page that may ask here: an engine may judge origins by itself. */
  get headersToEngine(): IncomingHttpHeaders {
    const { headers } = this.request;
    if (this.wishes.page?.preflight === undefined) return headers;
    return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOfPage(name)));
  }

  /** Headers of an answer that is not from the cache. @param others its other headers, which give way */
  #gatewayHeaders(others: OutgoingHttpHeaders = {}): Record<string, string> {
    const { page, asksForCaps } = this.wishes;
    const headers: Record<string, string> = {
      [REQUEST_ID]: this.facts.id,
      'cache-status': cacheStatus(this.facts.outcome),
      age: '0',
    };
    if (asksForCaps) headers[TRANSPORT_CAPS] = NO_TRANSPORT_CAPS;
    if (page === undefined) return headers;
    const isQuiet =
      page.preflight !== undefined && this.request.headers.authorization !== undefined;
    if (isQuiet && 'www-authenticate' in others) headers['www-authenticate'] = QUIET_CHALLENGE;
    return Object.assign(headers, page.headers, { vary: varyByOrigin(others['vary']) });
  }

  /** Breaks off a client that takes nothing: the rest of its answer is in memory until then. */
  #watchStall(): void {
    const { response } = this;
    if (response.writableLength > 0)
      response.setTimeout(LONGEST_STALL_MS, () => response.destroy());
  }

  #close(): void {
    for (const tell of this.#whenOver ?? []) tell();
    if (this.response.writableFinished) return this.#tell(true);
    this.#leave(clientGone());
  }

  /** Its connection is gone; of an answer that waits behind others of the connection, Node.js does not say so. */
  #leave(reason: GatewayError): void {
    this.#isGone = true;
    this.#gone?.abort(reason);
    this.response.destroy();
    this.#tell(false);
  }

  #tell(complete: boolean): void {
    if (this.#told) return;
    this.#told = true;
    const { response, facts } = this;
    if (response.headersSent) facts.status = response.statusCode;
    facts.subject = facts.subject.slice(0, TOLD_CHARACTERS);
    facts.why = facts.why.slice(0, TOLD_CHARACTERS);
    const now = this.#services.clock.now();
    facts.milliseconds = now - this.#began;
    if (this.#steps !== undefined) facts.engine = engineTimes(this.#steps, now);
    facts.complete = complete;
    this.#services.emit(facts);
  }
}

export type ClientOf = ReturnType<typeof createClients>;
export const createClients =
  (services: ClientServices) =>
  (
    request: IncomingMessage,
    response: ServerResponse,
    head: { readonly wishes: Wishes; readonly places: Places } | undefined,
  ): XmlaClient =>
    new XmlaClient(request, response, services, head);

const clientGone = () => new GatewayError('client-gone', 'The client went away.');

/** A text that is made while it is sent. */
interface StreamedText {
  readonly bytes: number;
  readonly pieces: () => Iterable<Buffer> | AsyncIterable<Buffer>;
  /** Whether they are of this client alone. */
  readonly areOwn: boolean;
}

/** An id that stands in XML as it is, in every encoding whose letters are those of ASCII. */
const PLAIN_ID = /^[\w-]+$/;

/**
 * Sends a stored answer, head and body, in one call of the system, and ends the response; the bytes of a long one are
 * not copied. One that lies compressed, for a client that does not take that, and a long one over TLS are still to be sent, as
 * fast as the client reads.
 * @param text compressed or not
 * @returns the bytes of the body
 * @throws as `withSession` does: then nothing was sent
 */
function sendStored(
  response: ServerResponse,
  answer: StoredAnswer,
  reply: Replay,
  text: AnswerText,
  of: Pick<XmlaClient, 'wishes' | 'facts'>,
): { readonly bytes: number } | StreamedText {
  const { sessionId } = reply;
  const { session } = answer;
  // Before the head: nothing of an answer that cannot be given to this client may be sent.
  let pieces: readonly Buffer[];
  let coding: 'gzip' | undefined;
  if (Buffer.isBuffer(text)) {
    const short = shortText(text, session, sessionId);
    if (short !== undefined) {
      response.writeHead(200, storedHead(answer, short.length, reply, coding, of));
      response.end(short, 'latin1');
      return { bytes: short.length };
    }
    pieces = withSession({ body: text, session }, sessionId);
    const bytes = sum(pieces);
    if (bytes > LONG && 'encrypted' in (response.socket ?? {})) {
      // Written at once it would be encrypted at once, into memory that nothing counts.
      return { bytes, pieces: () => inSlices(pieces), areOwn: false };
    }
  } else if (of.wishes.takesGzip) {
    coding = 'gzip';
    pieces = gzipWithSession({ body: text, session }, sessionId);
  } else {
    const { length, pieces } = inflatedWithSession({ body: text, session }, sessionId);
    return { bytes: length, pieces, areOwn: true };
  }
  const bytes = sum(pieces);
  response.cork();
  response.writeHead(200, storedHead(answer, bytes, reply, coding, of));
  for (let i = 0; i < pieces.length - 1; i += 1) response.write(pieces[i]);
  response.end(pieces.at(-1));
  return { bytes };
}

const sum = (pieces: readonly Buffer[]) => pieces.reduce((all, { length }) => all + length, 0);

/** Bytes of a slice. */
const SLICE = 64 * 1024;
function* inSlices(pieces: readonly Buffer[]) {
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += SLICE) yield piece.subarray(at, at + SLICE);
  }
}

/** Each byte of a short answer as one letter; undefined where it is long, or its session takes more than that. */
function shortText(
  body: Buffer,
  session: StoredAnswer['session'],
  id: string | undefined,
): string | undefined {
  if (body.length > SHORT_BODY_BYTES) return undefined;
  if (session === undefined) return body.toString('latin1');
  const isAscii = session.encoding === 'utf-8' || session.encoding === 'iso-8859-1';
  if (!isAscii || id === undefined || !PLAIN_ID.test(id)) return undefined;
  return body.toString('latin1', 0, session.at) + id + body.toString('latin1', session.at);
}

/** Names and values in turn. */
function storedHead(
  answer: StoredAnswer,
  bytes: number,
  { outcome, ttl, age, sessionId }: Replay,
  contentCoding: 'gzip' | undefined,
  { wishes, facts }: Pick<XmlaClient, 'wishes' | 'facts'>,
): string[] {
  const head = [
    REQUEST_ID,
    facts.id,
    'content-type',
    answer.contentType,
    'content-length',
    String(bytes),
    'cache-status',
    cacheStatus(outcome, ttl),
    'age',
    String(Math.floor(age / 1000)),
  ];
  if (answer.contentLanguage !== undefined) head.push('content-language', answer.contentLanguage);
  if (contentCoding !== undefined) head.push('content-encoding', contentCoding);
  const { page, asksForCaps } = wishes;
  const coding = answer.body.length >= GZIP_FROM ? 'accept-encoding' : '';
  const vary = page === undefined ? coding : varyByOrigin(coding);
  if (vary !== '') head.push('vary', vary);
  if (page !== undefined) head.push(...Object.entries(page.headers).flat());
  // A session id of XML may be anything.
  if (answer.sessionHeader && sessionId !== undefined && HEADER_VALUE.test(sessionId)) {
    head.push('x-as-sessionid', sessionId);
  }
  if (asksForCaps) head.push(TRANSPORT_CAPS, NO_TRANSPORT_CAPS);
  return head;
}

/**
 * The value of the header Cache-Status (RFC 9211).
 * @param ttl milliseconds for which a hit may still be used
 */
export function cacheStatus(outcome: Outcome, ttl = 0): string {
  const detail = outcome.detail === undefined ? '' : `; detail=${outcome.detail}`;
  if (outcome.kind === 'hit') return `mdx-gateway; hit; ttl=${Math.floor(ttl / 1000)}${detail}`;
  if (outcome.kind === 'gateway') return `mdx-gateway${detail}`;
  const stored = outcome.kind === 'miss' && outcome.stored === true ? '; stored' : '';
  return `mdx-gateway; fwd=${outcome.kind}${stored}${detail}`;
}
