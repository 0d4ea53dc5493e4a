import { request as httpRequest, type Agent, type IncomingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  BYPASS_REASONS,
  GATEWAY_REASONS,
  HIT_SOURCES,
  REFUSAL_REASONS,
} from '../../src/common/reasons.ts';
import { checkGatewayAnswer } from './openapi-check.ts';
import { basic } from './test-gateway.ts';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The body as UTF-8. */
  readonly text: string;
  /** False when the connection broke before the body had its end. */
  readonly whole: boolean;
}

export interface Message {
  readonly method?: string;
  /** The request target, exactly as it is sent. `/mdx/xmla` by default. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: Buffer | string;
  readonly agent?: Agent;
  /** The certificate authority that is believed. */
  readonly ca?: string;
}

/**
 * Sends one request and waits for its answer. Rejects when no answer begins, and when a gateway gives one that its
 * OpenAPI document does not describe.
 */
export function send(base: string, message: Message): Promise<Answer> {
  const { hostname, port, protocol } = new URL(base);
  const { method = 'GET', path = '/mdx/xmla' } = message;
  const start = protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const request = start(
      {
        hostname,
        port,
        method,
        path,
        headers: message.headers as Record<string, string | string[]> | undefined,
        agent: message.agent ?? false,
        ...(message.ca !== undefined && { ca: message.ca }),
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', () => {});
        response.on('close', () => {
          const body = Buffer.concat(chunks);
          const { statusCode = 0, headers, complete } = response;
          try {
            cacheStatusOf(headers);
          } catch (error) {
            reject(error as Error);
            return;
          }
          const answer: Answer = {
            status: statusCode,
            headers,
            body,
            text: body.toString('utf8'),
            whole: complete,
          };
          // A gateway in this process tells what it has answered at the end of its turn.
          resolve(checkGatewayAnswer(base, method, path, answer).then(() => nextTurn(answer)));
        });
      },
    );
    request.on('error', reject);
    // Who expects to be told so sends nothing before (RFC 9110 §10.1.1).
    if (message.headers?.['expect'] === undefined) request.end(message.body);
    else request.once('continue', () => request.end(message.body));
  });
}

export interface XmlaMessage extends Message {
  readonly user?: string;
}

/** Sends an XMLA request as alice, or whoever is named. */
export function askXmla(base: string, body: Buffer, message: XmlaMessage = {}): Promise<Answer> {
  const { user = 'alice', headers, ...rest } = message;
  return send(base, {
    method: 'POST',
    body,
    ...rest,
    headers: {
      authorization: basic(user),
      'content-type': 'text/xml; charset=utf-8',
      'content-length': String(body.length),
      ...headers,
    },
  });
}

/** What the header Cache-Status says. */
export interface CacheStatus {
  readonly hit: boolean;
  readonly fwd: string | undefined;
  readonly stored: boolean;
  readonly detail: string | undefined;
  readonly ttl: number | undefined;
}

/** The closed words, by what else the header says (RFC 9211). */
const DETAILS: Readonly<Record<'hit' | 'miss' | 'bypass' | 'none', object>> = {
  hit: HIT_SOURCES,
  miss: REFUSAL_REASONS,
  bypass: BYPASS_REASONS,
  none: GATEWAY_REASONS,
};

/**
 * Reads the header Cache-Status; undefined without one. Every answer that a test receives passes here.
 * @throws when it says anything but the closed words
 */
export function cacheStatusOf(headers: IncomingHttpHeaders): CacheStatus | undefined {
  const value = headers['cache-status'];
  if (value === undefined) return undefined;
  const [cache, ...pieces] = String(value).split('; ');
  const known = new Map(
    pieces.map((piece) => piece.split('=')).map(([name = '', word]) => [name, word]),
  );
  const fwd = known.get('fwd');
  const ttl = known.get('ttl');
  const status: CacheStatus = {
    hit: known.has('hit'),
    fwd,
    stored: known.has('stored'),
    detail: known.get('detail'),
    ttl: ttl === undefined ? undefined : Number(ttl),
  };
  const words = DETAILS[status.hit ? 'hit' : fwd === 'miss' || fwd === 'bypass' ? fwd : 'none'];
  const strange = [...known.keys()].filter(
    (name) => !['hit', 'fwd', 'stored', 'detail', 'ttl'].includes(name),
  );
  const mayBeSilent = fwd === 'miss';
  const isWord = status.detail === undefined ? mayBeSilent : Object.hasOwn(words, status.detail);
  if (cache !== 'mdx-gateway' || strange.length > 0 || !isWord || Number.isNaN(status.ttl)) {
    throw new Error(`Cache-Status says what is no word of src/common/reasons.ts: ${value}`);
  }
  return status;
}

/** In short: `hit`, `miss stored`, `miss fault`, `bypass method`, `gateway too-big`. */
export function shortStatus(answer: { readonly headers: IncomingHttpHeaders }): string {
  const status = cacheStatusOf(answer.headers);
  if (status === undefined) return 'none';
  if (status.hit) return 'hit';
  const words = [status.fwd ?? 'gateway', status.stored ? 'stored' : '', status.detail ?? ''];
  return words.filter((word) => word !== '').join(' ');
}

export interface RawAnswer {
  readonly bytes: Buffer;
  /** `end`: the other side said that it is done. `broken`: reset. */
  readonly ended: 'end' | 'broken';
}

/** Writes bytes to a port and collects what comes until the other side closes. */
export function sendRaw(port: number, bytes: Buffer | string): Promise<RawAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let broken = false;
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(bytes));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', () => {
      broken = true;
    });
    socket.on('close', () => {
      resolve({ bytes: Buffer.concat(chunks), ended: broken ? 'broken' : 'end' });
    });
  });
}

/** The port of a base URL. */
export function portOf(base: string): number {
  return Number(new URL(base).port);
}

/** Resolves when a condition holds. Whoever waits for what never happens is ended by jest. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}
