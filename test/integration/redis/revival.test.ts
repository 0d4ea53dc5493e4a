import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { connectRedis, type RedisConnections } from '../../../src/redis/redis-connections.ts';
import { startFakeSentinel, type FakeSentinel } from '../../support/fake-sentinel.ts';
import { until } from '../../support/http-client.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';

const LONG = 30_000;

let master: RedisServer;
let sentinel: FakeSentinel;
let connections: RedisConnections;
/** The connections of one gateway. */
const ALL = 4;

beforeEach(async () => {
  master = await startRedis();
  sentinel = await startFakeSentinel(master.port);
  const url = [`redis://127.0.0.1:${sentinel.port}`];
  connections = connectRedis({ url, mode: 'sentinel', master: 'm' }, () => {});
  await connections.settled(LONG);
  await until(() => sentinel.listeners() === ALL);
});
afterEach(async () => {
  await connections.close();
  await sentinel.close();
  await master.close();
});

/** The clients have lost their master and ask where it is now. */
async function asksAgain(): Promise<() => void> {
  const release = sentinel.hold();
  const before = sentinel.asked();
  for (const type of ['normal', 'pubsub']) {
    await askRedis(master.port, `CLIENT KILL TYPE ${type} SKIPME yes`);
  }
  await until(() => sentinel.asked() === before + ALL);
  return release;
}

const ended = () => {
  const { reader, writer, epochs, subscriber } = connections;
  return [reader, writer, epochs, subscriber].every(({ status }) => status === 'end');
};

test('a client that hears of a new master while it asks where the master is connects all the same', async () => {
  const release = await asksAgain();
  await sentinel.tellSwitch();
  release();
  await connections.settled(LONG);
  expect(connections.ready()).toBe(true);
  expect(await connections.writer.ping()).toBe('PONG');
  // They listen for the next one, too.
  await until(() => sentinel.listeners() === ALL);
});

test('a client that is closed while it asks where the master is asks no more', async () => {
  const release = await asksAgain();
  await connections.close();
  release();
  await until(() => ended());
  const asked = sentinel.asked();
  await delay(500);
  expect([ended(), sentinel.asked()]).toEqual([true, asked]);
});

test('a client that is closed before it connects again asks no more', async () => {
  const release = await asksAgain();
  await sentinel.tellSwitch();
  release();
  await until(() => ended());
  await connections.close();
  const asked = sentinel.asked();
  await delay(500);
  expect([ended(), sentinel.asked()]).toEqual([true, asked]);
});
