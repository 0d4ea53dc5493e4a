import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Ends an answer that cannot be finished, so that nobody takes it for whole: in HTTP/1.1 the missing last
 * chunk or bytes show it; in HTTP/1.0 only a reset tells it from a normal end.
 */
export function breakOff(request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  if (request.httpVersion === '1.0' && !('encrypted' in socket)) socket.resetAndDestroy();
  else response.destroy();
}
