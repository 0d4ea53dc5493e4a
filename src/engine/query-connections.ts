import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type * as undici from 'undici';
import { answerBody, type AnswerBody } from '../proxy/answer-body.ts';
import { NoConnection } from '../proxy/connection.ts';
import { createConnector } from '../proxy/connector.ts';
import { headersOf, type UpstreamAnswer } from '../proxy/upstream-answer.ts';
import { IDLE, type UpstreamTls } from '../proxy/upstream-agent.ts';
import { ClientStall } from '../proxy/upstream-failure.ts';
import { EngineSilence, NotConnected } from './engine-failure.ts';
import type { QueryRequest } from './query-request.ts';

/** A kept-alive connection that the engine had already closed, or broken, when the request went out on it. */
export class StaleConnection extends Error {
  override readonly name = 'StaleConnection';
}

/** The engine said something that HTTP allows and undici does not understand, or not to the byte. */
export class NotUnderstood extends Error {
  override readonly name = 'NotUnderstood';
}

/**
 * Connections to one replica for queries, spoken to by undici: half as dear as `node:http` (25 µs of CPU time for a
 * query of 2 KB, of 55 µs). Each has one request at a time; the one used last is used next.
 */
export interface QueryConnections {
  /**
   * Sends a query and waits for the head of its answer.
   * @param connectLimit how long the connection may take (ms); undefined for no limit of its own
   * @param over called once when an answer that was returned is over, with the error when it broke off
   * @throws NotConnected when nothing was sent; StaleConnection; NotUnderstood; EngineSilence; any error of the
   *   connection
   */
  send(
    query: QueryRequest,
    connectLimit: number | undefined,
    over: (error: Error | null) => void,
  ): Promise<UpstreamAnswer>;
  /** Closes those that nobody uses. */
  closeIdle(): void;
  close(): void;
}

interface Connection {
  readonly client: undici.Client;
  /** `begun` as long as nothing can have been sent. */
  state: 'none' | 'begun' | 'made';
  /** Of this connection, that is, since it was made. */
  requests: number;
  /** Bytes that had come on it when its last answer was whole. */
  read: number;
  busy: boolean;
  socket: Socket | undefined;
  /** How its socket broke. */
  broken: Error | undefined;
  /**
   * Begun with its first request and begun anew with each sign of life, never ended between two of them: a timer for
   * each request takes 2 µs more.
   */
  silence: NodeJS.Timeout | undefined;
  /** Of this timer (ms). */
  patience: number;
  /** Signs of life so far. */
  heard: number;
  /** Told when it has run out. */
  onSilence: (() => void) | undefined;
}

/** Loaded with the first connection: it takes 100 ms of CPU time, which no start has to wait for. */
function loadUndici(): typeof undici {
  return createRequire(import.meta.url)('undici') as typeof undici;
}

export function createQueryConnections(
  origin: URL,
  tls: UpstreamTls | undefined,
): QueryConnections {
  const { Client } = loadUndici();
  const connect = createConnector(origin, tls);
  const all = new Set<Connection>();
  /** The one used last is the last. */
  let idle: Connection[] = [];

  function open(): Connection {
    const client = new Client(origin, {
      // Silence is measured here, from the moment the connection is begun, and to the millisecond.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: IDLE,
      keepAliveMaxTimeout: IDLE,
      connect(_options, done) {
        connection.state = 'begun';
        connection.requests = 0;
        connection.socket = connect((error, socket) => {
          if (error !== undefined) return done(new NotConnected(error), null);
          connection.state = 'made';
          connection.broken = undefined;
          // Heard before undici, which takes a reset for the end of an answer that ends with its connection.
          socket.prependListener('error', (broken) => {
            connection.broken = broken;
          });
          done(null, socket);
        });
      },
    });
    const connection: Connection = {
      client,
      state: 'none',
      requests: 0,
      read: 0,
      busy: false,
      socket: undefined,
      broken: undefined,
      silence: undefined,
      patience: 0,
      heard: 0,
      onSilence: undefined,
    };
    client.on('disconnect', () => {
      connection.state = 'none';
      if (!connection.busy) discard(connection);
    });
    all.add(connection);
    return connection;
  }

  function discard(connection: Connection): void {
    if (!all.delete(connection)) return;
    clearTimeout(connection.silence);
    idle = idle.filter((one) => one !== connection);
    void connection.client.destroy();
    // undici forgets one that is still being made.
    if (connection.state === 'begun') connection.socket?.destroy();
  }

  /** One that is idle, and on which nothing came since: whatever came was no answer to a request. */
  function takeIdle(): Connection | undefined {
    for (;;) {
      const connection = idle.pop();
      if (connection?.socket === undefined || connection.socket.bytesRead === connection.read) {
        return connection;
      }
      discard(connection);
    }
  }

  function send(
    query: QueryRequest,
    connectLimit: number | undefined,
    over: (error: Error | null) => void,
  ): Promise<UpstreamAnswer> {
    const { signal } = query;
    const connection = takeIdle() ?? open();
    connection.busy = true;
    return new Promise((resolve, reject) => {
      let body: AnswerBody | undefined;
      let resume: (() => void) | undefined;
      /** Whether the connection is no longer of this request. */
      let parted = false;
      let sent = false;
      let reused = false;

      listen(connection, query.timeout, () => {
        // What the engine sent still lies here: it is the client who does not go on.
        giveUp(body?.hasUnread() === true ? new ClientStall() : new EngineSilence());
      });
      const waiting =
        connectLimit === undefined
          ? undefined
          : setTimeout(() => giveUp(new NoConnection('no connection in time')), connectLimit);
      const onAbort = () => giveUp(new Error('given up', { cause: signal.reason }));
      signal.addEventListener('abort', onAbort, { once: true });

      function part(): void {
        parted = true;
        connection.onSilence = undefined;
        clearTimeout(waiting);
        signal.removeEventListener('abort', onAbort);
      }

      /** Ends it from this side. */
      function giveUp(error: Error): void {
        fail(connection.state === 'begun' ? new NotConnected(error) : error);
      }

      function fail(error: Error): void {
        if (parted) return;
        part();
        discard(connection);
        if (body === undefined) reject(error);
        else body.fail(error);
      }

      if (signal.aborted) return onAbort();
      connection.client.dispatch(
        { method: 'POST', path: query.path, headers: query.headers, body: query.body },
        // The older of the two kinds of handler, since it is given the head as bytes and costs less.
        {
          onConnect() {
            clearTimeout(waiting);
            sent = true;
            reused = connection.requests > 0;
            connection.requests += 1;
          },
          onHeaders(statusCode, raw, more, statusMessage) {
            if (parted || statusCode < 200) return true;
            if (!isReasonUnderstood(statusMessage)) {
              fail(new NotUnderstood('a reason phrase that is not ASCII'));
              return true;
            }
            hear(connection);
            resume = more;
            const ends = answerBody({
              more() {
                if (!parted) hear(connection);
                resume?.();
              },
              left: () => fail(new Error('the answer was left')),
              over: () => over(ends.errored),
            });
            body = ends;
            resolve(asAnswer(statusCode, statusMessage, raw, ends));
            return true;
          },
          onData(chunk) {
            if (parted || body === undefined) return true;
            hear(connection);
            return body.push(chunk);
          },
          onComplete() {
            if (parted) return;
            if (connection.broken !== undefined) return fail(connection.broken);
            part();
            connection.busy = false;
            connection.read = connection.socket?.bytesRead ?? 0;
            // Answered before all of it was sent: the engine may read no more here, or take the rest for a request.
            if ((connection.socket?.writableLength ?? 0) > 0) discard(connection);
            else if (all.has(connection)) idle.push(connection);
            body?.end();
          },
          onError(error: NodeJS.ErrnoException) {
            if (body !== undefined) fail(error);
            // Something came that is no answer, before anything was sent.
            else if (!sent && connection.state === 'made') fail(new StaleConnection());
            else if (isNotUnderstood(error, connection.socket))
              fail(new NotUnderstood(error.message));
            else if (reused && isClosed(error)) fail(new StaleConnection());
            else fail(error);
          },
        },
      );
    });
  }

  function closeIdle(): void {
    for (const connection of idle) discard(connection);
  }

  return {
    send,
    closeIdle,
    close() {
      for (const connection of all) discard(connection);
    },
  };
}

/** @param patience milliseconds, nearly always the same on one connection */
function listen(connection: Connection, patience: number, onSilence: () => void): void {
  connection.onSilence = onSilence;
  if (connection.silence !== undefined && connection.patience === patience) return hear(connection);
  clearTimeout(connection.silence);
  connection.patience = patience;
  connection.silence = setTimeout(() => {
    const { onSilence: told, heard } = connection;
    // What has come while this process stood still is read first. By then another request may be waiting.
    setImmediate(() => {
      if (connection.onSilence === told && connection.heard === heard) told?.();
    });
  }, patience);
  // While a request is under way, its socket keeps the process alive.
  connection.silence.unref();
}

function hear(connection: Connection): void {
  connection.heard += 1;
  connection.silence?.refresh();
}

/** Whether undici tells a reason phrase to the byte. */
export function isReasonUnderstood(phrase = ''): boolean {
  return /^[\t\x20-\x7e]*$/.test(phrase);
}

/**
 * Whether undici broke off by itself while a request was under way, as it does at a provisional `100 Continue` that was
 * not asked for.
 */
function isNotUnderstood({ code }: NodeJS.ErrnoException, socket: Socket | undefined): boolean {
  return code === SOCKET_FAILURE && socket?.readableEnded === false;
}

/** Whether the connection ended before the head of an answer was whole. */
function isClosed({ code = '' }: NodeJS.ErrnoException): boolean {
  return ['ECONNRESET', 'EPIPE', 'HPE_INVALID_EOF_STATE', SOCKET_FAILURE].includes(code);
}

const SOCKET_FAILURE = 'UND_ERR_SOCKET';

function asAnswer(
  statusCode: number,
  statusMessage: string,
  raw: readonly Buffer[],
  body: AnswerBody,
): UpstreamAnswer {
  return Object.assign(body, { statusCode, statusMessage, headers: headersOf(raw) });
}
