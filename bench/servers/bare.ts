/**
 * The limit: `node bare.ts PORT SIZE [gzip]`. A server on node:http alone that reads the body of each request and answers
 * with one buffer.
 */

import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';
import { ANSWER_TYPE, datasetOf, wholeAnswer } from '../answers.ts';

const [port = '0', size = '2048', coding] = process.argv.slice(2);
const plain = wholeAnswer(datasetOf(Number(size)));
const body = coding === 'gzip' ? gzipSync(plain) : plain;
const headers = {
  'Content-Type': ANSWER_TYPE,
  'Content-Length': body.length,
  ...(coding === 'gzip' && { 'Content-Encoding': 'gzip' }),
};

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    Buffer.concat(chunks);
    response.writeHead(200, headers);
    response.end(body);
  });
}).listen(Number(port), '127.0.0.1');
