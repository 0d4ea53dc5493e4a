import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';

/** The last answer on each guarded connection; undefined as long as a request waits for its own. */
const answers = new WeakMap<Socket, IncomingMessage | undefined>();

/**
 * Keeps the connection of a request from being used again when that is not safe: HTTP/1.1 tells whose an answer is by
 * the order of answers alone, so that anything behind the last one would be taken for the answer to the next request.
 * Newer versions of node close a connection on which something comes while it is idle; that leaves the time before,
 * in which an answer that has come lies here unread.
 */
export function guardConnection(request: ClientRequest): void {
  if (request.socket) guard(request.socket);
  else request.once('socket', guard);
  request.once('response', (answer: IncomingMessage) => {
    const { socket } = answer;
    answers.set(socket, answer);
    answer.once('end', () => {
      // Answered before all of it was sent: the upstream may take the rest for another request, and answer that.
      if (!request.writableFinished) socket.destroy();
    });
  });
}

function guard(socket: Socket): void {
  const isGuarded = answers.has(socket);
  answers.set(socket, undefined);
  if (isGuarded) return;
  // Before node reads the piece, which is the last one of the answer when that is whole behind it.
  socket.prependListener('data', () => {
    if (answers.get(socket)?.complete === true) socket.destroy();
  });
}

/**
 * Resolves when all that had come before the call was read, so that no request goes out on a connection on which
 * something came that no request asked for.
 */
export async function readWhatCame(agent: Agent): Promise<void> {
  // The event loop may have looked for it before; behind the second turn it has looked again.
  for (let turn = 0; turn < 2; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (const socket of Object.values(agent.freeSockets).flat()) {
    // The agent drops a closed one only when its event `close` comes.
    if (socket?.destroyed === true) socket.emit('agentRemove');
  }
}
