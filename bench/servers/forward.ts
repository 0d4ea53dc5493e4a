/**
 * `node forward.ts PORT ENGINE_PORT`: a server on node:http that reads the body of each request, sends it on by undici
 * and hands the answer back as it comes.
 */

import { createServer, type ServerResponse } from 'node:http';
import { Pool } from 'undici';

const [port = '0', engine = '0'] = process.argv.slice(2);
const pool = new Pool(`http://127.0.0.1:${engine}`, { connections: 64 });

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    void forward(Buffer.concat(chunks), request.headers, response);
  });
}).listen(Number(port), '127.0.0.1');

async function forward(
  body: Buffer,
  headers: { 'content-type'?: string | undefined; soapaction?: string | string[] | undefined },
  response: ServerResponse,
): Promise<void> {
  try {
    await pool.stream(
      {
        path: '/xmla',
        method: 'POST',
        headers: { 'content-type': headers['content-type'], soapaction: headers.soapaction },
        body,
      },
      ({ statusCode, headers: got }) => {
        response.writeHead(statusCode, {
          'content-type': String(got['content-type']),
          'content-length': String(got['content-length']),
        });
        return response;
      },
    );
  } catch (error) {
    response.destroy(error instanceof Error ? error : undefined);
  }
}
