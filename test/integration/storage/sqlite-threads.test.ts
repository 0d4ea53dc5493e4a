import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Dataset } from '../../../src/datasets/dataset.ts';
import type { Storage } from '../../../src/storage/storage.ts';
import { sizes } from '../../support/sizes.ts';
import { sqliteHouse, type SqliteHouse } from './sqlite-house.ts';

let house: SqliteHouse;
beforeEach(() => {
  house = sqliteHouse();
});
afterEach(() => house.close());

const role = (name: string) => ({ name, description: '', contains: [] });
const dataset = (name: string, document: Buffer): Dataset => ({
  project: 'p',
  name,
  type: 'MDX',
  document,
});

/** Whoever holds the lock of the file, as another process would. */
function lockedBy(path: string): { release(): void } {
  const other = new DatabaseSync(path);
  other.exec('BEGIN IMMEDIATE');
  return {
    release() {
      if (other.isOpen) other.close();
    },
  };
}

describe('a thread that breaks down', () => {
  let workers: Worker[];
  /** Set: what the threads answer is lost, as if they had broken down before. */
  let silenced: boolean;
  let told: unknown[];
  let storage: Storage;
  beforeEach(async () => {
    workers = [];
    silenced = false;
    told = [];
    storage = house.storage({
      start(file, options) {
        const worker = new Worker(file, options);
        workers.push(worker);
        const emit = worker.emit.bind(worker);
        worker.emit = (event: string | symbol, ...args: unknown[]) =>
          (silenced && event === 'message') || emit(event, ...args);
        return worker;
      },
      onError: (error) => told.push(error),
    });
    await storage.open();
  });

  test('leaves what is under way unknown, and is replaced for the next call', async () => {
    silenced = true;
    const calls = [storage.roles.create(role('a')), storage.roles.create(role('b'))];
    const settled = Promise.allSettled(calls);
    await workers[0]?.terminate();
    for (const result of await settled) {
      expect(result).toMatchObject({
        status: 'rejected',
        reason: { reason: 'storage-unavailable', outcome: 'unknown' },
      });
    }
    expect(told).toEqual([]);
    silenced = false;
    expect(await storage.roles.create(role('c'))).toEqual({ id: expect.any(Number) });
    expect(workers).toHaveLength(2);
  });

  test('has changed nothing where it only read', async () => {
    silenced = true;
    const [read] = await Promise.allSettled([storage.roles.read(1), workers[0]?.terminate()]);
    expect(read).toMatchObject({ status: 'rejected', reason: { outcome: 'nothing-done' } });
    silenced = false;
    expect((await storage.roles.read(1))?.name).toBe('Admin');
  });

  test('while nobody waits for it is told of, and is replaced for the next call', async () => {
    await workers[0]?.terminate();
    await turn();
    expect(told).toEqual([new Error('the thread of the storage ended with code 1')]);
    expect(await storage.roles.create(role('a'))).toEqual({ id: 2 });
  });

  test('in the middle of a restore undoes it', async () => {
    const source = house.storage({ path: `${house.path}.source` });
    await source.roles.create(role('a'));
    await source.datasets.create(dataset('d', Buffer.from('{}')));
    async function* records() {
      for await (const record of source.dump()) {
        // Between two calls, so that the next one meets a new thread.
        if (record.kind === 'dataset') await workers.at(-1)?.terminate();
        yield record;
      }
    }
    await expect(storage.restore(records())).rejects.toMatchObject({ outcome: 'nothing-done' });
    expect((await storage.roles.list({ offset: 0, limit: 9, nameContains: '' })).total).toBe(1);
    expect(await storage.datasets.list('p')).toEqual([]);
  });

  test('does not keep the storage from closing', async () => {
    await workers[0]?.terminate();
    await storage.close();
  });
});

test('the event loop turns on while a large document is copied, written and read', async () => {
  let turns = 0;
  let turnsOfCopy = 0;
  const storage = house.storage({
    start(file, options) {
      const worker = new Worker(file, options);
      const post = worker.postMessage.bind(worker);
      worker.postMessage = (message: { readonly name?: string }, ...rest: never[]) => {
        if (message.name === 'createDataset') turnsOfCopy = turns;
        post(message, ...rest);
      };
      return worker;
    },
  });
  await storage.open();
  const turnsDuring = async (work: Promise<unknown>) => {
    const state = { done: false };
    turns = 0;
    const turning = (async () => {
      for (; !state.done; turns += 1) await turn();
    })();
    await work.finally(() => (state.done = true));
    await turning;
    return turns;
  };
  const document = randomBytes(sizes.stalledDocument);
  const write = await turnsDuring(storage.datasets.create(dataset('d', document)));
  // No turn copies more than a small part of it, and none waits for the disk.
  expect(turnsOfCopy).toBeGreaterThan(document.length / 4_000_000);
  expect(write - turnsOfCopy).toBeGreaterThan(50);
  expect(await turnsDuring(storage.datasets.read('p', 'd'))).toBeGreaterThan(20);
  expect((await storage.datasets.read('p', 'd'))?.document.equals(document)).toBe(true);
});

test('a document that is still on its way to the thread is written before the storage closes', async () => {
  const storage = house.storage();
  const document = randomBytes(8_000_000);
  const write = storage.datasets.create(dataset('d', document));
  await storage.close();
  expect(await write).toEqual({ id: 1 });
  expect((await house.storage().datasets.read('p', 'd'))?.document.equals(document)).toBe(true);
});

describe('while another process holds the lock', () => {
  test('reads are answered, and a write is done when the lock is free', async () => {
    const storage = house.storage();
    await storage.open();
    const lock = lockedBy(house.path);
    const write = storage.roles.create(role('a'));
    expect((await storage.roles.roleSet('admin')).ids).toEqual([1]);
    expect(await storage.roles.read(2)).toBeUndefined();
    expect(await storage.reachable()).toBe(true);
    lock.release();
    expect(await write).toEqual({ id: 2 });
  });

  test('writes are refused after a while, all that wait together, and nothing is done', async () => {
    const storage = house.storage();
    await storage.open();
    const lock = lockedBy(house.path);
    // One after another they would wait for longer than a test may take.
    const writes = Array.from({ length: 400 }, (_, i) => storage.roles.create(role(`role ${i}`)));
    for (const write of await Promise.allSettled(writes)) {
      expect(write).toMatchObject({
        status: 'rejected',
        reason: { reason: 'storage-unavailable', outcome: 'nothing-done' },
      });
    }
    lock.release();
    expect(await storage.roles.create(role('a'))).toEqual({ id: 2 });
  });

  test('an empty file is not opened after a while, but may be later', async () => {
    const lock = lockedBy(house.path);
    const storage = house.storage();
    await expect(storage.open()).rejects.toMatchObject({
      reason: 'storage-unavailable',
      outcome: 'nothing-done',
    });
    lock.release();
    await storage.open();
  });

  test('an empty file is opened when the lock is free', async () => {
    const lock = lockedBy(house.path);
    const opening = house.storage().open();
    // Whoever does not wait has given up when this later one is through.
    await house.storage({ path: `${house.path}.other` }).open();
    lock.release();
    await opening;
  });
});
