import { Agent, request as httpsRequest } from 'node:https';
import { createGunzip } from 'node:zlib';
import { crc32 } from 'node:zlib';
import type { IncomingMessage } from 'node:http';
import { pipeline } from 'node:stream';

/** An answer as it came; its content coding is removed. */
export interface Received {
  /** 0 when none began. */
  readonly status: number;
  readonly cacheStatus: string;
  /** At most the first bytes, which hold all that short answers have, and what tells long ones apart. */
  readonly head: Buffer;
  readonly length: number;
  readonly crc: number;
  /** What broke; undefined for a whole answer. */
  readonly broken: string | undefined;
}

/** So much of each answer is kept; of the rest its length and its checksum. */
const KEPT_BYTES = 256 * 1024;

export interface Sent {
  readonly url: string;
  readonly method?: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly agent: Agent;
  readonly patience: number;
}

/** Connections of one person: kept open between clicks, one more for each request that is under way. */
export const connectionsFrom = (localAddress: string, ca: string): Agent =>
  new Agent({ keepAlive: true, localAddress, ca });

export function ask({ url, patience, body, path, ...rest }: Sent): Promise<Received> {
  const { hostname, port } = new URL(url);
  const { promise, resolve } = Promise.withResolvers<Received>();
  const fails = (broken: string) => resolve({ ...NOTHING, broken });
  const sent = httpsRequest({ hostname, port, path, ...rest }, (response) => {
    void take(response).then((answer) => {
      clearTimeout(deadline);
      resolve(answer);
    });
  });
  const deadline = setTimeout(() => {
    sent.destroy(new Error('no whole answer by the deadline of the person'));
  }, patience);
  sent.once('error', (error: NodeJS.ErrnoException) => {
    clearTimeout(deadline);
    fails(error.code ?? error.message);
  });
  if (rest.headers['expect'] === undefined) sent.end(body);
  else sent.once('continue', () => sent.end(body));
  return promise;
}

const NOTHING = { status: 0, cacheStatus: '', head: Buffer.alloc(0), length: 0, crc: 0 };

async function take(response: IncomingMessage): Promise<Received> {
  const { statusCode: status = 0, headers } = response;
  const chunks: Buffer[] = [];
  let [kept, length, crc] = [0, 0, 0];
  let broken: string | undefined;
  const isZipped = headers['content-encoding'] === 'gzip';
  const text = isZipped ? pipeline(response, createGunzip(), () => {}) : response;
  try {
    for await (const chunk of text as AsyncIterable<Buffer>) {
      crc = crc32(chunk, crc);
      length += chunk.length;
      if (kept < KEPT_BYTES) chunks.push(chunk);
      kept += chunk.length;
    }
    if (!response.complete) broken = 'incomplete';
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    broken = code ?? message;
  }
  const head = Buffer.concat(chunks).subarray(0, KEPT_BYTES);
  return {
    status,
    cacheStatus: String(headers['cache-status'] ?? ''),
    head,
    length,
    crc,
    broken,
  };
}
