import { setImmediate } from 'node:timers/promises';
import type { Dataset } from '../../datasets/dataset.ts';
import { StorageUnavailable } from '../../errors.ts';
import { bytesOf } from '../sql-storage.ts';
import { OperatorError, type Storage, type StorageParts, type StorageRecord } from '../storage.ts';
import {
  closedFailure,
  createSqliteThread,
  startWorker,
  type SqliteThread,
  type StartWorker,
} from './sqlite-thread.ts';

export interface SqliteStorageOptions extends StorageParts {
  /** The file; it is made, with its folder, when it is not there. */
  readonly path: string;
  /** Starts the threads. */
  readonly start?: StartWorker;
}

/** How much of a document is copied in one turn of the event loop (bytes). */
const COPIED_AT_ONCE = 2 * 1024 * 1024;

/** How long a check of whether the storage answers may take (ms). */
const LONGEST_CHECK = 1_500;

/**
 * Roles and datasets in a file of SQLite. While one thread writes another one reads, so that a question about
 * roles never waits for a document that is being written; a dump or restore has a thread for itself.
 */
export function createSqliteStorage(options: SqliteStorageOptions): Storage {
  const { path, firstMembers, wallClock, onError, start = startWorker } = options;
  const newToken = () => options.randomBytes(16).toString('base64url');
  const setup = { path, initial: { id: newToken(), rolesToken: newToken(), firstMembers } };
  const newThread = () => createSqliteThread({ setup, start, wallClock, newToken, onError });
  const writer = newThread();
  const reader = newThread();
  const dumps = new Set<SqliteThread>();
  const underWay = new Set<Promise<unknown>>();
  let closed: Promise<void> | undefined;

  /** Runs what must be finished before the end. */
  function finishing<T>(work: () => Promise<T>): Promise<T> {
    if (closed !== undefined) return Promise.reject(closedFailure());
    const running = work().finally(() => underWay.delete(running));
    underWay.add(running);
    return running;
  }

  const write: SqliteThread['call'] = (...call) =>
    finishing(() => writer.call(...call).catch(unavailable));
  const read: SqliteThread['call'] = (...call) =>
    finishing(() => {
      const { call: reading } = writer.busy ? reader : writer;
      return reading(...call)
        .catch(unavailable)
        .catch(unchanged);
    });
  /** A document is copied before the thread is called, so that it counts as under way from then on. */
  const withDocument = <T>(
    dataset: Dataset,
    call: (args: [Dataset], buffers: readonly ArrayBuffer[]) => Promise<T>,
  ) =>
    finishing(async () => {
      const [copy, buffers] = await handedOver(dataset);
      return await call([copy], buffers).catch(unavailable);
    });

  async function* dump(): AsyncGenerator<StorageRecord, void, undefined> {
    if (closed !== undefined) throw closedFailure();
    const thread = newThread();
    dumps.add(thread);
    try {
      for (let number = 0; ; number += 1) {
        const record = await thread.call('dumpNext', [number]);
        if (record === undefined) return;
        yield record.kind === 'dataset' ? { ...record, dataset: received(record.dataset) } : record;
      }
    } finally {
      dumps.delete(thread);
      await thread.close();
    }
  }

  async function restore(records: AsyncIterable<StorageRecord>): Promise<void> {
    const thread = newThread();
    let number = 0;
    const next = (record: StorageRecord | undefined, buffers: readonly ArrayBuffer[] = []) =>
      thread.call('restoreNext', [number++, record], buffers);
    try {
      for await (const record of records) {
        if (record.kind !== 'dataset') {
          await next(record);
          continue;
        }
        const [dataset, buffers] = await handedOver(record.dataset);
        await next({ ...record, dataset }, buffers);
      }
      await next(undefined);
    } finally {
      await thread.close();
    }
  }

  async function end(): Promise<void> {
    await Promise.all([...dumps].map((dump) => dump.close()));
    await Promise.allSettled(underWay);
    await reader.close();
    await writer.close();
  }

  return {
    roles: {
      create: (...args) => write('createRole', args),
      read: (...args) => read('readRole', args),
      update: (...args) => write('updateRole', args),
      remove: (...args) => write('removeRole', args),
      addMember: (...args) => write('addMember', args),
      removeMember: (...args) => write('removeMember', args),
      list: (...args) => read('listRoles', args),
      roleSet: (...args) => read('roleSet', args),
      token: (...args) => read('rolesToken', args),
      lease: () => read('rolesLease', []),
    },
    datasets: {
      create: (dataset) =>
        withDocument(dataset, (...args) => writer.call('createDataset', ...args)),
      update: (dataset) =>
        withDocument(dataset, (...args) => writer.call('updateDataset', ...args)),
      async read(...args) {
        const found = await read('readDataset', args);
        return found && received(found);
      },
      list: (...args) => read('listDatasets', args),
    },
    open: () => finishing(() => writer.call('open', [])),
    id: () => read('id', []),
    reachable: () => inTime(read('reachable', [])),
    dump,
    restore: (records) => finishing(() => restore(records)),
    close: () => (closed ??= end()),
  };
}

/** A storage that cannot be opened is, to those who cannot mend it, one that cannot be reached. */
function unavailable(error: unknown): never {
  throw error instanceof OperatorError ? new StorageUnavailable('nothing-done', error) : error;
}

/** A read changes nothing, whatever became of it. */
function unchanged(error: unknown): never {
  throw error instanceof StorageUnavailable
    ? new StorageUnavailable('nothing-done', error.cause)
    : error;
}

/**
 * A copy of the document for a thread, since its owner keeps it; never so much is copied in one turn that others wait.
 * @returns the dataset, and the buffers that are given away with it
 */
async function handedOver({
  document,
  ...dataset
}: Dataset): Promise<readonly [Dataset, readonly ArrayBuffer[]]> {
  const copy = new Uint8Array(document.length);
  for (let from = 0; from < document.length; from += COPIED_AT_ONCE) {
    if (from > 0) await setImmediate();
    copy.set(document.subarray(from, from + COPIED_AT_ONCE), from);
  }
  return [{ ...dataset, document: bytesOf(copy) }, [copy.buffer]];
}

/** Threads hand over bytes, and know no Buffer. */
function received(dataset: Dataset): Dataset {
  return { ...dataset, document: bytesOf(dataset.document) };
}

/** Whether a check succeeds, and soon. */
function inTime(check: Promise<boolean>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), LONGEST_CHECK);
    const told = (reachable: boolean) => {
      clearTimeout(timer);
      resolve(reachable);
    };
    check.then(told, () => told(false));
  });
}
