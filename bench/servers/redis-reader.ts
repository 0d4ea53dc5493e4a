/**
 * `node redis-reader.ts PORT REDIS_PORT KEYS SIZE`: a server on node:http that reads the body of each request and answers
 * with what one `getBuffer` brings, from one key after the other. It puts the values there itself.
 */

import { createServer } from 'node:http';
import { Redis } from 'ioredis';
import { ANSWER_TYPE, datasetOf, wholeAnswer } from '../answers.ts';

const [port = '0', redisPort = '0', keys = '1', size = '2048'] = process.argv.slice(2);
const redis = new Redis({ port: Number(redisPort), host: '127.0.0.1' });
const body = wholeAnswer(datasetOf(Number(size)));
const count = Number(keys);
for (let at = 0; at < count; at++) await redis.set(`bare:${at}`, body);

let next = 0;
createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    Buffer.concat(chunks);
    next = (next + 1) % count;
    redis.getBuffer(`bare:${next}`).then(
      (value) => {
        response.writeHead(200, {
          'Content-Type': ANSWER_TYPE,
          'Content-Length': value?.length ?? 0,
        });
        response.end(value);
      },
      () => response.destroy(),
    );
  });
}).listen(Number(port), '127.0.0.1');
