import { setImmediate } from 'node:timers/promises';
import type { Dataset } from '../../datasets/dataset.ts';
import { StorageUnavailable } from '../../errors.ts';
import type { Role } from '../../roles/role.ts';
import type { Storage, StorageParts, StorageRecord } from '../storage.ts';
import type { SentDataset } from './dataset-operations.ts';
import { OperatorError } from './failures.ts';
import { inOrder } from '../record-order.ts';
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

/** Roles of a dump or restore that cross the threads together. */
const TOGETHER = 100;

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
  const beginning = { id: newToken(), rolesToken: newToken(), firstMembers };
  const newThread = () => createSqliteThread({ setup: { path, beginning }, start, onError });
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

  const write = <T>(work: () => Promise<T>): Promise<T> =>
    finishing(() => work().catch(unavailable));
  const read: SqliteThread['call'] = (...call) =>
    finishing(() => {
      const { call: reading } = writer.busy ? reader : writer;
      return reading(...call)
        .catch(unavailable)
        .catch(unchanged);
    });
  const seconds = () => Math.floor(wallClock() / 1_000);

  const sending = async (dataset: Dataset) => {
    const lastModified = seconds();
    const copy = await sent(dataset);
    return [[copy, lastModified], [copy.document.buffer]] as const;
  };

  async function* dump(): AsyncGenerator<StorageRecord, void, undefined> {
    if (closed !== undefined) throw closedFailure();
    const thread = newThread();
    dumps.add(thread);
    try {
      yield { kind: 'head', ...(await thread.call('beginDump', [])) };
      for (let after = 0; ;) {
        const roles = await thread.call('dumpRoles', [after, TOGETHER]);
        for (const role of roles) yield { kind: 'role', role };
        const last = roles.at(-1);
        if (last === undefined) break;
        after = last.id;
      }
      for (let after = 0; ;) {
        const found = await thread.call('dumpDataset', [after]);
        if (found === undefined) break;
        const { id, lastModified, ...dataset } = found;
        yield { kind: 'dataset', id, lastModified, dataset: received(dataset) };
        after = id;
      }
    } finally {
      dumps.delete(thread);
      await thread.close();
    }
  }

  async function restore(records: AsyncIterable<StorageRecord>): Promise<void> {
    const thread = newThread();
    try {
      await thread.call('beginRestore', []);
      let [nextRoleId, nextDatasetId] = [0, 0];
      let roles: Role[] = [];
      const sendRoles = async () => {
        if (roles.length > 0) await thread.call('restoreRoles', [roles]);
        roles = [];
      };
      for await (const record of inOrder(records)) {
        if (record.kind === 'head') ({ nextRoleId, nextDatasetId } = record);
        else if (record.kind === 'role') {
          roles.push(record.role);
          if (roles.length === TOGETHER) await sendRoles();
        } else {
          await sendRoles();
          const { id, lastModified } = record;
          const dataset = await sent(record.dataset);
          const { document } = dataset;
          await thread.call(
            'restoreDataset',
            [{ id, lastModified, ...dataset }],
            [document.buffer],
          );
        }
      }
      await sendRoles();
      await thread.call('endRestore', [nextRoleId, nextDatasetId, newToken()]);
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
      create: (role) => write(() => writer.call('createRole', [role, newToken()])),
      read: (id) => read('readRole', [id]),
      update: (id, role) => write(() => writer.call('updateRole', [id, role, newToken()])),
      remove: (id) => write(() => writer.call('removeRole', [id, newToken()])),
      addMember: (...args) => write(() => writer.call('addMember', [...args, newToken()])),
      removeMember: (...args) => write(() => writer.call('removeMember', [...args, newToken()])),
      list: (page) => read('listRoles', [page]),
      roleSet: (userName) => read('roleSet', [userName]),
      async token(lease) {
        const noted = [lease, wallClock()] as const;
        return (
          (await read('tokenNoted', [...noted])) ??
          (await write(() => writer.call('noteLease', [...noted])))
        );
      },
      lease: () => read('leaseNoted', [wallClock()]),
    },
    datasets: {
      create: (dataset) =>
        write(async () => {
          const [args, buffers] = await sending(dataset);
          return writer.call('createDataset', [...args], buffers);
        }),
      update: (dataset) =>
        write(async () => {
          const [args, buffers] = await sending(dataset);
          return writer.call('updateDataset', [...args], buffers);
        }),
      async read(project, name) {
        const found = await read('readDataset', [project, name]);
        return found === undefined ? undefined : received(found);
      },
      list: (project) => read('listDatasets', [project]),
    },
    open: () => finishing(async () => void (await writer.call('check', []))),
    id: () => read('storageId', []),
    reachable: () => inTime(read('check', [])),
    dump,
    restore: (records) => finishing(() => restore(records)),
    close: () => (closed ??= end()),
  };
}

/** To somebody who cannot mend it, a storage that cannot be opened is one that cannot be reached. */
function unavailable(error: unknown): never {
  throw error instanceof OperatorError ? new StorageUnavailable('nothing-done', error) : error;
}

/** A read changes nothing, whatever became of it. */
function unchanged(error: unknown): never {
  throw error instanceof StorageUnavailable
    ? new StorageUnavailable('nothing-done', error.cause)
    : error;
}

async function sent(dataset: Dataset): Promise<SentDataset> {
  const { project, name, type } = dataset;
  return { project, name, type, document: await copyOf(dataset.document) };
}

/** Documents are copied, since their owner keeps them, but never so much that others wait. */
async function copyOf(document: Buffer): Promise<Uint8Array<ArrayBuffer>> {
  const copy = new Uint8Array(document.length);
  for (let from = 0; from < document.length; from += COPIED_AT_ONCE) {
    if (from > 0) await setImmediate();
    copy.set(document.subarray(from, from + COPIED_AT_ONCE), from);
  }
  return copy;
}

function received({ project, name, type, document }: SentDataset): Dataset {
  const { buffer, byteOffset, byteLength } = document;
  return { project, name, type, document: Buffer.from(buffer, byteOffset, byteLength) };
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
