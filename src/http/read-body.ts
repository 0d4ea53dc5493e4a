import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gunzip, inflate, inflateRaw } from 'node:zlib';
import { GatewayError } from '../errors.ts';

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
 * Reads a request body whole and removes its content coding.
 * @param limit largest body in bytes, both as it comes and decoded
 * @param limitName the key of the configuration that sets the limit
 * @throws GatewayError `too-big`, `content-coding`, `bad-request` (a broken coding)
 */
export async function readBody(
  request: IncomingMessage,
  limit: number,
  limitName = 'limits.body',
): Promise<Buffer> {
  const tooBig = () =>
    new GatewayError('too-big', `The request body is larger than ${limit} bytes (${limitName}).`, {
      headers: { connection: 'close' },
    });
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooBig();
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > limit) throw tooBig();
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    throw new GatewayError('client-gone', 'The request body broke off.', { cause: error });
  }
  return decode(Buffer.concat(chunks), request.headers['content-encoding'], limit, tooBig);
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
