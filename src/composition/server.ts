import { readFileSync } from 'node:fs';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { ListenConfig } from '../config/config.ts';
import type { HotPath } from '../hot-path/hot-path.ts';
import { createLingeringClose } from '../http/lingering-close.ts';
import { createTransientMap } from '../transient-map.ts';

/** Kerberos tokens of Windows clients are this large; they get a 401 that names Basic, not a 431. */
const MAX_HEADER = 64 * 1024;
/** Longer than load balancers keep idle connections, so that they close them first (ms). */
const KEEP_ALIVE = 65_000;
/** For the headers of a request, and for all of it (ms). */
const HEADERS_TIMEOUT = 60_000;
const REQUEST_TIMEOUT = 300_000;
/** How often connections are closed that became idle, while the server closes (ms). */
const SWEEP = 20;

export interface GatewayServer {
  /** Resolves to the base URL. @throws with one line for the operator when the address cannot be had */
  listen(): Promise<string>;
  /** Reads certificate and key anew; connections that exist keep the old ones. */
  renewCertificate(listen: ListenConfig): void;
  /** Takes no new connections; resolves when the last one has ended. */
  close(): Promise<void>;
  /** Ends all connections at once. */
  breakOff(): void;
}

/**
 * @param handler answers every request
 * @param hotPath asked first; it answers a request or calls its last argument
 */
export function createGatewayServer(
  listen: ListenConfig,
  handler: RequestListener,
  hotPath: () => Pick<HotPath, 'take'> | undefined,
): GatewayServer {
  const options = {
    maxHeaderSize: MAX_HEADER,
    keepAliveTimeout: KEEP_ALIVE,
    headersTimeout: HEADERS_TIMEOUT,
    requestTimeout: REQUEST_TIMEOUT,
  };
  const tls = readTls(listen);
  const secure: HttpsServer | undefined = tls && createHttpsServer({ ...options, ...tls }, take);
  const server: Server | HttpsServer = secure ?? createHttpServer(options, take);
  const unanswered = createTransientMap<ServerResponse, true>();
  const connections = new Set<Socket>();
  const lingering = createLingeringClose();
  server.on(secure === undefined ? 'connection' : 'secureConnection', (connection: Socket) => {
    connections.add(connection);
    connection.once('close', () => connections.delete(connection));
  });
  let closing = false;
  const closeIdle = server.closeIdleConnections.bind(server);
  // Node.js takes a connection for idle as soon as its answer was ended, and would cut off what the client has not taken.
  server.closeIdleConnections = () => {
    for (const { writableLength } of connections) if (writableLength > 0) return;
    closeIdle();
  };

  function take(request: IncomingMessage, response: ServerResponse): void {
    if (lingering.isOver(request.socket)) return;
    const otherwise = () => answer(request, response);
    const path = closing ? undefined : hotPath();
    if (path === undefined) otherwise();
    else path.take(request, response, otherwise);
  }

  function answer(request: IncomingMessage, response: ServerResponse): void {
    // Its client went while the hot path looked at it: its end was told, and nobody would hear of another one.
    if (response.destroyed) return;
    unanswered.set(response, true);
    response.once('close', () => unanswered.delete(response));
    lingering.follow(request, response);
    if (closing) response.setHeader('connection', 'close');
    handler(request, response);
  }

  return {
    async listen() {
      await new Promise<void>((resolve, reject) => {
        server.once('error', (error: NodeJS.ErrnoException) => {
          const where = `${listen.host}:${listen.port}`;
          const why = LISTEN_ERRORS[error.code ?? ''] ?? error.message;
          reject(new Error(`listen: cannot listen on ${where}: ${why}`, { cause: error }));
        });
        server.listen(listen.port, listen.host, resolve);
      });
      const { address, port, family } = server.address() as AddressInfo;
      const host = family === 'IPv6' ? `[${address}]` : address;
      return `${tls === undefined ? 'http' : 'https'}://${host}:${port}`;
    },
    renewCertificate(changed) {
      const renewed = readTls(changed);
      if (renewed !== undefined) secure?.setSecureContext(renewed);
    },
    close() {
      closing = true;
      lingering.hurry();
      for (const response of unanswered.keys()) {
        if (!response.headersSent) response.setHeader('connection', 'close');
      }
      return new Promise((resolve) => {
        // A client may keep a connection though it was told not to, and a hit may be under way that tells it nothing.
        const sweep = setInterval(() => server.closeIdleConnections(), SWEEP);
        server.close(() => {
          clearInterval(sweep);
          resolve();
        });
      });
    },
    breakOff: () => server.closeAllConnections(),
  };
}

const LISTEN_ERRORS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there; choose another listen.port',
  EADDRNOTAVAIL: 'this machine has no such address; listen.host must be one of its own, or 0.0.0.0',
  EACCES: 'not permitted; choose a listen.port from 1024 on',
  ENOTFOUND: 'the name cannot be resolved; listen.host must be an address or name of this machine',
};

function readTls(listen: ListenConfig): { cert: Buffer; key: Buffer } | undefined {
  if (listen.certificate === undefined || listen.key === undefined) return undefined;
  return { cert: readFileSync(listen.certificate), key: readFileSync(listen.key) };
}
