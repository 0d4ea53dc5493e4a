import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { createOwnTurns, understand } from '../../../src/line/understand.ts';
import { AROUND } from '../../support/hostile-bodies.ts';

const HEADERS = { 'content-type': 'text/xml' };
const body = (bytes: number) => Buffer.from(AROUND.statement('x'.repeat(bytes)));
const ownTurn = createOwnTurns();
const read = (bytes: number) =>
  understand(
    HEADERS,
    body(bytes),
    {
      ...{ traits: { forwardedDiscovers: [] }, settings: { headers: [] } },
      ...{ engine: { id: '' }, addressee: { query: [] } },
    } as never,
    ownTurn,
  );

test('others are answered between long bodies that come at once', async () => {
  const server = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  await once(client, 'connect');
  let readings = 0;
  const all = Array.from({ length: 50 }, () => read(100_000).then(() => (readings += 1)));
  client.write('x');
  await once(client, 'data');
  expect(readings).toBeLessThan(25);
  await Promise.all(all);
  expect(readings).toBe(50);
  client.destroy();
  server.close();
});

test('a short body waits for no turn', async () => {
  const order: string[] = [];
  setImmediate(() => order.push('turn'));
  await read(1_000).then(() => order.push('short'));
  await read(100_000).then(() => order.push('long'));
  expect(order).toEqual(['short', 'turn', 'long']);
});
