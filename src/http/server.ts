import { once } from 'node:events';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { clientNetwork } from '../auth/login-throttle.ts';
import type { Clock } from '../common/clock.ts';
import type { ConnectionClosing, Emit } from '../common/events.ts';
import { readPemFiles } from '../common/pem-files.ts';
import { PLAIN_TEXT, sendWhole } from './answers.ts';
import type { LimitsConfig, ListenConfig } from './config.ts';
import { trustedProxies } from './request-head.ts';

/** Load balancers must close idle connections first. */
const KEEP_ALIVE_MS = 65_000;
const REQUEST_TIMEOUT_MS = 300_000;
const CHECKING_MS = 1_000;
const SWEEP_MS = 20;
/** Idle connections stay this long in a shutdown: a request may be on its way, and is answered. */
const BREATH_MS = 500;

type Limits = Pick<LimitsConfig, 'connections' | 'head' | 'head_timeout'>;
type ServerConfig = Readonly<{ listen: ListenConfig; limits: Limits }>;

export function createGatewayServer(
  { listen, limits }: ServerConfig,
  parts: {
    readonly clock: Pick<Clock, 'now'>;
    readonly emit: Emit;
    readonly breath?: number | undefined;
  },
) {
  const { breath = BREATH_MS } = parts;
  let answer: RequestListener | undefined;
  const options = {
    maxHeaderSize: limits.head,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: limits.head_timeout,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: CHECKING_MS,
    // Node.js would refuse without a text.
    requireHostHeader: false,
  };
  const begin: RequestListener = (request, response) => {
    // Node.js does not tell of too many headers.
    if (request.rawHeaders.length > 2 * MAX_HEADERS) {
      sendWhole(response, PLAIN_TEXT, `${LONG_HEAD}\n`, 431, { connection: 'close' });
    } else answer?.(request, response);
  };
  const take: RequestListener = (_request, response) => connections.take(response, begin);
  const tls = readTls(listen);
  const secure =
    tls && createHttpsServer({ ...options, handshakeTimeout: limits.head_timeout, ...tls }, take);
  const server = secure ?? createHttpServer(options, take);
  // Node.js would answer out of turn.
  server.on('checkExpectation', (_request, response) =>
    // RFC 9110 §10.1.1
    connections.take(response, () => void response.writeHead(417).end()),
  );
  // One more shows the excess: Node.js refuses more, or drops headers beyond it (24).
  server.maxHeadersCount = MAX_HEADERS + 1;
  let most = limits.connections;
  let isTrusted = trustedProxies(listen.trusted_proxies);
  const connections = createConnections(server, {
    limit: () => most,
    isTrusted: (address) => isTrusted(address),
    ...parts,
  });
  const closeIdle = server.closeIdleConnections.bind(server);
  // Node.js takes a connection for idle before its client has all of the answer.
  server.closeIdleConnections = () => {
    if (!connections.isSending()) closeIdle();
  };

  return {
    answerBy: (next: RequestListener) => void (answer = next),
    listen: () => listenOn(server, listen),
    /** Serves connections accepted by another process. @returns takes one, not read from yet */
    accept(): (connection: Socket) => void {
      // Starts the checks of late heads, as listening does.
      server.emit('listening');
      return (connection) => {
        connection.allowHalfOpen = true;
        server.emit('connection', connection);
      };
    },
    /** @throws when certificate or key cannot be used; then nothing has changed */
    change(config: ServerConfig): void {
      const renewed = readTls(config.listen);
      if (renewed !== undefined) secure?.setSecureContext(renewed);
      most = config.limits.connections;
      isTrusted = trustedProxies(config.listen.trusted_proxies);
    },
    connections: connections.usage,
    async close(): Promise<void> {
      connections.close();
      // First takes what has connected or was sent: the system would reset it.
      await immediate();
      // That of node:http would close idle connections too.
      NetServer.prototype.close.call(server);
      const end = performance.now() + breath;
      do {
        await sleep(SWEEP_MS);
        await immediate();
        if (performance.now() >= end) server.closeIdleConnections();
      } while (connections.usage().open > 0);
      server.close();
    },
    breakOff: () => server.closeAllConnections(),
  };
}

/** Resolves to the base URL. @throws with a line for the operator when it cannot listen */
export async function listenOn(server: NetServer, listen: ListenConfig): Promise<string> {
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

const MAX_HEADERS = 200;
/** Unanswered requests of a connection; with more it is closed. */
const MOST_UNANSWERED = 32;
/** Requests read ahead of an answer: more would only take memory. */
const MOST_READ_AHEAD = 2;
const TELLING_MS = 60_000;
/** Time to read the refusal of a head, while the client still sends. */
const AFTER_REFUSAL_MS = 2_000;
/** Time to read an early answer, while the client still sends. */
const AFTER_ANSWER_MS = { usual: 10_000, closing: 1_000 };
const NONE = { limit: 0, stalled: 0, address: 0, busy: 0, pipelined: 0 };

export type Connections = ReturnType<typeof createConnections>;

/**
 * Limits open connections, each of which may take memory before its client has logged in. At the
 * limit, an unused connection makes room: of the address with the most of them, the one unused for
 * longest; a young one without its first head is spared unless its address has several. If all are
 * busy, one that waits for its client makes room, so that one login cannot shut out all others;
 * else the new one is closed. Each connection of a trusted proxy counts as an address.
 *
 * A pipelined request begins when the last answer was handed over, so it sees the changes before
 * it, and only its head is in memory until then.
 *
 * Node.js closes at once after an early answer; the system then resets the connection, and most
 * clients lose the answer (RFC 9112 §9.6). So the rest of the request is read and dropped first.
 * @param options.limit may change by a reload
 */
export function createConnections(
  server: Server | HttpsServer,
  options: {
    limit: () => number;
    isTrusted: (address: string) => boolean;
    clock: Pick<Clock, 'now'>;
    emit: Emit;
    patience?: typeof AFTER_ANSWER_MS;
  },
) {
  const { limit, isTrusted, clock, emit, patience = AFTER_ANSWER_MS } = options;
  const isSecure = 'setSecureContext' in server;
  const table = createConnectionTable(clock, limit);
  const bySocket = new WeakMap<Socket, Connection>();
  /** Connections during TLS negotiation, by both ends: Node.js does not tell the socket below. */
  const negotiating = new Map<string, Connection>();
  const closing = { begun: false };
  const close = createCloser(clock, emit, limit);

  server.on('connection', admit);
  if (isSecure) server.on('secureConnection', startSecurely);
  server.on('clientError', (error, http: Socket) => refuse(error, http, bySocket.get(http)));

  function admit(socket: Socket): void {
    const { remoteAddress = '' } = socket;
    const name = isTrusted(remoteAddress) ? socket : clientNetwork(remoteAddress);
    while (table.open.size >= limit()) {
      const unusedOne = table.findUnused();
      const other = unusedOne ?? table.findStalled(name);
      if (other === undefined) return close(socket, 'busy');
      close(other.socket, unusedOne === undefined ? 'stalled' : 'limit');
      table.forget(other);
    }
    const connection = table.add(socket, name);
    const ends = endsOf(socket);
    if (isSecure) negotiating.set(ends, connection);
    else start(connection, socket);
    socket.once('close', () => {
      if (negotiating.get(ends) === connection) negotiating.delete(ends);
      table.forget(connection);
    });
    for (const headless of table.headlessBeyond(connection.address)) {
      close(headless.socket, 'address');
      table.forget(headless);
    }
  }

  function startSecurely(http: Socket): void {
    const ends = endsOf(http);
    const connection = negotiating.get(ends);
    if (connection === undefined) return;
    negotiating.delete(ends);
    start(connection, http);
  }

  function start(connection: Connection, http: Socket): void {
    bySocket.set(http, connection);
    connection.http = http;
    // Each request that waits for its login may listen for its end.
    http.setMaxListeners(0);
    http.on('resume', () => {
      // Node.js resumes after each whole request.
      if (connection.queue.length >= MOST_READ_AHEAD) http.pause();
    });
    endWithPatience(connection, http, () => (closing.begun ? patience.closing : patience.usual));
  }

  return {
    take: createPipelines(bySocket, table, clock, closing, close),
    close(): void {
      closing.begun = true;
      for (const { response, unread, http } of table.open) {
        if (response?.headersSent === false) response.setHeader('connection', 'close');
        if (unread?.complete === false && http !== undefined) destroyAfter(patience.closing, http);
      }
    },
    isSending: (): boolean => table.open.values().some(isSending),
    usage: () => ({ open: table.open.size, limit: limit() }),
  };
}

type CloseConnection = (socket: Socket, why: ConnectionClosing) => void;
function createCloser(clock: Pick<Clock, 'now'>, emit: Emit, limit: () => number): CloseConnection {
  let untold = { ...NONE };
  let lastTold = -Infinity;
  return (socket, why) => {
    socket.destroy();
    emit({ type: 'connection-closed', why });
    untold[why] += 1;
    if (clock.now() - lastTold < TELLING_MS) return;
    lastTold = clock.now();
    const { limit: forNew, stalled, address, busy, pipelined } = untold;
    untold = { ...NONE };
    const message =
      `connections were closed: ${forNew} unused ones and ${stalled} that waited for their clients for new ones, and ${busy} new ones while all were busy, ` +
      `since limits.connections (${limit()}) are open; ${address} with an unfinished head, since their address has many; ` +
      `${pipelined} with more than ${MOST_UNANSWERED} requests that were not answered yet`;
    emit({ type: 'warning', message });
  };
}

/** Lets a client send on for a while after the last answer, which Node.js would end at once. */
function endWithPatience(connection: Connection, http: Socket, patienceMs: () => number): void {
  const end = http.destroySoon.bind(http);
  // Node.js calls this after the last answer of a connection.
  http.destroySoon = () => {
    const { response, unread } = connection;
    const request = response?.req ?? unread;
    if (request === undefined || request.complete || request.destroyed) return end();
    connection.hasLastAnswer = true;
    destroyAfter(patienceMs(), http);
    request.once('close', end);
  };
}

function refuse(
  error: NodeJS.ErrnoException & { reason?: string },
  http: Socket,
  connection: Connection | undefined,
): void {
  // It was refused already, or had its last answer.
  if (http.writableEnded) return;
  const answer = answerTo(error);
  const { response, queue = [] } = connection ?? {};
  // It is late because we did not read it.
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && queue.length > 0) return;
  // Behind an unfinished answer, the refusal would be taken for another request's.
  const isAlone = response == null || !(response.headersSent || response.req.complete);
  // Without any data, the refusal would be taken for the answer to the next request.
  if (answer === undefined || !isAlone || !http.writable || http.bytesRead === 0) http.destroy();
  else destroyAfter(AFTER_REFUSAL_MS, http.end(answer));
}

function createPipelines(
  bySocket: WeakMap<Socket, Connection>,
  table: ConnectionTable,
  clock: Pick<Clock, 'now'>,
  closing: { readonly begun: boolean },
  close: CloseConnection,
) {
  function begin(connection: Connection, response: ServerResponse, answer: RequestListener): void {
    connection.response = response;
    connection.beganMs = clock.now();
    response.on('close', end);
    if (closing.begun) response.setHeader('connection', 'close');
    answer(response.req, response);
  }

  /** One function for all requests saves a closure for each. */
  function end(this: ServerResponse): void {
    const { socket: http } = this.req;
    const connection = bySocket.get(http);
    if (connection === undefined) return;
    const { queue } = connection;
    connection.unread = this.req.complete ? undefined : this.req;
    const next = http.writable ? queue.shift() : undefined;
    if (next !== undefined) {
      if (queue.length === MOST_READ_AHEAD - 1) http.resume();
      return begin(connection, next.response, next.answer);
    }
    table.noteEnd(connection);
  }

  return function take(response: ServerResponse, answer: RequestListener): void {
    const { socket: http } = response.req;
    const connection = bySocket.get(http);
    if (connection === undefined) return answer(response.req, response);
    // Nothing after the last answer may be carried out (RFC 9112 §9.6).
    if (connection.hasLastAnswer || !http.writable) return;
    if (isUnused(connection)) {
      table.noteUse(connection);
      return begin(connection, response, answer);
    }
    const { queue, socket } = connection;
    queue.push({ response, answer });
    if (queue.length >= MOST_READ_AHEAD) http.pause();
    if (queue.length < MOST_UNANSWERED) return;
    // Over TLS, the socket above hears of the end only in a later turn.
    http.destroy();
    close(socket, 'pipelined');
    table.forget(connection);
  };
}

const endsOf = ({ localAddress, remoteAddress, remotePort }: Socket): string =>
  `${localAddress} ${remoteAddress} ${remotePort}`;

function destroyAfter(milliseconds: number, socket: Socket): void {
  const timer = setTimeout(() => socket.destroy(), milliseconds);
  socket.once('close', () => clearTimeout(timer));
}

const LONG_HEAD = `The head of the request is too long: it is larger than limits.head, or has more than ${MAX_HEADERS} headers.`;

const LONG_CHUNKS = 'The chunk extensions of the body are too long.';
const REFUSALS: Readonly<Record<string, readonly [status: string, text: string]>> = {
  HPE_HEADER_OVERFLOW: ['431 Request Header Fields Too Large', LONG_HEAD],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['413 Payload Too Large', LONG_CHUNKS],
  ERR_HTTP_REQUEST_TIMEOUT: ['408 Request Timeout', 'The request did not come in time.'],
};

/** Undefined if no answer can arrive: the connection broke, or its TLS failed. */
function answerTo({ code = '', reason = code }: { code?: string; reason?: string }) {
  if (!code.startsWith('HPE_') && !Object.hasOwn(REFUSALS, code)) return undefined;
  const invalid = ['400 Bad Request', `The request is not valid HTTP/1.1: ${reason}.`];
  const [status, text] = REFUSALS[code] ?? invalid;
  const length = Buffer.byteLength(`${text}\n`);
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: ${PLAIN_TEXT}\r\nContent-Length: ${length}`;
  return `${head}\r\n\r\n${text}\n`;
}

/** Part of the limit for one address's connections without a whole head for {@link GRACE_MS}. */
const HEADS_OF_ONE = 1 / 16;
const GRACE_MS = 1_000;

interface Connection {
  /** The accepted socket, below TLS. */
  readonly socket: Socket;
  readonly address: Address;
  beganMs: number;
  order: number;
  /** The socket of HTTP; none during TLS negotiation. */
  http?: Socket;
  /** The current response; null between requests, undefined before the first one. */
  response: ServerResponse | null | undefined;
  readonly queue: { readonly response: ServerResponse; readonly answer: RequestListener }[];
  unread?: IncomingMessage | undefined;
  hasLastAnswer?: boolean;
}

/** A client address, or a connection of a trusted proxy. */
interface Address {
  readonly name: unknown;
  open: number;
  unused: number;
}

function createConnectionTable(clock: Pick<Clock, 'now'>, limit: () => number) {
  const open = new Set<Connection>();
  const addresses = new Map<unknown, Address>();
  let order = 0;
  const isYoung = ({ beganMs }: Connection) => clock.now() - beganMs < GRACE_MS;

  function findUnused(): Connection | undefined {
    let found: Connection | undefined;
    for (const connection of open) {
      if (!isUnused(connection)) continue;
      const { address, order: used } = connection;
      const more = address.unused - (found?.address.unused ?? 0);
      if (more < 0 || (more === 0 && used > (found?.order ?? 0))) continue;
      if (address.unused > 1 || !isHeadless(connection) || !isYoung(connection)) found = connection;
    }
    return found;
  }

  /** Finds one that waits for its client: the newest of the address with most of them. */
  function findStalled(name: unknown): Connection | undefined {
    const own = addresses.get(name);
    const counts = new Map([[own, 1]]);
    let found: Connection | undefined;
    for (const connection of open) {
      const { address, response } = connection;
      const isStalled = response?.req.complete === false || isSending(connection);
      if (!isStalled || isYoung(connection)) continue;
      const count = (counts.get(address) ?? 0) + 1;
      counts.set(address, count);
      if (found === undefined || count >= (counts.get(found.address) ?? 0)) found = connection;
    }
    return found;
  }

  return {
    open,
    findUnused,
    findStalled,
    add(socket: Socket, name: unknown): Connection {
      const address = addresses.get(name) ?? { name, open: 0, unused: 0 };
      addresses.set(name, address);
      address.open += 1;
      address.unused += 1;
      order += 1;
      const fresh = { beganMs: clock.now(), order, response: undefined, queue: [] };
      const connection: Connection = { socket, address, ...fresh };
      open.add(connection);
      return connection;
    },
    forget(connection: Connection): void {
      if (!open.delete(connection)) return;
      const { address } = connection;
      if (isUnused(connection)) address.unused -= 1;
      address.open -= 1;
      if (address.open === 0) addresses.delete(address.name);
    },
    noteUse(connection: Connection): void {
      if (open.has(connection)) connection.address.unused -= 1;
    },
    noteEnd(connection: Connection): void {
      connection.response = null;
      order += 1;
      connection.order = order;
      if (open.has(connection)) connection.address.unused += 1;
    },
    /** Finds the oldest connections without a whole head, if an address has too many. */
    headlessBeyond(address: Address): readonly Connection[] {
      const most = Math.ceil(limit() * HEADS_OF_ONE);
      if (address.unused <= most) return [];
      const headless = [...open].filter((one) => one.address === address && isHeadless(one));
      const beyond = headless.slice(0, -most);
      const young = beyond.findIndex(isYoung);
      return young < 0 ? beyond : beyond.slice(0, young);
    },
  };
}
type ConnectionTable = ReturnType<typeof createConnectionTable>;

const isHeadless = ({ response }: Connection): boolean => response === undefined;
const isUnused = ({ response }: Connection): boolean => response == null;
const isSending = ({ http }: Connection): boolean => http !== undefined && http.writableLength > 0;
