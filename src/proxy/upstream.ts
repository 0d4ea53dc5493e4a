import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { GatewayError } from '../common/errors.ts';

/**
 * An idle connection is closed after this long (ms), sooner than servers do: a request must not go out on a
 * connection that the upstream is just closing, since it could not be told whether it was read.
 */
export const IDLE = 4_000;

/** How long a probe of a port may take (ms). */
const PROBE_TIMEOUT = 2_000;

/** No connection was made, so that nothing was sent; `cause` says why. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected';

  constructor(cause: unknown) {
    super('no connection', { cause });
  }
}

/** What went wrong, without the word that nothing was sent. */
export function reasonOf(error: unknown): unknown {
  return error instanceof NotConnected ? error.cause : error;
}

/** The upstream sent nothing for longer than it may be silent. */
export class Silence extends Error {
  override readonly name = 'Silence';
}

/** The connection ended without an error and without an answer. */
class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/** The client took nothing of its answer for as long as an upstream may be silent. */
export class ClientStall extends GatewayError {
  constructor() {
    super('client-gone', 'The client did not take its answer.');
  }
}

export interface RequestLimits {
  /** Ends the request, also in its answer. */
  readonly signal?: AbortSignal | undefined;
  /** How long the upstream may be silent (ms). */
  readonly timeout: number;
  /** How long the making of the connection may take (ms); undefined for no limit of its own. */
  readonly connectLimit?: number | undefined;
}

/** One server that is asked, and the connections to it. */
export interface Upstream {
  readonly origin: URL;
  readonly agent: HttpAgent;
  /** As whom the client certificate shows the gateway; '' without one. It is a login, so it belongs into keys. */
  readonly certificate: string;
  /** Begins a connection beside those of the agent. It stands with `connect`, with TLS with `secureConnect`. */
  connect(): Socket;
  /**
   * Waits for the answer to a request that was just made with the agent. Keeps its connection from being used again
   * when that is not safe.
   * @throws NotConnected, Silence, NoAnswer, any error of the connection; ClientStall as the error of the answer
   */
  answerTo(request: ClientRequest, limits: RequestLimits): Promise<IncomingMessage>;
  /**
   * Resolves when all that had come before the call was read, so that no request goes out on a connection on which
   * something came that no request asked for.
   */
  settled(): Promise<void>;
  /** Whether a connection to it can be made. Never rejects. */
  reachable(): Promise<boolean>;
  closeIdle(): void;
  /** Breaks off what is under way. */
  close(): void;
}

/**
 * @param server its URL, and PEM files: its certificate authority and the gateway's own certificate
 * @param keepAlive whether a connection is used for more than one request
 */
export function createUpstream(
  server: {
    readonly url: string;
    readonly ca: string | undefined;
    readonly certificate: string | undefined;
    readonly key: string | undefined;
  },
  keepAlive: boolean,
): Upstream {
  const origin = new URL(new URL(server.url).origin);
  const options = { keepAlive, timeout: IDLE, scheduling: 'lifo' as const };
  const isSecure = origin.protocol === 'https:';
  const address = addressOf(origin);
  const cert = isSecure ? pem(server.certificate) : undefined;
  const tls = isSecure ? { ca: pem(server.ca), cert, key: pem(server.key) } : undefined;
  const agent = tls ? new HttpsAgent({ ...options, ...tls }) : new HttpAgent(options);
  /** The last answer on each connection; undefined as long as a request waits for its own. */
  const answers = new WeakMap<Socket, IncomingMessage | undefined>();

  const idle = () => Object.values(agent.freeSockets).flat();

  /**
   * HTTP/1.1 tells whose an answer is by the order of answers alone: anything behind the last one would be taken for
   * the answer to the next request.
   */
  function guard(socket: Socket): void {
    const isGuarded = answers.has(socket);
    answers.set(socket, undefined);
    if (isGuarded) return;
    // Before node reads the piece, which is the last one of the answer when that is whole behind it.
    socket.prependListener('data', () => {
      if (answers.get(socket)?.complete === true) socket.destroy();
    });
  }

  return {
    origin,
    agent,
    certificate: cert === undefined ? '' : shownAs(new X509Certificate(cert)),
    connect() {
      if (tls === undefined) return connect({ ...address, noDelay: true });
      const servername = isIP(address.host) === 0 ? address.host : '';
      return connectTls({
        ...address,
        ...tls,
        servername,
        ALPNProtocols: ['http/1.1'],
      }).setNoDelay();
    },
    answerTo(request, { signal, timeout, connectLimit }) {
      return new Promise((resolve, reject) => {
        let connection: 'none' | 'begun' | 'made' = 'none';
        let answer: IncomingMessage | undefined;
        const silence = watchSilence(timeout, () => {
          // What the upstream sent still lies here: it is the client who does not go on.
          const unread = answer !== undefined && answer.readableLength > 0;
          (answer ?? request).destroy(unread ? new ClientStall() : new Silence());
        });
        const connecting =
          connectLimit &&
          setTimeout(() => request.destroy(new Error('no connection in time')), connectLimit);
        const leave = () => void request.destroy(signal?.reason as Error);
        if (signal?.aborted === true) leave();
        signal?.addEventListener('abort', leave, { once: true });

        function made(): void {
          connection = 'made';
          clearTimeout(connecting);
        }

        function follow(socket: Socket): void {
          guard(socket);
          if (request.reusedSocket) return made();
          connection = 'begun';
          socket.once('encrypted' in socket ? 'secureConnect' : 'connect', made);
        }

        // In a listener of the event `socket` it is too late to listen for it.
        if (request.socket) follow(request.socket);
        else request.once('socket', follow);
        request.once('response', (incoming: IncomingMessage) => {
          const { socket } = incoming;
          answer = incoming;
          answers.set(socket, incoming);
          silence.heard();
          socket.on('data', silence.heard);
          incoming.on('error', () => {});
          incoming.once('end', () => {
            // Answered before all of it was sent: the upstream may take the rest for another request.
            if (!request.writableFinished) socket.destroy();
          });
          incoming.once('close', () => socket.off('data', silence.heard));
          resolve(incoming);
        });
        request.on('error', (error) => {
          answer?.destroy(error);
          reject(connection === 'begun' ? new NotConnected(error) : error);
        });
        request.once('close', () => {
          silence.stop();
          clearTimeout(connecting);
          signal?.removeEventListener('abort', leave);
          // Nothing else tells of a server that changes the protocol without being asked to.
          if (answer === undefined) reject(new NoAnswer());
        });
      });
    },
    async settled() {
      // The event loop may have looked for it before; behind the second turn it has looked again.
      for (let turn = 0; turn < 2; turn += 1) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      // The agent drops a closed one only when its event `close` comes.
      for (const socket of idle()) if (socket?.destroyed === true) socket.emit('agentRemove');
    },
    reachable: () => acceptsConnections(address),
    closeIdle() {
      for (const socket of idle()) socket?.destroy();
    },
    close: () => agent.destroy(),
  };
}

function pem(path: string | undefined): Buffer | undefined {
  return path === undefined ? undefined : readFileSync(path);
}

/** Stays the same when the certificate is renewed. */
function shownAs({ subject, subjectAltName, issuer }: X509Certificate): string {
  return JSON.stringify([subject, subjectAltName ?? null, issuer]);
}

/**
 * Calls `end` once nothing was heard for so long. What has come while this process stood still is read first.
 * @param limit milliseconds
 */
export function watchSilence(limit: number, end: () => void): { heard(): void; stop(): void } {
  let heard = 0;
  const timer = setTimeout(() => {
    const before = heard;
    setImmediate(() => {
      if (heard === before) end();
    });
  }, limit);
  return {
    heard() {
      heard += 1;
      timer.refresh();
    },
    stop() {
      heard += 1;
      clearTimeout(timer);
    },
  };
}

interface Address {
  readonly host: string;
  readonly port: number;
}

function addressOf({ hostname, port, protocol }: URL): Address {
  const host = hostname.replace(/^\[|\]$/g, '');
  return { host, port: Number(port) || (protocol === 'https:' ? 443 : 80) };
}

function acceptsConnections(address: Address): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...address, timeout: PROBE_TIMEOUT });
    const decide = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    socket.once('connect', () => decide(true));
    socket.once('timeout', () => decide(false));
    socket.once('error', () => decide(false));
  });
}
