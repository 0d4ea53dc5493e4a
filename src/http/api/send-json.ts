import type { ServerResponse } from 'node:http';

/** A success in the envelope of the interface document §2.2. */
export function sendData(response: ServerResponse, data: unknown): void {
  sendValue(response, { status: 0, data });
}

/** JSON without envelope, as the list of datasets is. */
export function sendValue(response: ServerResponse, value: unknown): void {
  sendJsonBytes(response, Buffer.from(JSON.stringify(value)));
}

/** Bytes that are JSON already. The answer to HEAD has the head of the answer to GET (RFC 9110 §9.3.2). */
export function sendJsonBytes(response: ServerResponse, body: Buffer): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': body.length,
    'cache-control': 'no-store',
  });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}
