import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** For how long (ms) a client may go on sending that was answered already and is to be closed … */
const LONGEST = 10_000;
/** … and while the server closes. */
const SHORTEST = 1_000;

/**
 * Closes connections behind answers that did not wait for the whole request. Node.js closes at once; the system then
 * resets the connection, and the reset makes most clients drop the answer that they have not read (RFC 9112 section
 * 9.6). Here what still comes is read and dropped first.
 */
export interface LingeringClose {
  /** Looks at an exchange that begins. */
  follow(request: IncomingMessage, response: ServerResponse): void;
  /** Whether the connection has had its last answer: requests behind it are not carried out (RFC 9112 section 9.6). */
  isOver(socket: Socket): boolean;
  /** From now on little time is given, also to those that were answered and may keep their connection. */
  hurry(): void;
}

export function createLingeringClose(
  { longest, shortest } = { longest: LONGEST, shortest: SHORTEST },
): LingeringClose {
  let rest = longest;
  /** Connections whose request was answered and is still being sent, with the timer that ends them. */
  const unfinished = new Map<Socket, NodeJS.Timeout | undefined>();
  const watched = new WeakSet<Socket>();
  const over = new Set<Socket>();

  function follow(request: IncomingMessage, response: ServerResponse): void {
    // Before Node.js hears of it, which closes then.
    response.prependOnceListener('finish', () => {
      if (!request.complete && !request.destroyed) linger(request);
    });
  }

  function linger(request: IncomingMessage): void {
    const { socket } = request;
    unfinished.set(socket, undefined);
    // Of an answered request Node.js does not say that its connection broke.
    const done = () => {
      request.off('close', done);
      socket.off('close', done);
      clearTimeout(unfinished.get(socket));
      unfinished.delete(socket);
      if (over.has(socket)) socket.destroySoon();
    };
    request.once('close', done);
    socket.once('close', done);
    watch(socket);
  }

  function watch(socket: Socket): void {
    if (watched.has(socket)) return;
    watched.add(socket);
    const close = socket.destroySoon.bind(socket);
    // What Node.js calls behind the last answer of a connection.
    socket.destroySoon = () => {
      if (!unfinished.has(socket)) return close();
      over.add(socket);
      socket.once('close', () => over.delete(socket));
      destroyAfter(rest, socket);
    };
  }

  function destroyAfter(milliseconds: number, socket: Socket): void {
    clearTimeout(unfinished.get(socket));
    unfinished.set(
      socket,
      setTimeout(() => socket.destroy(), milliseconds),
    );
  }

  return {
    follow,
    isOver: (socket) => over.has(socket),
    hurry() {
      rest = shortest;
      for (const socket of unfinished.keys()) destroyAfter(rest, socket);
    },
  };
}
