import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { sendJsonHead } from './send-json.ts';

/** Bytes. What is encrypted and copied for one of them keeps no other request waiting. */
const PIECE = 1024 * 1024;
/** How long a reader may take for one of them (ms), beside what the connection holds anyway. */
const LONGEST_SILENCE = 60_000;

/**
 * Sends a document and resolves when the connection has taken all of it: so long it is held. A reader that
 * does not go on is broken off.
 * @param silence how long it may take for one piece, in milliseconds
 * @throws GatewayError `client-gone`
 */
export async function sendDocument(
  response: ServerResponse,
  document: Buffer,
  silence = LONGEST_SILENCE,
): Promise<void> {
  sendJsonHead(response, document.length);
  if (response.req.method !== 'HEAD') {
    for (let from = 0; from < document.length; from += PIECE) {
      await taken(response, document.subarray(from, from + PIECE), silence);
    }
  }
  response.end();
}

function taken(response: ServerResponse, piece: Buffer, silence: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const gone = () => finish(new GatewayError('client-gone', 'The client does not read on.'));
    const timer = setTimeout(() => response.destroy(), silence);
    function finish(failure?: Error): void {
      clearTimeout(timer);
      response.off('close', gone);
      if (failure === undefined) resolve();
      else reject(failure);
    }
    response.once('close', gone);
    response.write(piece, (error) => (error ? gone() : finish()));
  });
}
