import type { ClientRequest } from 'node:http';
import type { Socket } from 'node:net';

/** The upstream did not take the connection in time. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection';
}

/** Whether the connection of a request was made. */
export interface ConnectionWatch {
  /**
   * True when a connection was begun and not made, with TLS where it is encrypted. Then nothing of the request
   * has left this process, whatever the error is: bytes wait until the connection stands.
   */
  failed(): boolean;
  /** True when it was made, so that something of the request may have been sent. */
  made(): boolean;
}

/**
 * @param limit milliseconds for making the connection; undefined for no limit of its own
 */
export function watchConnection(request: ClientRequest, limit?: number): ConnectionWatch {
  let state: 'none' | 'begun' | 'made' = 'none';
  const waiting =
    limit === undefined
      ? undefined
      : setTimeout(() => request.destroy(new NoConnection('no connection in time')), limit);
  if (waiting !== undefined) request.once('close', () => clearTimeout(waiting));

  function made(): void {
    state = 'made';
    clearTimeout(waiting);
  }

  function follow(socket: Socket): void {
    if (request.reusedSocket) return made();
    state = 'begun';
    socket.once('encrypted' in socket ? 'secureConnect' : 'connect', made);
  }

  // Who watches in a listener of the event `socket` comes too late for it.
  if (request.socket) follow(request.socket);
  else request.once('socket', follow);
  return { failed: () => state === 'begun', made: () => state === 'made' };
}
