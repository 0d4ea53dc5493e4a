/*
 * An engine that answers every question at the length that it names, in a process of its own. Prints its port.
 */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { largeAnswer, questionOf } from './large-answer.ts';

async function answer(question: string, response: ServerResponse): Promise<void> {
  const { length, pieces } = largeAnswer(question);
  // With a length, so that the gateway may refuse to keep it by its head.
  response.writeHead(200, { 'content-type': 'text/xml', 'content-length': length });
  await pipeline(Readable.from(pieces(), { objectMode: false }), response);
}

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (text: string) => (body += text));
  request.on('end', () => {
    const question = questionOf(body);
    if (question === undefined) response.writeHead(500).end();
    else answer(question, response).catch(() => response.destroy());
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
