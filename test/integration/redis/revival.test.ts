import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { setTimeout as delay } from 'node:timers/promises';
import {
  isReady,
  redisClients,
  whenReady,
  type RedisClients,
} from '../../../src/redis/redis-connections.ts';
import { startFakeSentinel, type FakeSentinel } from '../../support/fake-sentinel.ts';
import { until } from '../../support/http-client.ts';
import { askRedis, startRedis, type RedisServer } from '../../support/redis-server.ts';

const LONG = 30_000;

let master: RedisServer;
let sentinel: FakeSentinel;
let clients: RedisClients;
let client: Redis;

beforeEach(async () => {
  master = await startRedis();
  sentinel = await startFakeSentinel(master.port);
  const url = [`redis://127.0.0.1:${sentinel.port}`];
  clients = redisClients({ url, mode: 'sentinel', master: 'm' }, () => {});
  client = clients.client('reader', LONG) as Redis;
  await whenReady(client, AbortSignal.timeout(LONG));
  await until(() => sentinel.listeners() === 1);
});
afterEach(async () => {
  clients.close();
  await sentinel.close();
  await master.close();
});

/** The client has lost its master and asks where it is now. */
async function asksAgain(): Promise<() => void> {
  const release = sentinel.hold();
  const before = sentinel.asked();
  await askRedis(master.port, 'CLIENT KILL TYPE normal SKIPME yes');
  await until(() => sentinel.asked() > before);
  return release;
}

test('a client that hears of a new master while it asks where the master is connects all the same', async () => {
  const release = await asksAgain();
  await sentinel.tellSwitch();
  release();
  await whenReady(client, AbortSignal.timeout(LONG));
  expect(isReady(client)).toBe(true);
  expect(await client.ping()).toBe('PONG');
  // It listens for the next one, too.
  await until(() => sentinel.listeners() === 1);
});

test('a client that is closed while it asks where the master is asks no more', async () => {
  const release = await asksAgain();
  clients.close();
  release();
  await until(() => client.status === 'end');
  const asked = sentinel.asked();
  await delay(500);
  expect([client.status, sentinel.asked()]).toEqual(['end', asked]);
});

test('a client that is closed before it connects again asks no more', async () => {
  const release = await asksAgain();
  await sentinel.tellSwitch();
  release();
  await until(() => client.status === 'end');
  clients.close();
  const asked = sentinel.asked();
  await delay(500);
  expect([client.status, sentinel.asked()]).toEqual(['end', asked]);
});
