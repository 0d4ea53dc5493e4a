import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { sendJsonHead } from './send-json.ts';

/** Bytes. What is encrypted and copied for one of them keeps no other request waiting. */
const PIECE = 64 * 1024;
/** In each of these a reader must take one piece (ms), beside what the connection holds anyway. */
const WINDOW = 10_000;

/**
 * Sends a document and resolves when the connection has taken all of it: so long it is held. A connection that takes
 * less than one piece in a window is broken off, also while it takes another answer before this one, or waits for it.
 * @throws GatewayError `client-gone`
 */
export async function sendDocument(response: ServerResponse, document: Buffer): Promise<void> {
  sendJsonHead(response, document.length);
  if (response.req.method !== 'HEAD') await sendPieces(response, document);
  response.end();
}

async function sendPieces(response: ServerResponse, document: Buffer): Promise<void> {
  const { socket } = response.req;
  // It counts a piece when that is handed to the connection, which is when the one before it was taken.
  let before = socket.bytesWritten;
  const pace = setInterval(() => {
    if (socket.bytesWritten === before) response.destroy();
    before = socket.bytesWritten;
  }, WINDOW);
  try {
    for (let from = 0; from < document.length; from += PIECE) {
      await taken(response, document.subarray(from, from + PIECE));
    }
  } finally {
    clearInterval(pace);
  }
}

function taken(response: ServerResponse, piece: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const gone = () => finish(new GatewayError('client-gone', 'The client does not read on.'));
    function finish(failure?: Error): void {
      response.off('close', gone);
      if (failure === undefined) resolve();
      else reject(failure);
    }
    response.once('close', gone);
    response.write(piece, (error) => (error ? gone() : finish()));
  });
}
