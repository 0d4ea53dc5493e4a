import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { Worker, type WorkerOptions } from 'node:worker_threads';
import type { Dataset } from '../../../src/datasets/dataset.ts';
import type { Storage } from '../../../src/storage/sql-storage.ts';
import { sizes } from '../../support/sizes.ts';
import { sqliteHouse, type SqliteHouse } from './sqlite-house.ts';
import type { WatchedReply, WatchedSetup } from './watched-sqlite-worker.ts';

const WATCHED = new URL('watched-sqlite-worker.ts', import.meta.url);

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

/** What goes to the threads of a storage and comes back, and a gate before their answers. */
function watched() {
  const gate = new Int32Array(new SharedArrayBuffer(4));
  Atomics.store(gate, 0, 1);
  const replies: WatchedReply[] = [];
  /** @param onCall is told of a statement before it is sent to the thread, with the sizes of what it is given */
  const start = (
    file: URL,
    options: WorkerOptions,
    onCall: (text: string, givenAway: readonly number[]) => void,
  ) => {
    const setup: WatchedSetup = { file: file.href, gate };
    const worker = new Worker(WATCHED, {
      ...options,
      workerData: { ...(options.workerData as object), ...setup },
    });
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (call: { readonly text?: string }, given: readonly ArrayBuffer[] = []) => {
      const givenAway = given.map(({ byteLength }) => byteLength);
      onCall(call.text ?? '', givenAway);
      post(call, given);
    };
    worker.on('message', (reply: WatchedReply) => replies.push(reply));
    return worker;
  };
  return { gate, replies, start };
}

describe('a thread that breaks down', () => {
  let workers: Worker[];
  /** Answers to such statements are lost, as if the thread had broken down before. */
  let isLost: (text: string) => boolean;
  let lost: PromiseWithResolvers<void>;
  let told: unknown[];
  let storage: Storage;
  beforeEach(async () => {
    workers = [];
    isLost = () => false;
    lost = Promise.withResolvers();
    told = [];
    storage = house.storage({
      start(file, options) {
        const worker = new Worker(file, options);
        workers.push(worker);
        let last = '';
        const post = worker.postMessage.bind(worker);
        worker.postMessage = (call: { readonly text?: string }, given) => {
          last = call.text ?? '';
          post(call, given as ArrayBuffer[]);
        };
        const emit = worker.emit.bind(worker);
        worker.emit = (event: string | symbol, ...args: unknown[]) => {
          if (event !== 'message' || !isLost(last)) return emit(event, ...args);
          lost.resolve();
          return true;
        };
        return worker;
      },
      onError: (error) => told.push(error),
    });
    await storage.open();
  });
  const breakDown = async () => {
    await lost.promise;
    isLost = () => false;
    await workers[0]?.terminate();
  };

  test.each([
    ['over the end of a change leaves it unknown', 'COMMIT', 'unknown'],
    ['before the end of a change undoes it', 'INSERT INTO role', 'nothing-done'],
  ])('%s, and is replaced for the next one', async (_, statement, outcome) => {
    isLost = (text) => text.startsWith(statement);
    const calls = [storage.roles.create(role('a')), storage.roles.create(role('b'))];
    const settled = Promise.allSettled(calls);
    await breakDown();
    const [first, second] = await settled;
    expect(first).toMatchObject({
      status: 'rejected',
      reason: { reason: 'storage-unavailable', outcome },
    });
    expect(second).toMatchObject({ status: 'fulfilled' });
    const { total } = await storage.roles.list({ offset: 0, limit: 9, nameContains: '' });
    expect(total).toBe(outcome === 'unknown' ? 3 : 2);
    expect([told, workers.length]).toEqual([[], 2]);
  });

  test('has changed nothing where it only read', async () => {
    isLost = () => true;
    const [read] = await Promise.allSettled([storage.roles.read(1), breakDown()]);
    expect(read).toMatchObject({ status: 'rejected', reason: { outcome: 'nothing-done' } });
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
  const { gate, replies, start } = watched();
  /** The statement with the document, and what was seen of it: how often the event loop had turned before it. */
  let statement = /^never$/;
  const sent = { turns: 0, givenAway: [] as readonly number[], done: false };
  const storage = house.storage({
    start: (file, options) =>
      start(file, options, (text, givenAway) => {
        if (!statement.test(text)) return;
        // The thread may not answer it yet.
        Atomics.store(gate, 0, 0);
        replies.length = 0;
        Object.assign(sent, { givenAway, done: true });
      }),
  });
  /** While the thread may not answer, the event loop turns: only then is the answer let through. */
  const turning = async <T>(awaited: RegExp, work: () => Promise<T>): Promise<T> => {
    statement = awaited;
    Object.assign(sent, { turns: 0, done: false });
    const working = work();
    for (; !sent.done; sent.turns += 1) await turn();
    for (let more = 0; more < 50; more += 1) await turn();
    expect(replies).toEqual([]);
    Atomics.store(gate, 0, 1);
    Atomics.notify(gate, 0);
    return await working;
  };
  const document = randomBytes(sizes.stalledDocument);
  await storage.open();

  const create = () => storage.datasets.create(dataset('d', document));
  expect(await turning(/^INSERT INTO dataset/, create)).toEqual({ id: 1 });
  // No turn copies more than a small part of it, and the copy is given away as it is.
  expect(sent.turns).toBeGreaterThan(document.length / 4_000_000);
  expect(sent.givenAway).toEqual([document.length]);

  const found = await turning(/^SELECT type, document/, () => storage.datasets.read('p', 'd'));
  // What the thread gave away is what the reader gets: it was not copied on the way.
  const [reply] = replies;
  expect(reply?.givenAway).toEqual([document.length]);
  const rows = reply !== undefined && 'rows' in reply ? reply.rows : [];
  expect(found?.document.buffer).toBe((rows[0]?.['document'] as Uint8Array | undefined)?.buffer);
  expect(found?.document.equals(document)).toBe(true);
});

test('a document that is still on its way to the thread is written before the storage closes', async () => {
  const storage = house.storage();
  const document = randomBytes(8_000_000);
  const write = storage.datasets.create(dataset('d', document));
  await storage.close();
  expect(await write).toEqual({ id: 1 });
  expect((await house.storage().datasets.read('p', 'd'))?.document.equals(document)).toBe(true);
});

/** How long a call waits for the lock (ms; src/storage/sqlite-worker.ts). */
const PATIENCE = 1_500;

/**
 * What a call comes to that waits while something else is done. On a slow machine that takes longer than calls wait:
 * whoever was refused then is asked again.
 */
async function whileLocked<T>(call: () => Promise<T>, other: () => Promise<void>): Promise<T> {
  for (;;) {
    const lock = lockedBy(house.path);
    const begun = performance.now();
    const waiting = Promise.allSettled([call()]);
    try {
      await other();
    } finally {
      lock.release();
    }
    const held = performance.now() - begun;
    const [result] = await waiting;
    if (result.status === 'fulfilled') return result.value;
    expect(result.reason).toMatchObject({ outcome: 'nothing-done' });
    expect(held).toBeGreaterThan(PATIENCE);
  }
}

describe('while another process holds the lock', () => {
  test('reads are answered, and a write is done when the lock is free', async () => {
    const storage = house.storage();
    await storage.open();
    const create = () => storage.roles.create(role('a'));
    const done = await whileLocked(create, async () => {
      expect((await storage.roles.roleSet('admin')).ids).toEqual([1]);
      expect(await storage.roles.read(2)).toBeUndefined();
      // It is told only in time, which a slow machine may miss.
      while (!(await storage.reachable()));
    });
    expect(done).toEqual({ id: 2 });
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
    let count = 0;
    await whileLocked(
      () => house.storage().open(),
      // Whoever does not wait has given up when this later one is through.
      () => house.storage({ path: `${house.path}.other${(count += 1)}` }).open(),
    );
  });
});
