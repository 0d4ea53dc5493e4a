import { createProxyMiddleware } from 'http-proxy-middleware';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  Agent as HttpAgent,
  IncomingMessage,
  ServerResponse,
  type ClientRequest,
  type IncomingHttpHeaders,
} from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { connect, Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { connectionTrouble, GatewayError } from '../common/errors.ts';
import { type PemFiles, readPemFiles } from '../common/pem-files.ts';
import { bytesPushed, endWith, type UpstreamAnswer } from './forwarded.ts';

/** Closes idle connections sooner than servers do: no request must meet a closing one. */
const IDLE_MS = 4_000;
const PROBE_TIMEOUT_MS = 2_000;

/** No byte came back; `cause` says why. */
export class NoAnswer extends Error {
  constructor(cause: unknown) {
    super('no answer', { cause });
  }
}

/** Nothing was sent. */
export class NotConnected extends NoAnswer {}

/** The upstream had already closed the kept connection that was used. */
export class StaleConnection extends NoAnswer {}

/** Words an error for operators: with keys of the section, not with flags of Node.js or OpenSSL. */
export function reasonOf(
  error: unknown,
  section: 'engine' | 'storage' | 'watch' = 'engine',
): unknown {
  const reason = error instanceof NoAnswer ? error.cause : error;
  if (!Error.isError(reason)) return reason;
  const why = connectionTrouble(reason, { ca: `${section}.ca`, url: `${section}.url` });
  const { code = '' }: NodeJS.ErrnoException = reason;
  return why === undefined ? reason : Object.assign(new Error(why), { code });
}

/** Codes of a connection that ended before the head of an answer was whole. */
const ENDED: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'HPE_INVALID_EOF_STATE']);

export class Silence extends Error {
  override readonly name = 'Silence';
}

export class ClientStall extends GatewayError {
  constructor() {
    super('client-gone', 'The client did not take its answer.');
  }
}

export interface RequestLimits {
  /** Ends the request, also during its answer. */
  readonly signal?: AbortSignal | undefined;
  /** Limits how long the upstream may be silent. */
  readonly timeoutMs: number;
  readonly connectLimitMs?: number | undefined;
}

/** A request to give to http-proxy-middleware; `sent` becomes the one that goes out. */
class Forwarded extends IncomingMessage {
  path = '';
  body: Buffer | undefined;
  readonly sent = Promise.withResolvers<ClientRequest>();

  /** The whole body is there, so nothing waits for pieces of it. */
  override pipe<T extends NodeJS.WritableStream>(to: T): T {
    if (this.body === undefined) to.end();
    else endWith(to, this.body);
    return to;
  }
}

/** A finished response for all requests, with which http-proxy-middleware can do nothing. */
class Unused extends ServerResponse {
  override readonly finished = true;

  override on(): this {
    return this;
  }
}

const NOWHERE = new Socket();
const UNUSED = new Unused(new IncomingMessage(NOWHERE));
/** Counts turns in which the event loop looked for input (libuv, `uv_metrics_info`). */
const loopCount = () => performance.nodeTiming.uvMetricsInfo.loopCount;

export type Upstream = ReturnType<typeof createUpstream>;

export function createUpstream(server: PemFiles & { readonly url: string }, keepAlive: boolean) {
  const origin = new URL(new URL(server.url).origin);
  const options = { keepAlive, timeout: IDLE_MS, scheduling: 'lifo' as const };
  const isSecure = origin.protocol === 'https:';
  const host = origin.hostname.replace(/^\[|\]$/g, '');
  const address = { host, port: Number(origin.port) || (isSecure ? 443 : 80) };
  const tls = isSecure ? readPemFiles(server) : undefined;
  const agent = tls ? new HttpsAgent({ ...options, ...tls }) : new HttpAgent(options);

  // http-proxy-middleware without its parts that answer errors, copy headers and log. It gets a
  // request and response of its own: it would break off the client's before the client is told why,
  // and leave listeners on the server.
  const proxy = createProxyMiddleware<Forwarded>({
    target: origin,
    agent,
    changeOrigin: true,
    selfHandleResponse: true,
    ejectPlugins: true,
    // Without a filter it would parse the path of each request.
    pathFilter: () => true,
    plugins: [
      (events) => {
        events.on('start', (request) => (request.url = request.path));
        events.on('proxyReq', (sent, request) => request.sent.resolve(sent));
        // The request itself reports how it fails.
        events.on('error', () => {});
        events.on('econnreset', () => {});
      },
    ],
  });

  let look: { readonly since: number; readonly over: Promise<void> } | undefined;

  /** Resolves when earlier input was read: no request may meet bytes that none has asked for. */
  function settled(): Promise<void> {
    const since = loopCount();
    // All waiters of one turn share a look.
    if (look?.since !== since) look = { since, over: lookAgain(since) };
    return look.over;
  }

  async function lookAgain(since: number): Promise<void> {
    // In the first turn the event loop may not have looked again yet; in the second it always has.
    do await new Promise((resolve) => setImmediate(resolve));
    while (loopCount() === since);
    // The agent drops a closed socket only at its event `close`.
    for (const server in agent.freeSockets) {
      const ended = agent.freeSockets[server]?.filter(({ destroyed }) => destroyed);
      for (const socket of ended ?? []) socket.emit('agentRemove');
    }
  }

  return {
    origin,
    agent,
    settled,
    /** The name the client certificate shows, or ''. It is a login, so it belongs into keys. */
    certificate: tls?.cert === undefined ? '' : shownAs(new X509Certificate(tls.cert)),
    /** @throws NotConnected when nothing was sent; as {@link answerTo} */
    async forward(
      asked: {
        readonly method: string | undefined;
        readonly path: string;
        readonly headers: IncomingHttpHeaders;
        readonly body: Buffer | undefined;
      },
      limits: RequestLimits,
    ): Promise<UpstreamAnswer> {
      await settled();
      if (limits.signal?.aborted === true) throw new NotConnected(limits.signal.reason);
      const request = new Forwarded(NOWHERE);
      Object.assign(request, asked);
      void proxy(request, UNUSED, request.sent.reject);
      return answerTo(await request.sent.promise, limits);
    },
    /** Never rejects. */
    async reachable(): Promise<boolean> {
      const socket = connect(address).on('error', () => {});
      const made = once(socket, 'connect', { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
      const accepted = await made.then(
        () => true,
        () => false,
      );
      socket.destroy();
      return accepted;
    },
    closeIdle() {
      for (const socket of Object.values(agent.freeSockets).flat()) socket?.destroy();
    },
    /** Breaks off open requests. */
    close: () => agent.destroy(),
  };
}

/** Stays the same when the certificate is renewed. */
function shownAs({ subject, subjectAltName, issuer }: X509Certificate): string {
  return JSON.stringify([subject, subjectAltName ?? null, issuer]);
}

/** The last request on each connection, and its answer once there is one. */
const uses = new WeakMap<
  Socket,
  { answer: IncomingMessage | undefined; readonly heard: () => void }
>();

/**
 * HTTP/1.1 assigns answers by their order alone: bytes behind the last one would be taken for the
 * answer to the next request.
 * @param heard called for each piece of the answer
 */
function guard(socket: Socket, heard: () => void): void {
  const isGuarded = uses.has(socket);
  uses.set(socket, { answer: undefined, heard });
  if (isGuarded) return;
  // Runs before node reads the piece: a whole answer does not contain it.
  socket.prependListener('data', () => {
    const use = uses.get(socket);
    if (use?.answer?.complete === true) socket.destroy();
    else if (use?.answer !== undefined) use.heard();
  });
}

/**
 * Waits for the answer, and keeps an unsafe connection from being used again.
 * @throws NoAnswer of any kind; Silence, connection errors behind a first byte; the answer:
 *   ClientStall
 */
export function answerTo(request: ClientRequest, limits: RequestLimits): Promise<UpstreamAnswer> {
  return new Promise((resolve, reject) => {
    let connection: 'none' | 'begun' | 'made' = 'none';
    let answer: IncomingMessage | undefined;
    let read = 0;
    const ends = watchRequest(
      limits,
      () => answer,
      (why) => (answer ?? request).destroy(why),
    );

    function made(): void {
      connection = 'made';
      ends.connected();
    }

    function follow(socket: Socket): void {
      guard(socket, ends.heard);
      read = socket.bytesRead;
      if (request.reusedSocket) return made();
      connection = 'begun';
      socket.once('encrypted' in socket ? 'secureConnect' : 'connect', made);
    }

    // A listener of the event `socket` would be too late to listen for it.
    if (request.socket) follow(request.socket);
    else request.once('socket', follow);
    request.once('response', (incoming: IncomingMessage) => {
      const { socket } = incoming;
      const received = bytesPushed(incoming);
      answer = incoming;
      const use = uses.get(socket);
      if (use !== undefined) use.answer = incoming;
      ends.heard();
      incoming.on('error', () => {});
      // Its reader left it, which node would report as a reset by the upstream.
      request.once('abort', () => incoming.destroy());
      incoming.once('end', () => {
        // Answered before all was sent: the upstream may take the rest for another request.
        if (!request.writableFinished) socket.destroy();
      });
      resolve(Object.assign(incoming, { received }));
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      answer?.destroy(error);
      if (connection === 'begun') return reject(new NotConnected(error));
      if (request.socket?.bytesRead !== read) return reject(error);
      const isStale = request.reusedSocket && ENDED.has(error.code ?? '');
      reject(isStale ? new StaleConnection(error) : new NoAnswer(error));
    });
    request.once('close', () => {
      ends.stop();
      // Nothing else reports a server that changes the protocol unasked.
      if (answer === undefined) reject(new Error('the connection ended without an answer'));
    });
  });
}

/** Calls `end` after silence, after too long a connecting, or by the signal. */
function watchRequest(
  { signal, timeoutMs, connectLimitMs }: RequestLimits,
  answer: () => Pick<UpstreamAnswer, 'readableLength'> | undefined,
  end: (why: Error) => void,
) {
  let heard = 0;
  const silence = setTimeout(() => {
    const before = heard;
    // Input that came while this process stood still is read first.
    setImmediate(() => {
      if (heard !== before) return;
      // The upstream's bytes still lie here: the client is the one that does not go on.
      const unread = (answer()?.readableLength ?? 0) > 0;
      end(unread ? new ClientStall() : new Silence());
    });
  }, timeoutMs);
  const connecting =
    connectLimitMs && setTimeout(() => end(new Error('no connection in time')), connectLimitMs);
  const leave = () => end(signal?.reason as Error);
  signal?.addEventListener('abort', leave, { once: true });
  if (signal?.aborted === true) setImmediate(leave);
  return {
    connected: () => clearTimeout(connecting),
    heard() {
      heard += 1;
      silence.refresh();
    },
    stop() {
      heard += 1;
      clearTimeout(silence);
      clearTimeout(connecting);
      signal?.removeEventListener('abort', leave);
    },
  };
}
