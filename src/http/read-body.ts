import type { IncomingMessage } from 'node:http';
import { setImmediate as waitForTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip, inflate, inflateRaw } from 'node:zlib';
import type { RequestReservation } from '../common/body-account.ts';
import { GatewayError } from '../common/errors.ts';
import { announcedLength } from './request-head.ts';

/** Limit for a silent client, without the time in which it is not read. */
const LONGEST_SILENCE_MS = 60_000;
const COPIED_AT_ONCE_BYTES = 2 * 1024 * 1024;
const WINDOW_MS = 10_000;
/** Bytes that must come in a window while others wait for memory. */
const HASTE_BYTES = 640 * 1024;
/** Deflate, gzip and zlib compress no better: the longest match takes two bits. */
const BEST_COMPRESSION = 1032;
type Decode = (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>;

/** Content codings of XMLA clients; `deflate` is zlib, but some send it bare. */
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
  readonly limitName?: string;
  /** Memory of the body; it keeps the size of the result. */
  readonly room?: RequestReservation;
  /** Bytes that must come in ten seconds, even if no request waits for memory. */
  readonly pace?: number;
  readonly signal?: AbortSignal;
  /** The body, if it was taken already, decoded. */
  readonly taken?: Buffer | undefined;
}

export async function readBody(...given: Parameters<typeof receiveBody>): Promise<Buffer> {
  return (await receiveBody(...given))();
}

/** To be called once. @throws GatewayError `too-big`, `bad-request`, `overloaded` */
export type ReceivedBody = () => Buffer | Promise<Buffer>;

/**
 * Waits until a body has come whole. A silent client is broken off, and a slow one while others
 * wait for memory. Memory is taken as the body comes, not as it is announced.
 * @param limit in bytes, both raw and decoded
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
  // Some clients name the charset here, and engines accept it.
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
    // The rest of a refused body is dropped as it comes, so that its client reads the answer.
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
    // While a long one is copied, it is twice in memory.
    if (size > COPIED_AT_ONCE_BYTES) await room?.grow(size, signal);
    const body = await joined(chunks, size);
    chunks.length = 0;
    room?.shrinkTo(size);
    if (decode === undefined) return body;
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

/** Breaks off a client that is silent, below its pace, or slow while others wait for memory. */
function watchPace(request: IncomingMessage, room?: RequestReservation, pace?: number) {
  const breakOff = (why: string) => request.destroy(new Error(why));
  const silence = setTimeout(() => {
    if (waitsSince === undefined) breakOff('nothing more came');
  }, LONGEST_SILENCE_MS);
  const looks = setInterval(look, WINDOW_MS);
  let waitsSince: number | undefined;
  /** Wait of the request (ms) and received bytes since the last look. */
  let waited = 0;
  let came = 0;

  function countWait(): void {
    const now = performance.now();
    waited += now - (waitsSince ?? now);
    waitsSince &&= now;
  }

  function look(): void {
    countWait();
    const part = Math.max(0, 1 - waited / WINDOW_MS);
    if (pace !== undefined && came < pace * part) {
      breakOff(`it came too slowly: less than ${pace} bytes in ${WINDOW_MS} ms`);
    } else if (came < HASTE_BYTES * part && room?.isInTheWay() === true) {
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
  let inThisTurn = COPIED_AT_ONCE_BYTES;
  for (const chunk of chunks) {
    if (copied + chunk.length > inThisTurn) {
      await waitForTurn();
      inThisTurn = copied + COPIED_AT_ONCE_BYTES;
    }
    copied += chunk.copy(whole, copied);
  }
  return whole;
}
