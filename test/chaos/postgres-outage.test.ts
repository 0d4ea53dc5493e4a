import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { StorageUnavailable } from '../../src/common/errors.ts';
import type { RoleInput } from '../../src/roles/role.ts';
import type { Storage } from '../../src/storage/sql-storage.ts';
import { commitsWait, storageAt } from '../integration/storage/postgres-house.ts';
import { type BlackHole, startBlackHole } from '../support/black-hole.ts';
import { livedTime } from '../support/lived-time.ts';
import { type PostgresHouse, startPostgres } from '../support/postgres-server.ts';
import { sizes } from '../support/sizes.ts';
import { shared } from '../support/opened.ts';

/** What the program has as a default (ms). */
const DEFAULT_TIMEOUT = 1_500;
/** What an operation may take beside its timeout (ms): with the default it is promised to end within 2 s. */
const BESIDE = 500;

const server = shared(() => startPostgres());
let house: PostgresHouse;
let hole: BlackHole;
let storage: Storage;
let timeout: number;
let errors: unknown[];
let throughHole: string;

beforeEach(async () => {
  house = await server.house();
  hole = await startBlackHole(server.port);
  const url = new URL(house.url);
  url.port = String(hole.port);
  errors = [];
  throughHole = url.href;
  start(sizes.outageTimeout);
});
afterEach(async () => {
  await hole.set('forward');
  await storage.close();
  await hole.close();
});

function start(milliseconds: number): void {
  timeout = milliseconds;
  storage = storageAt(throughHole, { timeout }, (error) => errors.push(error));
}

const role = (name: string): RoleInput => ({ name, description: '', contains: [] });
const all = { offset: 0, limit: 10, nameContains: '' };
const large = {
  project: 'p',
  name: 'd',
  type: 'MDX',
  document: Buffer.alloc(3_000_000),
};

/** Every kind of operation. */
const operations: readonly (() => Promise<unknown>)[] = [
  () => storage.roles.create(role('a')),
  () => storage.roles.update(1, role('a')),
  () => storage.roles.remove(1),
  () => storage.roles.read(1),
  () => storage.roles.list(all),
  () => storage.roles.roleSet('ADMIN'),
  () => storage.roles.addMember(1, 'Admin', { type: 'user', name: 'u' }),
  () => storage.roles.removeMember(1, 'Admin', { type: 'user', name: 'ADMIN' }),
  () => storage.datasets.create(large),
  () => storage.datasets.update(large),
  () => storage.datasets.read('p', 'd'),
  () => storage.datasets.list('p'),
  () => storage.dump()[Symbol.asyncIterator]().next(),
];

async function settled(operation: () => Promise<unknown>): Promise<unknown> {
  const { result, lived } = await livedTime(() => operation().catch((error: unknown) => error));
  expect(lived).toBeLessThan(timeout + BESIDE);
  return result;
}

/** Every operation, all at one time, fails in time and has done nothing. */
async function expectUnavailable(): Promise<void> {
  const reachable = settled(() => storage.reachable());
  const results = await Promise.all(operations.map(settled));
  for (const result of results) {
    expect(result).toBeInstanceOf(StorageUnavailable);
    expect(result).toHaveProperty('outcome', 'nothing-done');
  }
  expect(await reachable).toBe(false);
}

/** The time of an operation is short here, and a busy machine may take it all; then nothing was done. */
async function whenDone<T>(operation: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await operation();
    } catch (error) {
      if (!(error instanceof StorageUnavailable) || error.outcome !== 'nothing-done') throw error;
    }
  }
}

async function expectUntouched(): Promise<void> {
  expect(await whenDone(() => storage.roles.list(all))).toMatchObject({ total: 1 });
  expect((await whenDone(() => storage.roles.read(1)))?.contains).toHaveLength(1);
  expect(await whenDone(() => storage.datasets.list('p'))).toEqual([]);
  while (!(await storage.reachable()));
  expect(await whenDone(() => storage.roles.create(role('next')))).toEqual({ id: 2 });
}

/** Connections that were used and wait in the pool. */
async function fillPool(): Promise<void> {
  await whenDone(() => storage.open());
  // Those that could not be made in time are not there.
  do await Promise.all(Array.from({ length: 6 }, () => whenDone(() => storage.roles.read(1))));
  while (hole.connections <= 2);
}

const POOLED = 'with connections in the pool';
const STATES = sizes.outagesFromTheStart ? ['from the start', POOLED] : [POOLED];

describe.each(STATES)('%s', (state) => {
  beforeEach(async () => {
    if (state === POOLED) await fillPool();
  });

  test('a server that is stopped makes all operations fail in time, and is used when it is back', async () => {
    await server.stop();
    try {
      await expectUnavailable();
    } finally {
      await server.restart();
    }
    await expectUntouched();
  });

  test('a server that stands still makes all operations fail in time, and is used when it goes on', async () => {
    await server.pause();
    try {
      await expectUnavailable();
    } finally {
      server.resume();
    }
    await expectUntouched();
  });

  test.each(['hang', 'mute', 'refuse'] as const)(
    'a network that is in mode %s makes all operations fail in time, and is used when it is back',
    async (mode) => {
      await hole.set(mode);
      await expectUnavailable();
      await hole.set('forward');
      await expectUntouched();
    },
  );
});

test('with the default timeout all operations end within 2 s', async () => {
  start(DEFAULT_TIMEOUT);
  await fillPool();
  await server.pause();
  try {
    await expectUnavailable();
  } finally {
    server.resume();
  }
  await expectUntouched();
});

test('a start finds that the server is away, and needs no other start when it is back', async () => {
  await hole.set('refuse');
  await expect(storage.open()).rejects.toMatchObject({
    name: 'StorageUnavailable',
    outcome: 'nothing-done',
  });
  await hole.set('forward');
  expect(await whenDone(() => storage.roles.read(1))).toMatchObject({ name: 'Admin' });
});

/** Tells clients that the server is gone when they speak to it, as a network does that forgot a connection. */
async function startForgetful(target: number): Promise<{ port: number; close: () => void }> {
  const front = createServer((client) => {
    const behind = connect(target, '127.0.0.1');
    client.pipe(behind, { end: false });
    behind.pipe(client, { end: false });
    for (const socket of [client, behind]) socket.on('error', () => socket.destroy());
    behind.once('close', () => client.once('data', () => client.resetAndDestroy()).resume());
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const { port } = front.address() as AddressInfo;
  return { port, close: () => front.close() };
}

test('connections that broke while nobody looked are replaced unnoticed', async () => {
  const front = await startForgetful(server.port);
  const url = new URL(house.url);
  url.port = String(front.port);
  const other = storageAt(url.href);
  await other.open();
  const read = () => Promise.all(Array.from({ length: 12 }, () => other.roles.read(1)));
  await read();
  await server.restart('SIGKILL');
  const names = Array.from({ length: 12 }, (_, i) => `role ${i}`);
  const results = await Promise.all(names.map((name) => other.roles.create(role(name))));
  expect(results).toEqual(names.map(() => ({ id: expect.any(Number) })));
  await read();
  await server.restart('SIGKILL');
  await expect(read()).resolves.toHaveLength(12);
  await other.close();
  front.close();
});

test('a connection that the server ends while it is idle is told, and missed by nobody', async () => {
  await fillPool();
  await server.ask(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${house.name}'`,
  );
  const alive = `SELECT 1 FROM pg_stat_activity WHERE usename = '${house.name}'`;
  while ((await server.ask(alive)).length > 0) await sleep(10);
  expect(await whenDone(() => storage.roles.create(role('a')))).toEqual({ id: 2 });
  while (errors.length === 0) await sleep(10);
  await storage.close();
  expect(String(errors[0])).toMatch(/idle connection to PostgreSQL was lost/);
});

/** Holds a lock until the function that it resolves to is called. */
async function lock(statement: string): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: house.url });
  await client.connect();
  await client.query(`BEGIN; ${statement}`);
  return () => client.end();
}

test('whoever waits for a lock fails in time with nothing done, and so does who waits for a place', async () => {
  await whenDone(() => storage.open());
  const release = await lock('SELECT FROM mdx_gateway_counters FOR UPDATE');
  const names = Array.from({ length: 25 }, (_, i) => `role ${i}`);
  const results = await Promise.all(
    names.map((name) => settled(() => storage.roles.create(role(name)))),
  );
  await release();
  for (const result of results) expect(result).toHaveProperty('outcome', 'nothing-done');
  await expectUntouched();
});

test('a commit whose answer does not come has an unknown outcome', async () => {
  await whenDone(() => storage.open());
  // The server then does what it is asked, and waits for a standby that there is not before it says so.
  await server.ask(`ALTER SYSTEM SET synchronous_standby_names = 'none'`);
  await storage.close();
  await server.ask('SELECT pg_reload_conf()');
  await commitsWait(server);
  start(sizes.outageTimeout);
  try {
    const create = async () => {
      const result = await settled(() => storage.roles.create(role('a')));
      expect(result).toBeInstanceOf(StorageUnavailable);
      throw result;
    };
    await expect(whenDone(create)).rejects.toMatchObject({ outcome: 'unknown' });
  } finally {
    await server.ask('ALTER SYSTEM RESET synchronous_standby_names');
    await server.ask('SELECT pg_reload_conf()');
  }
  // It can be seen as soon as the server has noticed that it waits for nobody any more.
  const list = () => storage.roles.list({ ...all, nameContains: 'a' });
  const total = async () => (await whenDone(list)).total;
  while ((await total()) !== 2) await sleep(10);
});

test('a document on its way is not held to the time of a role, but to some time', async () => {
  await whenDone(() => storage.open());
  expect(await whenDone(() => storage.datasets.create(large))).toEqual({ id: 1 });
  await hole.set('hang');
  await expect(settled(() => storage.datasets.read('p', 'd'))).resolves.toMatchObject({
    outcome: 'nothing-done',
  });
});

test('a storage whose network hangs can be closed', async () => {
  await fillPool();
  await hole.set('hang');
  const operation = storage.roles.read(1).catch((error: unknown) => error);
  await storage.close();
  expect(await operation).toBeInstanceOf(StorageUnavailable);
});
