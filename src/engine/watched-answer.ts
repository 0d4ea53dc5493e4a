import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { decodedAnswer } from '../proxy/decoded-answer.ts';
import type { AnswerHead } from '../query-cache/query.ts';
import type { AnswerWatch, PassThroughClient } from './engine.ts';

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
  head(head: AnswerHead): Promise<void>;
  write(chunk: Buffer): Promise<void>;
  /** After the last byte. */
  end(): Promise<void>;
  /**
   * The answer broke off, or none began. What the watch says of that changes nothing: the client has an answer
   * already, or is told the failure.
   */
  giveUp(): Promise<void>;
}

export function guardWatch(watch: AnswerWatch): GuardedWatch {
  let ended = false;
  async function end(whole: boolean): Promise<void> {
    if (ended) return;
    ended = true;
    await heed(() => watch.end(whole));
  }
  return {
    holdsLast: watch.holdsLast,
    head: (head) => heed(() => watch.head(head)),
    write: (chunk) => heed(() => watch.write(chunk)),
    end: () => end(true),
    giveUp: () => end(false).catch(() => {}),
  };
}

async function heed(step: () => void | Promise<void>): Promise<void> {
  try {
    await step();
  } catch (error) {
    throw new WatchRefusal(error);
  }
}

/**
 * Hands an answer on when the watch has seen it; where the watch holds the last piece, one piece behind that: the
 * client has the last piece, or the head of an answer that has only one, when the watch has agreed to the end.
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
  let held: Buffer | undefined;
  // The loop must not wait for a client while nothing more can come.
  const broken = new AbortController();
  answer.once('error', () => broken.abort());
  const signal = AbortSignal.any([client.signal, broken.signal]);

  async function handOn(piece: Buffer): Promise<void> {
    // A client that is gone ends the request to the engine, and so the loop.
    if (isGone(client)) return;
    if (!response.headersSent) client.open(head);
    client.sent(piece.length);
    if (!response.write(piece)) await once(response, 'drain', { signal }).catch(() => {});
  }

  await watch.head(head);
  for await (const piece of body) {
    await watch.write(piece);
    const ready = watch.holdsLast ? held : piece;
    if (ready !== undefined) await handOn(ready);
    if (watch.holdsLast) held = piece;
  }
  await watch.end();
  if (held !== undefined) await handOn(held);
  if (isGone(client)) return;
  if (!response.headersSent) client.open(head);
  response.end();
}

function isGone({ response, signal }: { response: ServerResponse; signal: AbortSignal }): boolean {
  return signal.aborted || response.destroyed;
}
