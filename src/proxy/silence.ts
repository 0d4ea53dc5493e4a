import type { ClientRequest, IncomingMessage } from 'node:http';
import { ClientStall } from './upstream-failure.ts';

/**
 * Ends a request when the upstream is silent for too long: from now to the head of its answer, and then between
 * two bytes of it. The wait for the head is measured by a timer of its own, because the timeout of a socket
 * does not run, or runs twice, while the connection is being made.
 * @param limit milliseconds
 * @param silence what the request is ended with
 */
export function endOnSilence(request: ClientRequest, limit: number, silence: () => Error): void {
  let late: NodeJS.Immediate | undefined;
  // Each time what has come while this process stood still is read first.
  const waiting = setTimeout(() => {
    late = setImmediate(() => request.destroy(silence()));
  }, limit);
  const stopWaiting = () => {
    clearTimeout(waiting);
    clearImmediate(late);
  };
  request.once('close', stopWaiting);
  request.once('response', (answer: IncomingMessage) => {
    stopWaiting();
    const { socket } = answer;
    const end = () => {
      // What the upstream sent still lies here: it is the client who does not go on.
      const unread = answer.readableLength > 0;
      answer.destroy(unread ? new ClientStall() : silence());
    };
    const endUnlessHeard = () => {
      const { bytesRead } = socket;
      late = setImmediate(() => {
        if (socket.bytesRead === bytesRead) end();
      });
    };
    socket.setTimeout(limit);
    socket.on('timeout', endUnlessHeard);
    answer.once('close', () => {
      clearImmediate(late);
      socket.off('timeout', endUnlessHeard);
    });
  });
}
