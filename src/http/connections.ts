import type { Server, ServerResponse } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { clientNetwork } from '../auth/client-network.ts';
import type { Clock } from '../clock.ts';
import type { ConnectionClosing, Emit } from '../events.ts';

/** More headers are too many. */
export const MAX_HEADERS = 200;
/** This part of the limit may be connections of one client address that have not had a whole head … */
const HEADS_OF_ONE = 1 / 16;
/** … for longer than this (ms): a crowd that comes at once from behind one address needs a moment, as does a body. */
const GRACE = 1_000;
/** One search finds this part of the limit, so that it need not be made for each new connection. */
const FOUND_AT_ONCE = 1 / 16;
/** The log is told this often (ms). */
const TELLING = 60_000;
/** For how long a client may go on sending behind the refusal of its head (ms), so that it can read that. */
const LINGERING = 2_000;

/**
 * The open connections of a server, never more than the limit: each may take memory before its client has logged in.
 *
 * At the limit one that carries no request makes room for a new one: of the client address that has most of them the
 * one that was not used for longest, so that those who hold many lose theirs first, be their heads unfinished or their
 * connections idle. One without its first head is spared for a moment, unless its address has several. Where all carry
 * requests, one that waits for its client makes room, so that one login cannot shut out all others; where none waits,
 * the new one is closed. What comes from a trusted proxy counts as if each
 * connection had another address, since there are many clients behind it.
 *
 * Its work is with connections; with a request it only notes that there is one.
 */
export interface Connections {
  /** Told of each request as soon as its head is whole. */
  begin(socket: Socket, response: ServerResponse): void;
  /** Whether some client has not yet taken all that was sent to it. */
  isSending(): boolean;
  usage(): { readonly open: number; readonly limit: number };
}

interface Connection {
  /** As it was accepted: below TLS. */
  readonly socket: Socket;
  /** Undefined for a trusted proxy. */
  readonly client: string | undefined;
  /** When it was opened, or its latest request began. */
  began: number;
  /** Where HTTP is spoken; undefined while TLS is negotiated. */
  http: Socket | undefined;
  /** To the latest request, until it is over: what it holds must not stay in memory. Undefined before the first one. */
  response: ServerResponse | null | undefined;
  /** Larger than that of every connection whose use began or ended before. */
  turn: number;
}

export function createConnections(
  server: Server | HttpsServer,
  options: {
    /** The most that are open; asked each time, since a reload may change it. */
    limit: () => number;
    /** Whether an address is that of a trusted proxy. */
    isTrusted: (address: string) => boolean;
    clock: Pick<Clock, 'now'>;
    emit: Emit;
  },
): Connections {
  const { limit, isTrusted, clock, emit } = options;
  const isSecure = 'setSecureContext' in server;
  const open = new Set<Connection>();
  const bySocket = new WeakMap<Socket, Connection>();
  /** By both ends, while TLS is negotiated: Node.js does not tell on which socket a secure one stands. */
  const negotiating = new Map<string, Connection>();
  /** Those that have not had a whole head, by client address, the oldest first. */
  const headless = new Map<string, Set<Connection>>();
  const refused = new WeakSet<Socket>();
  let turns = 0;
  /** What a search found: the next to go is the last one, unless it was used since. */
  let unused: { readonly connection: Connection; readonly turn: number }[] = [];
  const untold: Record<ConnectionClosing, number> = { limit: 0, stalled: 0, address: 0, busy: 0 };
  let lastTold = -Infinity;

  server.on('connection', admit);
  if (isSecure) server.on('secureConnection', startHttp);
  server.on('clientError', refuse);

  function admit(socket: Socket): void {
    const { remoteAddress = '' } = socket;
    const client = isTrusted(remoteAddress) ? undefined : clientNetwork(remoteAddress);
    while (open.size >= limit()) {
      const unusedOne = findUnused();
      const other = unusedOne ?? findStalled(client);
      if (other === undefined) return close(socket, 'busy');
      close(other.socket, unusedOne === undefined ? 'stalled' : 'limit');
      forget(other);
    }
    const connection: Connection = {
      socket,
      client,
      began: clock.now(),
      http: isSecure ? undefined : socket,
      response: undefined,
      turn: (turns += 1),
    };
    open.add(connection);
    bySocket.set(socket, connection);
    const ends = endsOf(socket);
    if (isSecure) negotiating.set(ends, connection);
    socket.once('close', () => {
      if (negotiating.get(ends) === connection) negotiating.delete(ends);
      forget(connection);
    });
    awaitHead(connection);
  }

  /** @param http the secure socket upon one that was admitted */
  function startHttp(http: Socket): void {
    const ends = endsOf(http);
    const connection = negotiating.get(ends);
    if (connection === undefined) return;
    negotiating.delete(ends);
    connection.http = http;
    bySocket.set(http, connection);
  }

  function awaitHead(connection: Connection): void {
    const { client } = connection;
    if (client === undefined) return;
    const waiting = headless.get(client) ?? new Set();
    headless.set(client, waiting.add(connection));
    const most = Math.ceil(limit() * HEADS_OF_ONE);
    for (const oldest of waiting) {
      if (waiting.size <= most || isYoung(oldest)) return;
      close(oldest.socket, 'address');
      forget(oldest);
    }
  }

  function endWait(connection: Connection): void {
    const { client = '' } = connection;
    const waiting = headless.get(client);
    waiting?.delete(connection);
    if (waiting?.size === 0) headless.delete(client);
  }

  function forget(connection: Connection): void {
    open.delete(connection);
    endWait(connection);
  }

  function findUnused(): Connection | undefined {
    for (const again of [false, true]) {
      if (again) unused = search();
      let last;
      while ((last = unused.pop()) !== undefined) {
        const { connection, turn } = last;
        if (open.has(connection) && connection.turn === turn) return connection;
      }
    }
    return undefined;
  }

  /** Of the address that has most of them, the newest; the new one counts with its address. */
  function findStalled(client: string | undefined): Connection | undefined {
    const counts = new Map([[client, 1]]);
    let found: Connection | undefined;
    let most = 0;
    for (const connection of open) {
      if (!isStalled(connection)) continue;
      const count = connection.client === undefined ? 1 : (counts.get(connection.client) ?? 0) + 1;
      counts.set(connection.client, count);
      if (count < most) continue;
      found = connection;
      most = count;
    }
    return found;
  }

  function isYoung({ began }: Connection): boolean {
    return clock.now() - began < GRACE;
  }

  function isAwaited(connection: Connection): boolean {
    return connection.response === undefined && isYoung(connection);
  }

  /** Whether its client has not sent its whole request, or not read what was answered. */
  function isStalled(connection: Connection): boolean {
    const { response, http } = connection;
    const isWaiting = response?.req.complete === false || (http?.writableLength ?? 0) > 0;
    return isWaiting && !isYoung(connection);
  }

  function search(): typeof unused {
    const counts = new Map<string, number>();
    return [...open]
      .filter(isUnused)
      .sort((one, other) => other.turn - one.turn)
      .map((connection) => {
        const { client, turn } = connection;
        // How many of its client were used later: the largest number is where most are, and there the longest unused.
        const later = client === undefined ? 0 : (counts.get(client) ?? 0);
        if (client !== undefined) counts.set(client, later + 1);
        return { connection, turn, later };
      })
      .filter(({ connection, later }) => later > 0 || !isAwaited(connection))
      .sort((one, other) => one.later - other.later || other.turn - one.turn)
      .slice(-Math.ceil(limit() * FOUND_AT_ONCE));
  }

  function close(socket: Socket, why: ConnectionClosing): void {
    socket.destroy();
    emit({ type: 'connection-closed', why });
    untold[why] += 1;
    if (clock.now() - lastTold < TELLING) return;
    lastTold = clock.now();
    const { limit: forNew, stalled, address, busy } = untold;
    Object.assign(untold, { limit: 0, stalled: 0, address: 0, busy: 0 });
    const message =
      `connections were closed: ${forNew} unused ones and ${stalled} that waited for their clients for new ones, and ${busy} new ones while all were busy, ` +
      `since limits.connections (${limit()}) are open; ${address} with an unfinished head, since their address has many`;
    emit({ type: 'warning', message });
  }

  /** Node.js asks for an answer to what is no request, or none in time. */
  function refuse(error: NodeJS.ErrnoException & { reason?: string }, http: Socket): void {
    if (refused.has(http)) return;
    refused.add(http);
    const answer = answerTo(error);
    const response = bySocket.get(http)?.response;
    const isAnswering = response?.headersSent === true;
    // To a client that has sent nothing the answer would be one to its next request.
    if (answer === undefined || isAnswering || !http.writable || http.bytesRead === 0) {
      http.destroy();
      return;
    }
    http.end(answer);
    const timer = setTimeout(() => http.destroy(), LINGERING);
    http.once('close', () => clearTimeout(timer));
  }

  /** One function for all: a closure for each request would cost more than all else here. */
  function end(this: ServerResponse): void {
    const connection = bySocket.get(this.req.socket);
    if (connection?.response !== this) return;
    connection.response = null;
    connection.turn = turns += 1;
  }

  return {
    begin(socket, response) {
      const connection = bySocket.get(socket);
      if (connection === undefined) return;
      if (connection.response === undefined) endWait(connection);
      connection.response = response;
      connection.began = clock.now();
      connection.turn = turns += 1;
      response.on('close', end);
    },
    isSending() {
      for (const { http } of open) if (http !== undefined && http.writableLength > 0) return true;
      return false;
    },
    usage: () => ({ open: open.size, limit: limit() }),
  };
}

function isUnused({ response }: Connection): boolean {
  return response === undefined || response === null;
}

function endsOf({ localAddress, remoteAddress, remotePort }: Socket): string {
  return `${localAddress} ${remoteAddress} ${remotePort}`;
}

const LONG_HEAD = `The head of the request is too long: it is larger than limits.head, or has more than ${MAX_HEADERS} headers.`;

/** The same answer to a head of which Node.js does not say that it has too many headers. */
export function refuseLongHead(response: ServerResponse): void {
  const text = `${LONG_HEAD}\n`;
  response.writeHead(431, {
    connection: 'close',
    'content-type': 'text/plain; charset=utf-8',
    'content-length': text.length,
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}

/** Undefined where no answer can arrive: the connection broke, or its TLS failed. */
function answerTo({ code = '', reason }: { code?: string; reason?: string }): string | undefined {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return answer('431 Request Header Fields Too Large', LONG_HEAD);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return answer('413 Payload Too Large', 'The chunk extensions of the body are too long.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return answer('408 Request Timeout', 'The request did not come in time.');
    default:
      if (!code.startsWith('HPE_')) return undefined;
      return answer('400 Bad Request', `The request is not valid HTTP/1.1: ${reason ?? code}.`);
  }
}

function answer(status: string, text: string): string {
  return [
    `HTTP/1.1 ${status}`,
    'Connection: close',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(text) + 1}`,
    '',
    `${text}\n`,
  ].join('\r\n');
}
