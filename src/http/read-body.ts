import type { IncomingMessage } from 'node:http';
import { setImmediate as waitForTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip, inflate, inflateRaw } from 'node:zlib';
import type { RequestReservation } from '../common/body-account.ts';
import { GatewayError } from '../common/errors.ts';
import { announcedLength } from './request-head.ts';

/** How long a client may send nothing of its body (ms), but for the time in which it waits for memory and is not read. */
const LONGEST_SILENCE = 60_000;
/** How much is copied in one turn of the event loop (bytes). */
const COPIED_AT_ONCE = 2 * 1024 * 1024;
/** How often it is looked at how much a client sends (ms). */
const WINDOW = 10_000;
/** While others wait for memory, a client must send so many bytes in a window. */
const HASTE = 640 * 1024;
/** Deflate, gzip and zlib make bytes shorter by no more than this: the longest match takes two bits. */
const BEST_COMPRESSION = 1032;
type Decode = (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>;

/** Content codings that XMLA clients use for request bodies; `deflate` is zlib, but some send it bare. */
const DECODERS: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: (body, options) =>
    promisify(inflate)(body, options).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'Z_DATA_ERROR') throw error;
      return promisify(inflateRaw)(body, options);
    }),
};

interface ReadOptions {
  /** The key of the configuration that sets the limit. */
  readonly limitName?: string;
  /** The memory that the body takes; it keeps the size of what is returned. */
  readonly room?: RequestReservation;
  /** How many bytes must come in each ten seconds, also while none waits for memory. */
  readonly pace?: number;
  readonly signal?: AbortSignal;
  /** Where it was taken already; without content coding. */
  readonly taken?: Buffer | undefined;
}

/** {@link receiveBody} and what that gives. */
export async function readBody(...given: Parameters<typeof receiveBody>): Promise<Buffer> {
  return (await receiveBody(...given))();
}

/**
 * Puts a body together that has come whole, and removes its content coding; to be called once.
 * @throws GatewayError `too-big`, `bad-request` (a broken coding), `overloaded`
 */
export type ReceivedBody = () => Buffer | Promise<Buffer>;

/**
 * Waits until a request body has come whole. A client that does not go on sending is broken off, and so is a slow one
 * while others wait for memory. Its room is taken as it comes, not as it is announced.
 * @param limit largest body in bytes, both as it comes and decoded
 * @throws GatewayError `too-big`, `content-coding`, `client-gone`, `overloaded`
 */
export async function receiveBody(
  request: IncomingMessage,
  limit: number,
  { limitName = 'limits.body', room, pace, signal = NEVER, taken }: ReadOptions = {},
): Promise<ReceivedBody> {
  const refuseLong = (bytes: number) => {
    if (bytes <= limit) return;
    const message = `The request body is larger than ${limit} bytes (${limitName}).`;
    throw new GatewayError('too-big', message, { headers: { connection: 'close' } });
  };
  refuseLong(Math.max(announcedLength(request), taken?.length ?? 0));
  const named = (request.headers['content-encoding'] ?? '').trim().toLowerCase();
  // Some clients name the charset there, and engines take that.
  const coding = named === 'utf-8' || named === 'identity' ? '' : named;
  const decode = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined;
  if (decode === undefined && coding !== '') {
    const headers = { 'accept-encoding': 'gzip, deflate' };
    const message =
      'The content coding of the request body is not supported; allowed are gzip and deflate.';
    throw new GatewayError('content-coding', message, { headers });
  }
  if (taken !== undefined) {
    await room?.grow(taken.length, signal);
    return () => taken;
  }

  const chunks: Buffer[] = [];
  let size = 0;
  const watch = watchPace(request, room, pace);
  try {
    // Of one that is refused the rest is dropped as it comes, so that its client reads the answer.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      watch.came(chunk.length);
      size += chunk.length;
      refuseLong(size);
      chunks.push(chunk);
      const wait = room?.grow(chunk.length, signal);
      if (wait !== undefined) await watch.exceptFor(wait);
    }
  } catch (error) {
    request.resume();
    if (error instanceof GatewayError) throw error;
    throw new GatewayError('client-gone', 'The request body broke off.', { cause: error });
  } finally {
    watch.end();
  }

  return async () => {
    // A short one is put together in no time; of a long one there are two until that is done.
    if (size > COPIED_AT_ONCE) await room?.grow(size, signal);
    const body = await joined(chunks, size);
    chunks.length = 0;
    room?.shrinkTo(size);
    if (decode === undefined) return body;
    // The decoder has its pieces and then the whole.
    await room?.grow(2 * Math.min(limit, size * BEST_COMPRESSION), signal);
    try {
      const decoded = await decode(body, { maxOutputLength: limit });
      room?.shrinkTo(decoded.length);
      return decoded;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') refuseLong(Infinity);
      const message = `The request body is not well-formed ${coding}.`;
      throw new GatewayError('bad-request', message, { cause });
    }
  };
}

const NEVER = new AbortController().signal;

/**
 * Breaks a client off that sends nothing, or less than its pace, or too slowly while others wait for memory. Waits of
 * the request itself do not count.
 */
function watchPace(request: IncomingMessage, room?: RequestReservation, pace?: number) {
  const breakOff = (why: string) => request.destroy(new Error(why));
  const silence = setTimeout(() => {
    if (waitsSince === undefined) breakOff('nothing more came');
  }, LONGEST_SILENCE);
  const looks = setInterval(look, WINDOW);
  let waitsSince: number | undefined;
  /** What the request waited (ms), and what came (bytes), since the last look. */
  let waited = 0;
  let came = 0;

  function countWait(): void {
    const now = performance.now();
    waited += now - (waitsSince ?? now);
    waitsSince &&= now;
  }

  function look(): void {
    countWait();
    const part = Math.max(0, 1 - waited / WINDOW);
    if (pace !== undefined && came < pace * part) {
      breakOff(`it came too slowly: less than ${pace} bytes in ${WINDOW} ms`);
    } else if (came < HASTE * part && room?.isInTheWay() === true) {
      breakOff('it came too slowly while others waited for memory');
    }
    waited = came = 0;
  }

  return {
    came(bytes: number): void {
      silence.refresh();
      came += bytes;
    },
    async exceptFor(wait: Promise<void>): Promise<void> {
      waitsSince = performance.now();
      await wait;
      countWait();
      waitsSince = undefined;
      // Also one that has run out meanwhile begins anew.
      silence.refresh();
    },
    end(): void {
      clearTimeout(silence);
      clearInterval(looks);
    },
  };
}

async function joined(chunks: readonly Buffer[], size: number): Promise<Buffer> {
  const whole = Buffer.allocUnsafe(size);
  let copied = 0;
  let inThisTurn = COPIED_AT_ONCE;
  for (const chunk of chunks) {
    if (copied + chunk.length > inThisTurn) {
      await waitForTurn();
      inThisTurn = copied + COPIED_AT_ONCE;
    }
    copied += chunk.copy(whole, copied);
  }
  return whole;
}
