import type { ClientRequest, IncomingMessage } from 'node:http';
import { ClientStall, EngineSilence } from './engine-failure.ts';

/**
 * Ends a request when the engine is silent for too long: from now to the head of its answer, and then between
 * two bytes of it. The wait for the head is measured by a timer of its own, because the timeout of a socket
 * does not run, or runs twice, while the connection is being made.
 * @param limit milliseconds
 */
export function endOnSilence(request: ClientRequest, limit: number): void {
  const waiting = setTimeout(() => request.destroy(new EngineSilence()), limit);
  request.once('close', () => clearTimeout(waiting));
  request.once('response', (answer: IncomingMessage) => {
    clearTimeout(waiting);
    const { socket } = answer;
    const end = () => {
      // What the engine sent still lies here: it is the client who does not go on.
      const unread = answer.readableLength > 0;
      answer.destroy(unread ? new ClientStall() : new EngineSilence());
    };
    socket.setTimeout(limit);
    socket.once('timeout', end);
    answer.once('close', () => socket.off('timeout', end));
  });
}
