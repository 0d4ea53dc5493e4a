import { createRequire } from 'node:module';
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type * as undici from 'undici';
import type { UpstreamAnswer } from '../proxy/answer.ts';
import {
  ClientStall,
  IDLE,
  NotConnected,
  Silence,
  watchSilence,
  type RequestLimits,
  type Upstream,
} from '../proxy/upstream.ts';

/** A request that changes nothing at the engine, so that it may be sent again. */
export interface EngineQuery extends RequestLimits {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A kept connection that the engine had already closed, or broken, when the request went out on it. */
export class StaleConnection extends Error {
  override readonly name = 'StaleConnection';
}

/** The engine said something that HTTP allows and undici does not understand, or not to the byte. */
export class NotUnderstood extends Error {
  override readonly name = 'NotUnderstood';
}

/**
 * Connections to one upstream that undici speaks on: half as dear as `node:http`. Each has one request at a time; the
 * one used last is used next.
 */
export interface Connections {
  /**
   * Sends a query and waits for the head of its answer.
   * @throws NotConnected, StaleConnection, NotUnderstood, Silence, any error of the connection; ClientStall as the
   *   error of the answer
   */
  send(query: EngineQuery): Promise<UpstreamAnswer>;
  /** Closes those that have no request. */
  closeIdle(): void;
  close(): void;
}

interface Connection {
  readonly client: undici.Client;
  socket: Socket | undefined;
  /** Whether its socket stands, with TLS where it is encrypted: nothing is sent before. */
  made: boolean;
  /** Whether a request has gone out on this socket. */
  used: boolean;
  /** Bytes that had come on it when its last answer was whole. */
  read: number;
}

/** Loaded with the first connection: it takes 100 ms of CPU time, which no start has to wait for. */
function loadUndici(): typeof undici {
  return createRequire(import.meta.url)('undici') as typeof undici;
}

export function createConnections(upstream: Upstream): Connections {
  const { Client } = loadUndici();
  const all = new Set<Connection>();
  /** The one used last is the last. */
  let idle: Connection[] = [];

  function open(): Connection {
    const client = new Client(upstream.origin, {
      // Silence is measured here, from the moment the connection is begun, and to the millisecond.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: IDLE,
      keepAliveMaxTimeout: IDLE,
      connect(_options, done) {
        const socket = upstream.connect();
        connection.socket = socket;
        socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => {
          connection.made = true;
          done(null, socket);
        });
        socket.on('error', (error) => {
          if (!connection.made) done(new NotConnected(error), null);
        });
      },
    });
    const connection: Connection = { client, socket: undefined, made: false, used: false, read: 0 };
    client.on('disconnect', () => {
      connection.made = false;
      connection.used = false;
      if (idle.includes(connection)) discard(connection);
    });
    all.add(connection);
    return connection;
  }

  function discard(connection: Connection): void {
    if (!all.delete(connection)) return;
    idle = idle.filter((one) => one !== connection);
    void connection.client.destroy();
    // undici forgets one that is still being made.
    if (!connection.made) connection.socket?.destroy();
  }

  /** One that is idle, and on which nothing came since: whatever came was no answer to a request. */
  function takeIdle(): Connection | undefined {
    for (;;) {
      const connection = idle.pop();
      if (connection === undefined || connection.socket?.bytesRead === connection.read) {
        return connection;
      }
      discard(connection);
    }
  }

  function send(query: EngineQuery): Promise<UpstreamAnswer> {
    const { path, headers, body, signal, timeout, connectLimit } = query;
    const connection = takeIdle() ?? open();
    return new Promise((resolve, reject) => {
      let answer: UpstreamAnswer | undefined;
      /** Whether the connection is no longer of this request. */
      let parted = false;
      let sent = false;
      let reused = false;
      const silence = watchSilence(timeout, () => {
        // What the engine sent still lies here: it is the client who does not go on.
        const unread = answer !== undefined && answer.readableLength > 0;
        fail(unread ? new ClientStall() : new Silence());
      });
      const connecting =
        connectLimit && setTimeout(() => fail(new Error('no connection in time')), connectLimit);
      const leave = () => fail(new Error('given up', { cause: signal?.reason }));
      signal?.addEventListener('abort', leave, { once: true });

      function part(): void {
        parted = true;
        silence.stop();
        clearTimeout(connecting);
        signal?.removeEventListener('abort', leave);
      }

      function fail(error: Error): void {
        if (parted) return;
        part();
        const isConnecting = !connection.made && connection.socket?.destroyed === false;
        discard(connection);
        if (answer === undefined) reject(isConnecting ? new NotConnected(error) : error);
        else answer.destroy(error);
      }

      if (signal?.aborted === true) return leave();
      connection.client.dispatch(
        { method: 'POST', path, headers, body },
        {
          onRequestStart() {
            clearTimeout(connecting);
            sent = true;
            reused = connection.used;
            connection.used = true;
          },
          onResponseStart(controller, status, _headers, statusMessage) {
            if (parted || status < 200) return;
            if (!isReasonUnderstood(statusMessage)) {
              return fail(new NotUnderstood('a reason phrase that is not ASCII'));
            }
            silence.heard();
            const readable = new Readable({
              read() {
                silence.heard();
                controller.resume();
              },
              destroy(error, done) {
                if (!parted) {
                  part();
                  discard(connection);
                }
                done(error);
              },
            });
            // Its reader hears of it from the loop over it.
            readable.on('error', () => {});
            answer = Object.assign(readable, {
              statusCode: status,
              statusMessage,
              headers: headersOf((controller.rawHeaders ?? []) as Buffer[]),
            });
            resolve(answer);
          },
          onResponseData(controller, chunk) {
            if (parted || answer === undefined) return;
            silence.heard();
            if (!answer.push(chunk)) controller.pause();
          },
          onResponseEnd() {
            if (parted) return;
            const { socket } = connection;
            // undici takes a reset for the end of an answer that ends with its connection.
            if (socket?.errored) return fail(socket.errored);
            part();
            connection.read = socket?.bytesRead ?? 0;
            // Answered before all of it was sent: the engine may take the rest for another request.
            if ((socket?.writableLength ?? 0) > 0) discard(connection);
            else if (all.has(connection)) idle.push(connection);
            answer?.push(null);
          },
          onResponseError(_controller, error: NodeJS.ErrnoException) {
            if (answer !== undefined) fail(error);
            // Something came that is no answer, before anything was sent.
            else if (!sent && connection.made) fail(new StaleConnection());
            else if (isNotUnderstood(error, connection.socket)) fail(new NotUnderstood());
            else if (reused && isClosed(error)) fail(new StaleConnection());
            else fail(error);
          },
        },
      );
    });
  }

  return {
    send,
    closeIdle() {
      for (const connection of idle) discard(connection);
    },
    close() {
      for (const connection of all) discard(connection);
    },
  };
}

/** Whether undici tells a reason phrase to the byte. */
export function isReasonUnderstood(phrase = ''): boolean {
  return /^[\t\x20-\x7e]*$/.test(phrase);
}

const SOCKET_FAILURE = 'UND_ERR_SOCKET';

/**
 * Whether undici broke off by itself while a request was under way, as it does at a provisional `100 Continue` that was
 * not asked for.
 */
function isNotUnderstood({ code }: NodeJS.ErrnoException, socket: Socket | undefined): boolean {
  return code === SOCKET_FAILURE && socket?.readableEnded === false;
}

/** Whether the connection ended before the head of an answer was whole. */
export function isClosed({ code = '' }: NodeJS.ErrnoException): boolean {
  return ['ECONNRESET', 'EPIPE', 'HPE_INVALID_EOF_STATE', SOCKET_FAILURE].includes(code);
}

/** Of several of these in one head, which none may have, the first counts; that is what node does. */
const SINGLE: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'content-length',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'server',
  'user-agent',
]);

/**
 * Header fields as `IncomingMessage.headers` has them; undici reads their bytes as UTF-8.
 * @param raw names and values in turn, as they came
 */
function headersOf(raw: readonly Buffer[]): IncomingHttpHeaders {
  const headers: Record<string, string | string[]> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = String(raw[index]).toLowerCase();
    const value = withoutBlanks(raw[index + 1]?.toString('latin1') ?? '');
    const before = headers[name];
    if (name === 'set-cookie') headers[name] = [...(before ?? []), value];
    // What every object has by these names is no string.
    else if (typeof before !== 'string') headers[name] = value;
    else if (!SINGLE.has(name)) headers[name] = before + (name === 'cookie' ? '; ' : ', ') + value;
  }
  return headers;
}

/** Blanks behind a value are not of it (RFC 9110 §5.5). */
function withoutBlanks(value: string): string {
  return value.endsWith(' ') || value.endsWith('\t') ? value.replace(/[\t ]+$/, '') : value;
}
