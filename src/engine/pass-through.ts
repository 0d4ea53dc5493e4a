import { once } from 'node:events';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import { decodedAnswer, type UpstreamAnswer } from '../proxy/answer.ts';
import { requestHeaders } from '../proxy/forwarded.ts';
import { NotConnected } from '../proxy/upstream.ts';
import type { AnswerHead } from '../cache/query.ts';
import type { Admission } from './admission.ts';
import type {
  AnswerEnd,
  AnswerWatch,
  Engine,
  EngineAddressee,
  PassThroughClient,
} from './engine.ts';
import { engineFailure, reportFailure } from './failure.ts';
import type { Replicas } from './replicas.ts';

/**
 * What a client must have to take an answer for done is its end: `</Envelope>`, which an engine may send ahead of a
 * last line feed. So many bytes at least are held back, where the watch holds the last ones.
 */
const HELD = 16 * 1024;

/** What a watch threw. It is the client's answer, not a failure of the engine. */
class WatchRefusal extends Error {
  override readonly name = 'WatchRefusal';

  constructor(cause: unknown) {
    super('the watch refused the answer', { cause });
  }
}

/** Passes requests through to an engine: the client's own headers, its pace, its end. */
export function createPassThrough(options: {
  timeout: number;
  replicas: Replicas;
  admission: Admission;
  clock: Clock;
  emit: Emit;
  authorizationOf: (addressee: EngineAddressee) => string | undefined;
  acceptedHead: (answer: UpstreamAnswer) => AnswerHead;
}): Engine['passThrough'] {
  const { timeout, replicas, admission, clock, emit } = options;

  return async function passThrough(addressee, client, body, plainWatch) {
    const { request, signal } = client;
    const project = addressee.project ?? '';
    const watch = plainWatch && guardWatch(plainWatch);
    let leave: () => void;
    try {
      leave = await admission.admit(addressee.user, signal);
    } catch (error) {
      await watch?.giveUp('not-sent');
      return client.fail(error);
    }
    const began = clock.now();
    try {
      const authorization = options.authorizationOf(addressee);
      const headers = requestHeaders(request.headers, authorization, body?.length);
      if (watch !== undefined) headers['accept-encoding'] = 'identity';
      const answer = await replicas.reach(addressee.replica, signal, (replica, connectLimit) => {
        const path = replica.target(addressee.project, addressee.query);
        const forwarded = { method: request.method, path, headers, body };
        return replica.forward(forwarded, { signal, timeout, connectLimit });
      });
      await relay(answer, options.acceptedHead(answer), client, watch);
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

/** A watch that is told the end once, and whose errors can be told from others. */
interface GuardedWatch {
  readonly holdsLast: boolean;
  head(head: AnswerHead): void;
  /** Undefined when nothing is to be waited for, as after nearly every piece. */
  write(chunk: Buffer): Promise<void> | undefined;
  /** After the last byte. */
  end(): Promise<void>;
  /**
   * The answer broke off, or none began. What the watch says of that changes nothing: the client has an answer
   * already, or is told the failure.
   */
  giveUp(outcome: Exclude<AnswerEnd, 'whole'>): Promise<void>;
}

function guardWatch(watch: AnswerWatch): GuardedWatch {
  let ended = false;
  async function end(outcome: AnswerEnd): Promise<void> {
    if (ended) return;
    ended = true;
    await heed(() => watch.end(outcome));
  }
  return {
    holdsLast: watch.holdsLast,
    head(head) {
      void heed(() => watch.head(head));
    },
    write: (chunk) => heed(() => watch.write(chunk)),
    end: () => end('whole'),
    giveUp: (outcome) => end(outcome).catch(() => {}),
  };
}

/** @throws WatchRefusal at once, when the step does */
function heed(step: () => void | Promise<void>): Promise<void> | undefined {
  try {
    return step()?.catch(refuse);
  } catch (error) {
    return refuse(error);
  }
}

function refuse(error: unknown): never {
  throw new WatchRefusal(error);
}

/**
 * Hands an answer on, when its watch has seen it; where the watch holds the last bytes, whole pieces behind that: the
 * client has the last 16 KiB, or anything of a shorter answer, when the watch has agreed to the end.
 * @throws WatchRefusal; any error of the answer
 */
async function relay(
  answer: UpstreamAnswer,
  accepted: AnswerHead,
  client: PassThroughClient,
  watch: GuardedWatch | undefined,
): Promise<void> {
  const { response, signal } = client;
  const { head, body } =
    watch === undefined
      ? { head: accepted, body: answer as AsyncIterable<Buffer> }
      : decodedAnswer(answer, accepted, () => {});
  const least = watch?.holdsLast === true ? HELD : 0;
  const held: Buffer[] = [];
  let size = 0;
  const isGone = () => signal.aborted || response.destroyed;
  const open = () => {
    if (!response.headersSent) client.open(head);
  };

  /** Resolves when the client took what was written, or went away, or the answer broke off. */
  async function drained(): Promise<void> {
    if (answer.errored !== null) return;
    const broken = new AbortController();
    const onError = () => broken.abort();
    answer.once('error', onError);
    const ending = AbortSignal.any([signal, broken.signal]);
    await once(response, 'drain', { signal: ending }).catch(() => {});
    answer.off('error', onError);
  }

  async function releaseTo(left: number): Promise<void> {
    for (
      let [oldest] = held;
      oldest !== undefined && size - oldest.length >= left;
      [oldest] = held
    ) {
      held.shift();
      size -= oldest.length;
      // A client that is gone ends the request to the engine, and so the loop.
      if (isGone()) continue;
      open();
      client.sent(oldest.length);
      if (!response.write(oldest)) await drained();
    }
  }

  watch?.head(head);
  for await (const piece of body) {
    const noted = watch?.write(piece);
    if (noted !== undefined) await noted;
    held.push(piece);
    size += piece.length;
    await releaseTo(least);
  }
  await watch?.end();
  await releaseTo(0);
  if (isGone()) return;
  open();
  response.end();
}
