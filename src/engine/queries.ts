import { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';
import type { IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import type * as undici from 'undici';
import { words } from '../common/header-names.ts';
import type { UpstreamAnswer } from '../proxy/forwarded.ts';
import {
  IDLE,
  hasEnded,
  NotConnected,
  StaleConnection,
  watchRequest,
  type RequestLimits,
  type Upstream,
} from '../proxy/upstream.ts';

/** A request that changes nothing at the engine. */
export interface EngineQuery extends RequestLimits {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The engine said something that HTTP allows and undici does not understand, or not to the byte. */
export class NotUnderstood extends Error {}

/** Sends queries to one upstream. */
export type QueryClient = ReturnType<typeof createQueryClient>;

/**
 * The first query goes the way of what is passed through; undici is loaded behind its answer, for a
 * quick start. What undici does not understand is sent again that way, as are the next ones until
 * an answer comes that it would have understood: such an engine is asked once for each query.
 */
export function createQueryClient(upstream: Upstream) {
  let connections: Connections | undefined;
  let isQuick = false;
  let isClosed = false;
  let look: Promise<void> | undefined;

  /**
   * Resolves when all is read that had come when the event loop looked last. undici waits for the next turn before it writes
   * on a connection that was used (GHSA-35p6-xmwp-9g52), and so for another look: no query meets what none has asked for.
   */
  function behindLook(): Promise<void> {
    look ??= new Promise((resolve) => {
      setImmediate(() => {
        look = undefined;
        resolve();
      });
    });
    return look;
  }

  async function sendPlainly({ path, headers, body, ...limits }: EngineQuery) {
    // As undici has it, with the host that is put in here: an engine sees no difference.
    const all = { host: '', connection: 'keep-alive', ...headers };
    const answer = await upstream.forward({ method: 'POST', path, headers: all, body }, limits);
    const understood = !answer.continued && isReasonUnderstood(answer.statusMessage);
    answer.once('close', () => {
      if (!understood || answer.errored !== null) return;
      setImmediate(() => {
        if (isClosed) return;
        connections ??= createConnections(upstream);
        isQuick = true;
      });
    });
    return answer;
  }

  /** Closes connections that have no request. */
  function closeIdle(): void {
    connections?.closeIdle();
    upstream.closeIdle();
  }

  async function send(query: EngineQuery, isFirst = true): Promise<UpstreamAnswer> {
    await behindLook();
    try {
      if (isQuick && connections) return await connections.send(query);
    } catch (error) {
      if (isFirst && error instanceof StaleConnection && !error.sent) {
        closeIdle();
        return send(query, false);
      }
      if (!(error instanceof NotUnderstood)) throw error;
      isQuick = false;
    }
    return sendPlainly(query);
  }

  return {
    /**
     * Sends a query and waits for the head of its answer.
     * @throws NotConnected when nothing was sent; StaleConnection; Silence; any error of the connection
     */
    send: (query: EngineQuery) => send(query),
    closeIdle,
    close() {
      isClosed = true;
      connections?.close();
    },
  };
}

/** One socket, on which undici speaks. */
interface Connection {
  readonly client: undici.Client;
  socket: Socket | undefined;
  /** Whether its socket stands, with TLS where it is encrypted: nothing is sent before. */
  made: boolean;
  /** Bytes that had come on it when its last answer was whole. */
  read: number;
}

export type Connections = ReturnType<typeof createConnections>;

/**
 * Connections on which undici speaks, at half the cost of `node:http`; the one used last is used
 * next.
 */
export function createConnections(upstream: Upstream) {
  // Loaded with the first connection: it takes 100 ms of CPU time, which no start has to wait for.
  const { Client } = createRequire(import.meta.url)('undici') as typeof undici;
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
    const connection: Connection = { client, socket: undefined, made: false, read: 0 };
    // undici would make another one.
    client.on('disconnect', () => discard(connection));
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

  /**
   * Sends a query and waits for the head of its answer.
   * @throws NotConnected, StaleConnection, NotUnderstood, Silence, any error of the connection; ClientStall as the
   *   error of the answer
   */
  async function send({ path, headers, body, ...limits }: EngineQuery): Promise<UpstreamAnswer> {
    limits.signal?.throwIfAborted();
    const kept = takeIdle();
    const connection = kept ?? open();
    return new Promise((resolve, reject) => {
      let answer: QueryAnswer | undefined;
      /** Whether the connection is no longer of this request. */
      let parted = false;
      let sent = false;
      const ends = watchRequest(limits, () => answer, fail);

      function part(): void {
        parted = true;
        ends.stop();
      }

      function fail(error: Error): void {
        if (parted) return;
        part();
        const isConnecting = !connection.made && connection.socket?.destroyed === false;
        discard(connection);
        if (answer !== undefined) answer.destroy(error);
        else reject(isConnecting ? new NotConnected(error) : error);
      }

      /** What undici broke off by itself, as it does at a `100 Continue` that was not asked for, it did not understand. */
      function named(error: NodeJS.ErrnoException): Error {
        const isUnanswered = connection.socket?.bytesRead === connection.read;
        const isStale = kept !== undefined && (!sent || (isUnanswered && hasEnded(error)));
        const isEnded = connection.socket?.readableEnded !== false;
        if (sent && error.code === 'UND_ERR_SOCKET' && !isEnded) return new NotUnderstood();
        return isStale ? new StaleConnection(error, sent) : error;
      }

      connection.client.dispatch(
        { method: 'POST', path, headers, body },
        {
          onRequestStart(controller) {
            // Its parser passes over blank lines in silence.
            if (kept !== undefined && connection.socket?.bytesRead !== connection.read) {
              return controller.abort(new Error('bytes that were not asked for'));
            }
            ends.connected();
            sent = true;
          },
          onResponseStart(controller, statusCode, headers, statusMessage) {
            if (parted || statusCode < 200) return;
            if (!isReasonUnderstood(statusMessage)) return fail(new NotUnderstood());
            ends.heard();
            const head = { statusCode, statusMessage, headers: asNodeHas(headers) };
            answer = new QueryAnswer(head, {
              more() {
                ends.heard();
                controller.resume();
              },
              left() {
                if (parted) return;
                part();
                discard(connection);
              },
            });
            resolve(answer);
          },
          onResponseData(controller, chunk) {
            if (parted || answer === undefined) return;
            ends.heard();
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
            const isUnsent = (socket?.writableLength ?? 0) > 0;
            if (isUnsent || closesBehind(answer, socket)) discard(connection);
            else if (all.has(connection)) idle.push(connection);
            answer?.end();
          },
          onResponseError: (_controller, error) => fail(answer ? error : named(error)),
        },
      );
    });
  }

  return {
    send,
    /** Closes those that have no request. */
    closeIdle() {
      for (const connection of idle) discard(connection);
    },
    close() {
      for (const connection of all) discard(connection);
    },
  };
}

/** Whether the engine ends the connection with its answer (RFC 9112 §9.3): the next query would meet the end. */
function closesBehind(answer: UpstreamAnswer | undefined, socket: Socket | undefined): boolean {
  const said = answer?.headers.connection ?? '';
  return /(?:^|,)\s*close\s*(?:,|$)/i.test(said) || socket?.readableEnded !== false;
}

/** More bytes than this are not read ahead of the reader. */
const READ_AHEAD = 64 * 1024;

/** An answer for one reader. A Readable in its place takes a tenth more of the CPU time of a miss (docs/BENCHMARKS.md). */
class QueryAnswer extends EventEmitter implements UpstreamAnswer {
  readonly statusCode: number;
  readonly statusMessage: string | undefined;
  readonly headers: IncomingHttpHeaders;
  errored: Error | null = null;
  readableLength = 0;
  #received = 0;
  readonly received = () => this.#received;
  readonly #reader: { readonly more: () => void; readonly left: () => void };
  readonly #pieces: Buffer[] = [];
  #ended = false;
  #closed = false;
  #wake = () => {};

  constructor(
    head: Pick<QueryAnswer, 'statusCode' | 'statusMessage' | 'headers'>,
    reader: { readonly more: () => void; readonly left: () => void },
  ) {
    super();
    this.statusCode = head.statusCode;
    this.statusMessage = head.statusMessage;
    this.headers = head.headers;
    this.#reader = reader;
  }

  /** False: no more until the reader asks for it. */
  push(piece: Buffer): boolean {
    this.#pieces.push(piece);
    this.#received += piece.length;
    this.readableLength += piece.length;
    this.#wake();
    return this.readableLength < READ_AHEAD;
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  destroy(error?: Error): void {
    if (this.#closed) return;
    this.errored = error ?? null;
    this.#reader.left();
    this.#close();
    this.#wake();
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    queueMicrotask(() => this.emit('close'));
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    while (this.#pieces.length === 0 && !this.#ended && !this.#closed) {
      await new Promise<void>((wake) => (this.#wake = wake));
    }
    if (this.errored !== null) throw this.errored;
    const value = this.#pieces.shift();
    if (value === undefined) {
      if (!this.#ended) throw new Error('the answer was left');
      this.#close();
      return { done: true, value };
    }
    this.readableLength -= value.length;
    if (!this.#ended) this.#reader.more();
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    this.destroy();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Whether undici tells a reason phrase to the byte. */
function isReasonUnderstood(phrase = ''): boolean {
  return /^[\t\x20-\x7e]*$/.test(phrase);
}

/** Of several of these in one head, which none may have, the first counts; that is what node does. */
const SINGLE = words(
  'age content-length content-type etag expires last-modified location retry-after server',
);

/** Header fields as `IncomingMessage.headers` has them; those of one name undici gives as a list. */
function asNodeHas(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const joined: Record<string, string | string[] | undefined> = {};
  for (const name in headers) {
    const given = headers[name] ?? '';
    if (name === 'set-cookie') joined[name] = [given].flat().map(withoutBlanks);
    else if (typeof given === 'string') joined[name] = withoutBlanks(given);
    else if (SINGLE.has(name)) joined[name] = withoutBlanks(given[0] ?? '');
    else joined[name] = given.map(withoutBlanks).join(name === 'cookie' ? '; ' : ', ');
  }
  return joined;
}

/** Blanks behind a value are not of it (RFC 9110 §5.5). */
function withoutBlanks(value: string): string {
  return /[\t ]$/.test(value) ? value.replace(/[\t ]+$/, '') : value;
}
