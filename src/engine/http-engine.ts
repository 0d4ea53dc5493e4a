import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { AnswerHead, Client, EngineAnswer } from '../cache/query.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Outcome } from '../common/events.ts';
import { isUsual } from '../common/header-names.ts';
import { basicAuthorization } from '../common/principal.ts';
import type { EngineConfig } from './config.ts';
import {
  answerHead,
  decodedAnswer,
  plainAnswer,
  namedHeaders,
  refusedLogin,
  requestHeaders,
  SHORT_BODY_BYTES,
  type UpstreamAnswer,
} from '../proxy/forwarded.ts';
import { NotConnected } from '../proxy/upstream.ts';
import type { Admission } from './admission.ts';
import type { Away } from './away.ts';
import { askOnDemand, createClearCalls, touch } from './own-questions.ts';
import {
  createReplicas,
  type EngineAddressee,
  engineFailure,
  type QueryHeaders,
  reportFailure,
  tellsProject,
} from './replicas.ts';

/** `broken`: the engine may still be at work. `not-sent`: no byte reached a connection. */
export type AnswerEnd = 'whole' | 'broken' | 'not-sent';

export type EngineStep = 'asked' | 'answers';

export interface AnswerWatch {
  /** True if the client must not have the last 16 KiB before the watch has agreed to the end. */
  readonly holdsLast: boolean;
  head(head: AnswerHead): void;
  /** Gets each piece in order, before the client does. */
  write(chunk: Buffer): void | Promise<void>;
  /** Comes last, also without a whole answer. The client is told a rejection, or is broken off. */
  end(outcome: AnswerEnd): void | Promise<void>;
}

export interface PassThroughClient extends Pick<
  Client,
  'signal' | 'waits' | 'open' | 'write' | 'end' | 'fail'
> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly headersToEngine: IncomingHttpHeaders;
  engineStep(step: EngineStep): void;
}

export type Engine = ReturnType<typeof createHttpEngine>;

export function createHttpEngine(options: {
  config: EngineConfig;
  admission: Pick<Admission, 'enter' | 'admit'>;
  clock: Clock;
  emit: Emit;
  away?: Away;
}) {
  const { config, clock, emit, away } = options;
  const { login, service } = config;
  const replicas = createReplicas(config, clock, true, away);
  const toClear = config.clear === 'none' ? [] : config.url;
  const cleared = createReplicas({ ...config, url: toClear }, clock, false);
  const ofService = service && basicAuthorization(service);
  const loginFor = (authorization: string | undefined) =>
    login === 'forward' ? authorization : ofService;
  const parts = { ...options, replicas, loginFor };
  const ask = createAsk(parts);
  return {
    /** Tells engines apart in keys, by everything that can change an answer. */
    id: JSON.stringify([
      config.url.toSorted(),
      config.kind,
      login,
      service?.name ?? null,
      config.delegation,
      replicas.certificate,
    ]),
    tellsProject: config.url.every(tellsProject),
    ask,
    passThrough: createPassThrough(parts),
    touch: touch.bind(null, ask),
    onDemand: askOnDemand.bind(null, ask),
    replicaFor: replicas.nameFor,
    /** No connection can be made, and no request need try now. */
    isAway: replicas.isAway,
    clearCalls: createClearCalls(config, cleared.all, loginFor, emit),
    close() {
      replicas.close();
      cleared.close();
    },
  };
}

interface EngineParts extends Readonly<Parameters<typeof createHttpEngine>[0]> {
  readonly replicas: ReturnType<typeof createReplicas>;
  readonly loginFor: (authorization: string | undefined) => string | undefined;
}

/** @throws when the answer cannot be sent on, and ends it */
function acceptedHead(answer: UpstreamAnswer, login: EngineConfig['login']): AnswerHead {
  try {
    const head = answerHead(answer);
    if (!refusedLogin(head.status, login)) return head;
    throw new GatewayError(
      'engine-login',
      'The engine refused the login of the gateway; its operator must correct engine.login.',
    );
  } catch (error) {
    answer.destroy();
    throw error;
  }
}

function createAsk({ config, admission, clock, emit, replicas, loginFor }: EngineParts) {
  const { timeout } = config;
  /**
   * Sends a cacheable request.
   * @param unwanted aborted when no client wants the answer: takes a queued request back
   * @param signal ends a request that was sent
   * @throws GatewayError `engine-unreachable`, `engine-timeout`, `engine-login`, `overloaded`; the
   *   reason of `unwanted`; EngineFailure when no byte came
   */
  return async function ask(
    addressee: EngineAddressee,
    asked: QueryHeaders,
    body: Buffer,
    signal: AbortSignal,
    unwanted = () => signal,
    client?: Pick<PassThroughClient, 'waits' | 'engineStep'>,
  ): Promise<EngineAnswer> {
    const { user, label: project = addressee.project ?? '' } = addressee;
    const patience = client?.waits() ?? timeout;
    const own = addressee.admitted?.() ?? admission.enter(user);
    const leave = own ?? (await admission.admit(user, unwanted(), patience));
    // Before the first try: an answer may seem older than it is, never younger.
    const began = { now: clock.now(), wall: clock.wall() };
    client?.engineStep('asked');
    const authorization = loginFor(addressee.authorization);
    const headers: Record<string, string> = {};
    for (const name in asked) {
      const value = asked[name];
      if (value !== undefined) headers[name] = value;
    }
    headers['accept-encoding'] = 'identity';
    if (authorization !== undefined) headers['authorization'] = authorization;
    headers['content-length'] = String(body.length);
    const tell = (error: unknown) => {
      if (!signal.aborted) reportFailure(emit, project, error);
    };
    const left = () => {
      leave();
      emit({ type: 'engine-answered', project, milliseconds: clock.now() - began.now });
    };
    let url = '';
    try {
      const answer = await replicas.reach(addressee, signal, (replica, connectLimitMs) => {
        url = replica.url;
        const path = replica.target(addressee.project, addressee.query);
        const query = { method: 'POST', path, headers, body };
        return replica.upstream.forward(query, { signal, timeoutMs: timeout, connectLimitMs });
      });
      client?.engineStep('answers');
      const head = acceptedHead(answer, config.login);
      answer.once('close', () => {
        const errored: NodeJS.ErrnoException | null = answer.errored;
        // A reader may leave in the middle, which is no failure.
        if (errored !== null && errored.code !== 'ABORT_ERR') tell(errored);
        left();
      });
      return { ...decodedAnswer(answer, head, tell), began, replica: url };
    } catch (error) {
      left();
      reportFailure(emit, project, error);
      throw engineFailure(error);
    }
  };
}

function createPassThrough({ config, admission, clock, emit, replicas, loginFor }: EngineParts) {
  const { timeout } = config;
  /**
   * Replays a request to the engine without identity headers, and streams the answer. Failures go
   * to `client.fail`.
   * @param body without content coding; undefined without one
   * @param plainWatch sees the answer; the engine is then asked for no content coding
   */
  return async function passThrough(
    addressee: EngineAddressee,
    client: PassThroughClient,
    outcome: Outcome,
    body: Buffer | undefined,
    plainWatch?: AnswerWatch,
  ): Promise<void> {
    const { request, signal } = client;
    const { label: project = addressee.project ?? '' } = addressee;
    const watch = plainWatch && guardWatch(plainWatch);
    let leave: () => void;
    try {
      leave = await admission.admit(addressee.user, signal, client.waits());
    } catch (error) {
      await watch?.giveUp('not-sent');
      return client.fail(error);
    }
    const began = clock.now();
    client.engineStep('asked');
    try {
      const authorization = loginFor(addressee.authorization);
      const headers = {
        ...requestHeaders(client.headersToEngine, authorization, body?.length, isUsual),
        ...namedHeaders(client.request.headers, config.headers),
      };
      if (watch !== undefined) headers['accept-encoding'] = 'identity';
      const answer = await replicas.reach(addressee, signal, (replica, connectLimitMs) => {
        const path = replica.target(addressee.project, addressee.query);
        const forwarded = { method: request.method, path, headers, body };
        return replica.upstream.forward(forwarded, { signal, timeoutMs: timeout, connectLimitMs });
      });
      client.engineStep('answers');
      await relay(answer, acceptedHead(answer, config.login), client, outcome, watch);
    } catch (error) {
      const isRefused = error instanceof WatchRefusal;
      const failure = isRefused ? error.cause : engineFailure(error);
      if (!isRefused && !signal.aborted) reportFailure(emit, project, error);
      await watch?.giveUp(error instanceof NotConnected ? 'not-sent' : 'broken');
      client.fail(failure);
    } finally {
      leave();
      emit({ type: 'engine-answered', project, milliseconds: clock.now() - began });
    }
  };
}

/** Bytes held back: `</Envelope>` ends an answer, and a line feed may follow. */
const HELD = 16 * 1024;

/** Wraps the error of a watch: it is the client's answer, not a failure of the engine. */
class WatchRefusal extends Error {}

async function heed(step: () => void | Promise<void>): Promise<void> {
  try {
    await step();
  } catch (cause) {
    throw new WatchRefusal('the watch refused the answer', { cause });
  }
}

function guardWatch(watch: AnswerWatch) {
  let ended = false;
  async function end(outcome: AnswerEnd): Promise<void> {
    if (ended) return;
    ended = true;
    await heed(() => watch.end(outcome));
  }
  return {
    holdsLast: watch.holdsLast,
    head: (head: AnswerHead) => heed(() => watch.head(head)),
    write: (chunk: Buffer) => heed(() => watch.write(chunk)),
    end: () => end('whole'),
    /** The client has an answer already, or is told the failure. */
    giveUp: (outcome: Exclude<AnswerEnd, 'whole'>) => end(outcome).catch(() => {}),
  };
}

/** Hands an answer on as its watch has seen it. @throws WatchRefusal; errors of the answer */
async function relay(
  answer: UpstreamAnswer,
  accepted: AnswerHead,
  client: PassThroughClient,
  outcome: Outcome,
  watch: ReturnType<typeof guardWatch> | undefined,
): Promise<void> {
  const { response, signal } = client;
  const { head, body, length } =
    watch === undefined ? plainAnswer(answer, accepted) : decodedAnswer(answer, accepted, () => {});
  const least = watch?.holdsLast === true ? HELD : 0;
  const held: Buffer[] = [];
  let size = 0;
  const isGone = () => signal.aborted || response.destroyed;

  async function releaseTo(left: number): Promise<void> {
    while (held[0] !== undefined && size - held[0].length >= left) {
      const oldest = held.shift() as Buffer;
      size -= oldest.length;
      // The request to the engine, and so the loop, ends when the client goes.
      if (isGone()) continue;
      client.open(head, outcome, undefined);
      if (client.write(oldest)) continue;
      const broken = new AbortController();
      const abort = () => broken.abort();
      answer.once('error', abort);
      if (answer.errored !== null) abort();
      const ending = AbortSignal.any([signal, broken.signal]);
      await once(response, 'drain', { signal: ending }).catch(() => {});
      answer.off('error', abort);
    }
  }

  await watch?.head(head);
  for await (const piece of body) {
    if (watch !== undefined) await watch.write(piece);
    held.push(piece);
    size += piece.length;
    await releaseTo(least);
  }
  await watch?.end();
  const last = size <= SHORT_BODY_BYTES ? held.pop() : undefined;
  await releaseTo(0);
  if (isGone()) return;
  client.open(head, outcome, undefined);
  client.end(length(), last);
}
