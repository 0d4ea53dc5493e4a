import { expect, test } from '@jest/globals';
import { Command, type Redis } from 'ioredis';
import { Socket } from 'node:net';
import { gatherWrites } from '../../../src/redis/gathered-writes.ts';

function connection(status: Redis['status']) {
  const sent: string[] = [];
  const stream = new Socket();
  const redis = {
    status,
    stream,
    sendCommand: (command: Command): unknown => sent.push(command.name),
  };
  gatherWrites(redis);
  return { redis, sent, stream, send: (name: string) => redis.sendCommand(new Command(name)) };
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

test('what is asked in one turn is sent together when the turn is over, in its order', async () => {
  const { send, sent, stream } = connection('ready');
  for (let round = 0; round < 2; round += 1) {
    for (const name of ['get', 'mget', 'ping']) send(name);
    expect(stream.writableCorked).toBe(1);
    await nextTurn();
    expect(stream.writableCorked).toBe(0);
  }
  expect(sent).toEqual(['get', 'mget', 'ping', 'get', 'mget', 'ping']);
});

test('of what many ask in one turn the first eight are sent when they are eight', async () => {
  const { send, stream } = connection('ready');
  let writes = 0;
  stream.uncork = () => {
    writes += 1;
    Socket.prototype.uncork.call(stream);
  };
  for (let round = 1; round <= 2; round += 1) {
    for (let asked = 0; asked < 7; asked += 1) send('get');
    expect([writes, stream.writableCorked]).toEqual([(round - 1) * 3, 1]);
    send('get');
    expect([writes, stream.writableCorked]).toEqual([(round - 1) * 3 + 1, 1]);
    for (let asked = 0; asked < 8; asked += 1) send('get');
    expect(writes).toBe((round - 1) * 3 + 2);
    await nextTurn();
    expect([writes, stream.writableCorked]).toEqual([round * 3, 0]);
  }
});

test('a connection that was replaced in between holds nothing back', async () => {
  const { redis, send, stream } = connection('ready');
  send('get');
  redis.stream = new Socket();
  for (let asked = 0; asked < 20; asked += 1) send('get');
  expect([stream.writableCorked, redis.stream.writableCorked]).toEqual([1, 0]);
  await nextTurn();
  send('get');
  expect([stream.writableCorked, redis.stream.writableCorked]).toEqual([0, 1]);
  await nextTurn();
  expect(redis.stream.writableCorked).toBe(0);
});

test('what is said before a connection can be used is sent at once', () => {
  const { send, stream } = connection('connect');
  send('auth');
  expect(stream.writableCorked).toBe(0);
});
