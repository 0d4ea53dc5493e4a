import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { decodedAnswer } from '../proxy/decoded-answer.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import type { AnswerEnd, AnswerWatch, PassThroughClient } from './engine.ts';

/**
 * What a client must have to take an answer for done is its end: `</Envelope>`, which an engine may send ahead of a
 * last line feed. So many bytes at least are held back, where the watch holds the last ones.
 */
const HELD = 16 * 1024;

/** What a watch threw. It is the client's answer, not a failure of the engine. */
export class WatchRefusal extends Error {
  override readonly name = 'WatchRefusal';

  constructor(cause: unknown) {
    super('the watch refused the answer', { cause });
  }
}

/** A watch that is told the end once, however many know of it, and whose errors can be told from others. */
export interface GuardedWatch {
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
  giveUp(): Promise<void>;
}

/** @param sent whether anything of the request may have left this process */
export function guardWatch(watch: AnswerWatch, sent: () => boolean): GuardedWatch {
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
    giveUp: () => end(sent() ? 'broken' : 'not-sent').catch(() => {}),
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
 * Hands an answer on when the watch has seen it; where the watch holds the last bytes, whole pieces behind that: the
 * client has the last 16 KiB, or anything of a shorter answer, when the watch has agreed to the end.
 * @throws WatchRefusal; any error of the answer
 */
export async function relayWatched(
  answer: IncomingMessage,
  accepted: AnswerHead,
  client: PassThroughClient,
  watch: GuardedWatch,
): Promise<void> {
  const { response } = client;
  const { head, body } = decodedAnswer(answer, accepted, () => {});
  const held: Buffer[] = [];
  let size = 0;
  // The loop must not wait for a client while nothing more can come.
  let broken: AbortController | undefined;
  answer.once('error', () => broken?.abort());

  /** Resolves when the client took what was written, or went away, or the answer broke off. */
  async function drained(): Promise<void> {
    if (answer.errored !== null) return;
    broken ??= new AbortController();
    const signal = AbortSignal.any([client.signal, broken.signal]);
    await once(response, 'drain', { signal }).catch(() => {});
  }

  function handOn(piece: Buffer): Promise<void> | undefined {
    // A client that is gone ends the request to the engine, and so the loop.
    if (isGone(client)) return undefined;
    if (!response.headersSent) client.open(head);
    client.sent(piece.length);
    return response.write(piece) ? undefined : drained();
  }

  async function releaseTo(least: number): Promise<void> {
    while (held[0] !== undefined && size - held[0].length >= least) {
      const [oldest] = held.splice(0, 1) as [Buffer];
      size -= oldest.length;
      const slow = handOn(oldest);
      if (slow !== undefined) await slow;
    }
  }

  const least = watch.holdsLast ? HELD : 0;
  watch.head(head);
  for await (const piece of body) {
    const noted = watch.write(piece);
    if (noted !== undefined) await noted;
    held.push(piece);
    size += piece.length;
    await releaseTo(least);
  }
  await watch.end();
  await releaseTo(0);
  if (isGone(client)) return;
  if (!response.headersSent) client.open(head);
  response.end();
}

function isGone({ response, signal }: { response: ServerResponse; signal: AbortSignal }): boolean {
  return signal.aborted || response.destroyed;
}
