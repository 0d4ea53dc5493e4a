import { once } from 'node:events';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { readPemFiles } from '../common/pem-files.ts';
import type { Config, ListenConfig } from '../config/config.ts';
import { createConnections, MAX_HEADERS, refuseLongHead } from '../http/connections.ts';
import { trustedProxies } from '../http/request-head.ts';
import type { Parts } from './parts.ts';

/** Longer than load balancers keep idle connections, so that they close them first (ms). */
const KEEP_ALIVE = 65_000;
/** For the whole of a request (ms). */
const REQUEST_TIMEOUT = 300_000;
/** How often connections are looked for whose head or request is late (ms). */
const CHECKING = 1_000;
/** How often connections are closed that became idle, while the server closes (ms). */
const SWEEP = 20;

type Limits = Pick<Config['limits'], 'connections' | 'head' | 'head_timeout'>;
type ServerConfig = Pick<Config, 'listen'> & { readonly limits: Limits };

/** @param answer answers every request */
export function createGatewayServer(
  { listen, limits }: ServerConfig,
  answer: RequestListener,
  parts: Pick<Parts, 'clock' | 'emit'>,
) {
  const options = {
    maxHeaderSize: limits.head,
    keepAliveTimeout: KEEP_ALIVE,
    headersTimeout: limits.head_timeout,
    requestTimeout: REQUEST_TIMEOUT,
    connectionsCheckingInterval: CHECKING,
    // Node.js would refuse without words.
    requireHostHeader: false,
  };
  const take: RequestListener = (request, response) => {
    if (!connections.begin(request, response)) return;
    if (request.rawHeaders.length > 2 * MAX_HEADERS) refuseLongHead(response);
    else answering(request, response);
  };
  const tls = readTls(listen);
  const secure =
    tls && createHttpsServer({ ...options, handshakeTimeout: limits.head_timeout, ...tls }, take);
  const server = secure ?? createHttpServer(options, take);
  // One more than is allowed, so that it shows: Node.js refuses those with more, or leaves away headers beyond (24).
  server.maxHeadersCount = MAX_HEADERS + 1;
  let answering = answer;
  let most = limits.connections;
  let isTrusted = trustedProxies(listen.trusted_proxies);
  const connections = createConnections(server, {
    limit: () => most,
    isTrusted: (address) => isTrusted(address),
    ...parts,
  });
  const closeIdle = server.closeIdleConnections.bind(server);
  // Node.js takes a connection for idle as soon as its answer was ended, and would cut off what the client has not taken.
  server.closeIdleConnections = () => {
    if (!connections.isSending()) closeIdle();
  };

  return {
    /** Resolves to the base URL. @throws with one line for the operator when the address cannot be had */
    listen: () => listenOn(server, listen),
    /** Serves connections that another process accepts, in place of its own. @returns takes one, not read from yet */
    accept(): (connection: Socket) => void {
      // From now on Node.js closes connections whose heads are late, as it does where it listens itself.
      server.emit('listening');
      return (connection) => {
        connection.allowHalfOpen = true;
        server.emit('connection', connection);
      };
    },
    /**
     * Goes over to another configuration: its certificate and key, which are read anew, its trusted proxies, its limit
     * of connections, and what answers requests. Connections that exist stay as they are.
     * @throws when certificate or key cannot be used; then nothing has changed
     */
    change(config: ServerConfig, next: RequestListener): void {
      const renewed = readTls(config.listen);
      if (renewed !== undefined) secure?.setSecureContext(renewed);
      answering = next;
      most = config.limits.connections;
      isTrusted = trustedProxies(config.listen.trusted_proxies);
    },
    connections: connections.usage,
    /** Takes no new connections; resolves when the last one has ended. */
    async close(): Promise<void> {
      connections.close();
      server.close();
      do {
        await sleep(SWEEP);
        // A client may keep a connection though it was told not to.
        server.closeIdleConnections();
      } while (connections.usage().open > 0);
    },
    /** Ends all connections at once. */
    breakOff: () => server.closeAllConnections(),
  };
}

/** Resolves to the base URL. @throws with one line for the operator when the address cannot be had */
export async function listenOn(server: Server, listen: ListenConfig): Promise<string> {
  try {
    await once(server.listen(listen.port, listen.host), 'listening');
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException;
    const why = LISTEN_ERRORS[code] ?? message;
    throw new Error(`listen: cannot listen on ${listen.host}:${listen.port}: ${why}`, { cause });
  }
  const { address, port, family } = server.address() as AddressInfo;
  const host = family === 'IPv6' ? `[${address}]` : address;
  return `${listen.certificate === undefined ? 'http' : 'https'}://${host}:${port}`;
}

const LISTEN_ERRORS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program listens there; choose another listen.port',
  EADDRNOTAVAIL: 'this machine has no such address; listen.host must be one of its own, or 0.0.0.0',
  EACCES: 'not permitted; choose a listen.port from 1024 on',
  ENOTFOUND: 'the name cannot be resolved; listen.host must be an address or name of this machine',
};

const readTls = (listen: ListenConfig) =>
  listen.certificate === undefined ? undefined : readPemFiles(listen);
