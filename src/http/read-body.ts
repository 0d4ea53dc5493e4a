import type { IncomingMessage } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip, inflate, inflateRaw } from 'node:zlib';
import { GatewayError } from '../errors.ts';

/** How long a client may send nothing of its body (ms). */
const LONGEST_SILENCE = 60_000;
/** How much is copied in one turn of the event loop (bytes). */
const COPIED_AT_ONCE = 2 * 1024 * 1024;

/** Content codings that XMLA clients use for request bodies; `deflate` is zlib, but some send it bare. */
const DECODERS: Readonly<Record<string, (body: Buffer, limit: number) => Promise<Buffer>>> = {
  gzip: decoder(promisify(gunzip)),
  'x-gzip': decoder(promisify(gunzip)),
  deflate: (body, limit) =>
    decoder(promisify(inflate))(body, limit).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'Z_DATA_ERROR') throw error;
      return decoder(promisify(inflateRaw))(body, limit);
    }),
};

function decoder(decode: (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>) {
  return (body: Buffer, limit: number) => decode(body, { maxOutputLength: limit });
}

/**
 * Reads a request body whole and removes its content coding. A client that does not go on sending is broken off.
 * @param limit largest body in bytes, both as it comes and decoded
 * @param limitName the key of the configuration that sets the limit
 * @param silence how long it may send nothing, in milliseconds
 * @throws GatewayError `too-big`, `content-coding`, `bad-request` (a broken coding), `client-gone`
 */
export async function readBody(
  request: IncomingMessage,
  limit: number,
  limitName = 'limits.body',
  silence = LONGEST_SILENCE,
): Promise<Buffer> {
  const tooBig = () =>
    new GatewayError('too-big', `The request body is larger than ${limit} bytes (${limitName}).`, {
      headers: { connection: 'close' },
    });
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooBig();
  const chunks: Buffer[] = [];
  let size = 0;
  const timer = setTimeout(() => request.destroy(new Error('nothing more came')), silence);
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      timer.refresh();
      size += chunk.length;
      if (size > limit) throw tooBig();
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    throw new GatewayError('client-gone', 'The request body broke off.', { cause: error });
  } finally {
    clearTimeout(timer);
  }
  return decode(await joined(chunks, size), request.headers['content-encoding'], limit, tooBig);
}

/** @param size of all together */
async function joined(chunks: readonly Buffer[], size: number): Promise<Buffer> {
  if (size <= COPIED_AT_ONCE) return Buffer.concat(chunks, size);
  const whole = Buffer.allocUnsafe(size);
  let copied = 0;
  let inThisTurn = 0;
  for (const chunk of chunks) {
    if (inThisTurn + chunk.length > COPIED_AT_ONCE) {
      await setImmediate();
      inThisTurn = 0;
    }
    inThisTurn += chunk.length;
    copied += chunk.copy(whole, copied);
  }
  return whole;
}

async function decode(
  body: Buffer,
  coding: string | undefined,
  limit: number,
  tooBig: () => GatewayError,
): Promise<Buffer> {
  const name = (coding ?? 'identity').trim().toLowerCase();
  if (name === 'identity' || name === '') return body;
  const decoder = DECODERS[name];
  if (decoder === undefined) {
    throw new GatewayError(
      'content-coding',
      'The content coding of the request body is not supported; allowed are gzip and deflate.',
      { headers: { 'accept-encoding': 'gzip, deflate' } },
    );
  }
  try {
    return await decoder(body, limit);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooBig();
    throw new GatewayError('bad-request', `The request body is not well-formed ${name}.`, {
      cause: error,
    });
  }
}
