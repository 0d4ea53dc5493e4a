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
import { clientGone, GatewayError } from '../common/errors.ts';
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

type Replay = Parameters<Client['replay']>[1];

/** Longest time that a client may take nothing of its answer; engines wait as long by default. */
const LONGEST_STALL_MS = 300_000;
/** Pause between two checks that a client still takes an answer made while it is sent. */
const LOOK_MS = 10_000;
/** With one of these statuses a length would be wrong (RFC 9110 §8.6). */
const BODILESS: ReadonlySet<number> = new Set([204, 304]);
const TOLD_CHARACTERS = 255;

/** Longest body taken at once (bytes): others wait for their room in the account. */
const LONGEST_TAKEN = 64 * 1024;

const TRANSPORT_CAPS = 'x-transport-caps-negotiation-flags';
const NO_TRANSPORT_CAPS = '0,0,0,0,0';

export type Wishes = ReturnType<typeof wishesOf>;

export function wishesOf(headers: IncomingHttpHeaders, pageOrigins: PageOrigins) {
  return {
    takesGzip: acceptsGzip(headers['accept-encoding']),
    /** SSAS clients negotiate what they can read; every reply says plain text. */
    asksForCaps: headers[TRANSPORT_CAPS] !== undefined,
    /** Kind of client program: `other` for an unknown one, '' where none is named. */
    program: clientProgram(headers['user-agent']),
    page: pageOrigins?.(headers.origin),
  } as const;
}

export type Places = ReturnType<typeof placesIn>;

export const placesIn = (rawHeaders: readonly string[]) => ({
  id: placeOf(REQUEST_ID, rawHeaders),
  trace: placeOf('traceparent', rawHeaders),
});

type KnownWishes = Readonly<{ wishes: Wishes; places: Places }>;

/**
 * Index of the value of a header (lower case) that occurs once. Otherwise the length of the list,
 * where nothing stands: a look-up with -1 takes V8 some 20 times as long.
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

type AnsweredEvent = Extract<GatewayEvent, { type: 'xmla-answered' }>;
const NO_NAMES: AnsweredEvent['catalogs'] = [];
const CLIENT_GONE: Outcome = { kind: 'gateway', detail: 'client-gone' };

type EngineSteps = Partial<Record<EngineStep | 'ended', number>> & { readonly waits: number };

function engineTimes(steps: EngineSteps, now: number): EngineTimes {
  const { waits, asked, answers, ended = now } = steps;
  if (asked === undefined) return { waited: now - waits, first: undefined, last: undefined };
  const first = answers === undefined ? undefined : answers - asked;
  return { waited: asked - waits, first, last: ended - asked };
}

interface ClientServices {
  readonly account: Pick<BodyAccount, 'request'>;
  readonly holdBody: MemoryTier['hold'];
  /** Longest wait of a request until it is at the engine (ms). */
  readonly patience: (project: string | undefined) => number;
  readonly addressOf: (request: IncomingMessage) => string;
  readonly pageOrigins: PageOrigins;
  readonly clock: Pick<Clock, 'now' | 'every'>;
  readonly newId: () => string;
  readonly emit: Emit;
}

/**
 * The client of one XMLA request. Every head of an XMLA answer is written here, so that
 * Cache-Status, Age and the transport flags are on all of them. The one event of the request is
 * emitted here, once its answer was handed over or given up.
 *
 * A request that memory answers at once needs no listener; for all others {@link XmlaClient.watch}
 * comes first.
 */
export class XmlaClient implements Client, PassThroughClient {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly facts: { -readonly [Fact in keyof AnsweredEvent]: AnsweredEvent[Fact] };
  readonly wishes: Wishes;
  /** User whose limits count for it; '' before the login. */
  owner = '';
  readonly #services: ClientServices;
  readonly #began: number;
  /** End of its wait; undefined until it must wait. */
  #until: number | undefined;
  #steps: EngineSteps | undefined;
  #isWatched = false;
  #isGone = false;
  #gone: AbortController | undefined;
  #whenOver: (() => void)[] | undefined;
  #told = false;

  /** @param head of a known request; reading the headers takes longer than all else of a hit */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    services: ClientServices,
    head?: KnownWishes,
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

  /** Listens for its end, also where it has gone already. */
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
   * Takes a short, uncoded body that has arrived whole. A `plain` request has a known head, so no
   * coding.
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

  /** Time left for all its waits together, until it is at the engine (ms). */
  patience(): number {
    const now = this.#services.clock.now();
    this.#until ??= now + this.#services.patience(this.facts.project || undefined);
    return Math.max(0, this.#until - now);
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
      // The system has taken all of it.
      return this.#tell(true);
    }
    this.watch();
    response.once('close', this.#services.holdBody(text));
    this.#watchStall();
  }

  /**
   * Streams a text made while it is sent. Memory for it is reserved first, since many may ask at
   * once and take it slowly. A client that takes nothing while others wait for memory is broken
   * off.
   */
  async #stream(answer: StoredAnswer, reply: Replay, text: AnswerText, sent: StreamedText) {
    const { response, facts, signal } = this;
    const { bytes, pieces, takesBytes, areOwn, coding } = sent;
    const { account, clock, holdBody, patience } = this.#services;
    const letGo = holdBody(text);
    // The wait for the engine does not count.
    const room = account.request(this.owner, () => patience(facts.project || undefined));
    let stopLooks: Cancel | undefined;
    try {
      const since = clock.now();
      const waiting = takesBytes > 0 ? room.grow(takesBytes, signal) : undefined;
      if (waiting !== undefined) await waiting;
      const waited = clock.now() - since;
      const { outcome, ttl, age } = reply;
      Object.assign(facts, { outcome, saved: answer.engineMilliseconds });
      const later = { ...reply, ttl: ttl - waited, age: age + waited };
      response.writeHead(200, storedHead(answer, bytes, later, coding, this));
      response.setTimeout(LONGEST_STALL_MS, () => response.destroy());
      let taken: number | undefined = 0;
      stopLooks = clock.every(LOOK_MS, () => {
        const before = taken;
        taken = response.socket?.bytesWritten;
        if (taken === before && room.isInTheWay()) response.destroy();
      });
      for await (const piece of pieces()) {
        await handOver(piece.length);
        if (this.isGone) return;
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

  /** @throws GatewayError `forbidden` where the origin of the page is not listed */
  allow(preflight: OfPage['preflight']): void {
    if (preflight === undefined) {
      this.facts.why = 'the origin of the page is not listed';
      throw new GatewayError('forbidden', `Nothing was done: ${this.facts.why}.`);
    }
    this.facts.outcome = { kind: 'gateway', detail: 'preflight' };
    this.response.writeHead(204, { ...this.#gatewayHeaders(), ...preflight });
    this.end(0);
  }

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

  /** An engine may judge origins itself, so those of an allowed page are left out. */
  get headersToEngine(): IncomingHttpHeaders {
    const { headers } = this.request;
    if (this.wishes.page?.preflight === undefined) return headers;
    return Object.fromEntries(Object.entries(headers).filter(([name]) => !isOfPage(name)));
  }

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

  /** Node.js does not report a lost connection for an answer queued behind others on it. */
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

export const createClients =
  (services: ClientServices) =>
  (request: IncomingMessage, response: ServerResponse, head?: KnownWishes) =>
    new XmlaClient(request, response, services, head);

interface StreamedText {
  readonly bytes: number;
  readonly pieces: () => Iterable<Buffer> | AsyncIterable<Buffer>;
  /** Memory for it while it is sent. */
  readonly takesBytes: number;
  readonly areOwn: boolean;
  readonly coding?: 'gzip' | undefined;
}

/** Longer texts are handed over in slices, so that other requests are served between them. */
const SLICED_FROM = 1024 * 1024;
/** Bytes of such texts that the system is given in one turn of the event loop: about 1 ms. */
const IN_ONE_TURN = 2 * 1024 * 1024;
const handOver = createPace(IN_ONE_TURN);

/** @returns lets bytes pass in order, as many in one turn of the event loop as are allowed */
function createPace(most: number) {
  const waiting: { readonly bytes: number; readonly pass: () => void }[] = [];
  let passed = 0;

  function nextTurn(): void {
    passed = 0;
    while (passed < most) {
      const next = waiting.shift();
      if (next === undefined) break;
      passed += next.bytes;
      next.pass();
    }
    if (passed > 0) setImmediate(nextTurn);
  }

  return (bytes: number): Promise<void> | undefined => {
    if (passed >= most) return new Promise((pass) => void waiting.push({ bytes, pass }));
    if (passed === 0) setImmediate(nextTurn);
    passed += bytes;
    return undefined;
  };
}

/** An id that needs no escape, and has the same bytes in every encoding based on ASCII. */
const PLAIN_ID = /^[\w-]+$/;

/**
 * Sends head and body in one system call, without a copy of a long body. Left to stream: a
 * compressed text for a client without gzip, and a long one, over TLS from a shorter length.
 * @throws as `withSession`, before anything is sent
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
  // Made before the head: this may throw.
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
      // Encrypting all at once takes memory that nothing counts.
      return { bytes, pieces: () => inSlices(pieces, 64), takesBytes: INFLATING, areOwn: false };
    }
  } else if (of.wishes.takesGzip) {
    coding = 'gzip';
    pieces = gzipWithSession({ body: text, session }, sessionId);
  } else {
    const { length, pieces } = inflatedWithSession({ body: text, session }, sessionId);
    return { bytes: length, pieces, takesBytes: INFLATING, areOwn: true };
  }
  const bytes = sum(pieces);
  if (bytes > SLICED_FROM) {
    return { bytes, pieces: () => inSlices(pieces, 512), takesBytes: 0, areOwn: false, coding };
  }
  response.cork();
  response.writeHead(200, storedHead(answer, bytes, reply, coding, of));
  for (let i = 0; i < pieces.length - 1; i += 1) response.write(pieces[i]);
  response.end(pieces.at(-1));
  return { bytes };
}

const sum = (pieces: readonly Buffer[]) => pieces.reduce((all, { length }) => all + length, 0);

function* inSlices(pieces: readonly Buffer[], kib: number) {
  const slice = kib * 1024;
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; at += slice) yield piece.subarray(at, at + slice);
  }
}

/** Latin-1 text of a short answer; undefined where it is long, or its session id needs more. */
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

/** Value of the header Cache-Status (RFC 9211). @param ttl of a hit (ms) */
export function cacheStatus(outcome: Outcome, ttl = 0): string {
  const detail = outcome.detail === undefined ? '' : `; detail=${outcome.detail}`;
  if (outcome.kind === 'hit') return `mdx-gateway; hit; ttl=${Math.floor(ttl / 1000)}${detail}`;
  if (outcome.kind === 'gateway') return `mdx-gateway${detail}`;
  const stored = outcome.kind === 'miss' && outcome.stored === true ? '; stored' : '';
  return `mdx-gateway; fwd=${outcome.kind}${stored}${detail}`;
}
