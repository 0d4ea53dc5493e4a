import type { ServerResponse } from 'node:http';

/** A success in the envelope of the interface document §2.2. */
export function sendData(response: ServerResponse, data: unknown): void {
  sendValue(response, { status: 0, data });
}

/** JSON without envelope, as the list of datasets is. The answer to HEAD has the head of that to GET (RFC 9110 §9.3.2). */
export function sendValue(response: ServerResponse, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  sendJsonHead(response, body.length);
  response.end(response.req.method === 'HEAD' ? undefined : body);
}

/** @param length bytes of the body that follows, or would follow if it were not HEAD */
export function sendJsonHead(response: ServerResponse, length: number): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': length,
    'cache-control': 'no-store',
  });
}
