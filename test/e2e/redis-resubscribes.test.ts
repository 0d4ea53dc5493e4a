import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { send, until } from '../support/http-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';

/** So often the connection is lost on which the gateway has just subscribed. */
const LOSSES = 3;
/** The command by which it hears of purges. */
const SUBSCRIBE = /\r\nsubscribe\r\n\$\d+\r\n\{mdx\}:2:forget\r\n/iu;

let redis: RedisServer;
let folder: ConfigFolder;
let running: GatewayProcess | undefined;
let server: Server;
let sockets: Socket[] = [];
/** Connections on which the gateway has subscribed. */
let subscribers = 0;

beforeEach(async () => {
  redis = await startRedis();
  folder = await configFolder();
  subscribers = 0;
  server = createServer((client) => {
    const target = connect(redis.port, '127.0.0.1');
    sockets.push(client, target);
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
    target.pipe(client);
    let subscribes = false;
    client.on('data', (bytes: Buffer) => {
      if (!subscribes && SUBSCRIBE.test(bytes.toString('latin1'))) {
        subscribes = true;
        subscribers += 1;
        // The first one gets through, and is lost later; of the next ones the answer is lost.
        if (subscribers > 1 && subscribers <= 1 + LOSSES) return void client.destroy();
      }
      target.write(bytes);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
});
afterEach(async () => {
  running?.kill('SIGKILL');
  await running?.ended;
  running = undefined;
  for (const socket of sockets) socket.destroy();
  sockets = [];
  server.close();
  folder.remove();
  await redis?.close();
});

test('a connection to Redis that is lost while the gateway subscribes anew does not end the gateway', async () => {
  const { port } = server.address() as AddressInfo;
  const file = folder.write({ cache: { redis: { url: `redis://127.0.0.1:${port}` } } });
  running = runMain(['serve', '--config', file]);
  let ended = '';
  void running.ended.then(({ stderr }) => (ended = `ended: ${stderr}`));
  const url = await listening(running);
  await until(() => subscribers === 1 || ended !== '');
  for (const socket of sockets.splice(0)) socket.destroy();
  await until(() => subscribers > 1 + LOSSES || ended !== '');
  expect(ended).toBe('');
  expect((await send(url, { path: '/health/live' })).status).toBe(200);
});
