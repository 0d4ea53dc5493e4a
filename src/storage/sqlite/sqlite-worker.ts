/** The thread of one connection: node:sqlite waits for the disk, and no other work shall wait with it. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import type { Dataset } from '../../datasets/dataset.ts';
import { StorageUnavailable } from '../../errors.ts';
import { bytesOf, createSqlStorage } from '../sql-storage.ts';
import { OperatorError, type StorageRecord } from '../storage.ts';
import { createConnection } from './connection.ts';
import { isBusy } from './failures.ts';
import type { InitialState } from './schema.ts';

/** What the thread is started with. */
export interface WorkerSetup {
  readonly path: string;
  readonly initial: InitialState;
}

/** To the thread. */
export type Call =
  | { readonly close: true }
  | {
      readonly number: number;
      readonly name: keyof Operations;
      readonly args: readonly unknown[];
      /** The time of the call (ms since 1970), and the token that roles have after a change. */
      readonly now: number;
      readonly token: string;
    };

/** From the thread, one for each call but `close`, after which it ends. */
export type Reply = { readonly number: number } & (
  | { readonly value: unknown }
  | { readonly failure: Failure }
);

export type Failure =
  | {
      readonly kind: 'unavailable';
      readonly outcome: StorageUnavailable['outcome'];
      readonly cause: unknown;
    }
  | { readonly kind: 'operator'; readonly message: string }
  | { readonly kind: 'bug'; readonly error: unknown };

/** What can be called, by the methods of the storage. */
export type Operations = typeof operations;

/** How long a call waits for the lock of another process (ms). */
const PATIENCE = 1_500;

const { path, initial } = workerData as WorkerSetup;
const port = parentPort ?? fail('runs as a thread only');
let patience = PATIENCE;
let current = { now: 0, token: '' };

const storage = createSqlStorage({
  database: createConnection({
    path,
    initial,
    wallClock: () => current.now,
    patience: () => patience,
  }),
  wallClock: () => current.now,
  newToken: () => current.token,
});
const { roles, datasets } = storage;

const operations = {
  createRole: roles.create,
  readRole: roles.read,
  updateRole: roles.update,
  removeRole: roles.remove,
  addMember: roles.addMember,
  removeMember: roles.removeMember,
  listRoles: roles.list,
  roleSet: roles.roleSet,
  rolesToken: roles.token,
  rolesLease: roles.lease,
  createDataset: (dataset: Dataset) => datasets.create(received(dataset)),
  updateDataset: (dataset: Dataset) => datasets.update(received(dataset)),
  readDataset: datasets.read,
  listDatasets: datasets.list,
  open: storage.open,
  id: storage.id,
  reachable: storage.reachable,
  dumpNext,
  restoreNext,
};

/** Calls that wait for the one that is being answered. */
const queue: Call[] = [];
let answering = false;
port.on('message', (call: Call) => {
  queue.push(call);
  if (!answering) void answerAll();
});

/** One after another, in their order. */
async function answerAll(): Promise<void> {
  answering = true;
  let waited = 0;
  for (let call = queue.shift(); call !== undefined; call = queue.shift()) {
    patience = waited > 0 ? 0 : PATIENCE;
    waited = Math.max(0, waited - 1);
    if (!(await answer(call)) || patience === 0) continue;
    // What came while this call waited for the lock has waited already.
    for (
      let next = receiveMessageOnPort(port);
      next !== undefined;
      next = receiveMessageOnPort(port)
    ) {
      queue.push(next.message as Call);
    }
    waited = queue.length;
  }
  answering = false;
}

/** @returns whether the call failed because another process held its lock for too long */
async function answer(call: Call): Promise<boolean> {
  if ('close' in call) {
    await storage.close().finally(() => port.close());
    return false;
  }
  const { number, name, args } = call;
  current = call;
  try {
    const operation = operations[name] as (...args: readonly unknown[]) => Promise<unknown>;
    const value = await operation(...args);
    reply({ number, value }, documentIn(value));
    return false;
  } catch (error) {
    reply({ number, failure: failureOf(error) });
    return error instanceof StorageUnavailable && isBusy(error.cause);
  }
}

let dumping: { readonly records: AsyncIterator<StorageRecord>; next: number } | undefined;

/** The record of that number of a dump that began with number 0. */
async function dumpNext(number: number): Promise<StorageRecord | undefined> {
  if (number === 0) dumping = { records: storage.dump()[Symbol.asyncIterator](), next: 0 };
  if (dumping?.next !== number) throw ended();
  dumping.next += 1;
  const { value, done } = await dumping.records.next();
  return done === true ? undefined : value;
}

let restoring: Restoring | undefined;
interface Restoring {
  readonly end: Promise<void>;
  next: number;
  /** Hands the next record over, or undefined behind the last; resolves when it was taken. */
  give(record: StorageRecord | undefined): Promise<void>;
}

/** Goes on with a restore that began with number 0, and ends it behind the last record. */
async function restoreNext(number: number, record: StorageRecord | undefined): Promise<void> {
  if (number === 0) restoring = beginRestore();
  if (restoring?.next !== number) throw ended();
  restoring.next += 1;
  const given = restoring.give(
    record?.kind === 'dataset' ? { ...record, dataset: received(record.dataset) } : record,
  );
  await (record === undefined ? restoring.end : Promise.race([given, restoring.end]));
}

function beginRestore(): Restoring {
  let waiting = Promise.withResolvers<StorageRecord | undefined>();
  let taken = Promise.withResolvers<void>();
  async function* records() {
    for (;;) {
      const record = await waiting.promise;
      if (record === undefined) return;
      waiting = Promise.withResolvers();
      yield record;
      taken.resolve();
    }
  }
  const end = storage.restore(records());
  end.catch(() => {});
  return {
    end,
    next: 0,
    give(record) {
      taken = Promise.withResolvers();
      waiting.resolve(record);
      return taken.promise;
    },
  };
}

function ended(): StorageUnavailable {
  return new StorageUnavailable('nothing-done', new Error('the transaction has ended before'));
}

function reply(message: Reply, transferred: ArrayBuffer[] = []): void {
  port.postMessage(message, transferred);
}

/** Threads hand over bytes, and know no Buffer. */
function received(dataset: Dataset): Dataset {
  return { ...dataset, document: bytesOf(dataset.document) };
}

/** A document is handed over, not copied. */
function documentIn(value: unknown): ArrayBuffer[] {
  if (typeof value !== 'object' || value === null) return [];
  const { document } = ('dataset' in value ? value.dataset : value) as { document?: unknown };
  return document instanceof Uint8Array && document.buffer instanceof ArrayBuffer
    ? [document.buffer]
    : [];
}

function failureOf(error: unknown): Failure {
  if (error instanceof StorageUnavailable) {
    return { kind: 'unavailable', outcome: error.outcome, cause: withCode(error.cause) };
  }
  if (error instanceof OperatorError) return { kind: 'operator', message: error.message };
  return { kind: 'bug', error: withCode(error) };
}

/** Properties of an error do not cross to another thread, its message does. */
function withCode(error: unknown): unknown {
  if (error instanceof Error && 'errcode' in error) {
    error.message = `${error.message} (SQLite ${String(error.errcode)})`;
  }
  return error;
}

function fail(message: string): never {
  throw new Error(message);
}
