import { inTime } from '../common/clock.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { foldCase } from '../common/fold-case.ts';
import type { Dataset } from '../datasets/dataset.ts';
import { ADMIN_ROLE, type Role } from '../roles/role.ts';
import {
  newToken,
  only,
  OperatorError,
  type QueriedDatabase,
  type Session,
  type SqlDatabase,
  type StorageParts,
  type StorageRecord,
  textOf,
} from './sql-database.ts';
import { createDatasetStore, insertDataset } from './sql-datasets.ts';
import { createRoleStore, insertRole, readRoles, setRolesToken } from './sql-roles.ts';

export type Storage = ReturnType<typeof createSqlStorage>;

export function createSqlStorage(given: SqlDatabase, parts: StorageParts) {
  const underWay = new Set<Promise<unknown>>();
  let closed: Promise<void> | undefined;

  async function finishing<T>(work: () => Promise<T>): Promise<T> {
    if (closed !== undefined) {
      throw new StorageUnavailable('nothing-done', new Error('the storage is closed'));
    }
    const running = work().finally(() => underWay.delete(running));
    underWay.add(running);
    return running;
  }

  const database: QueriedDatabase = {
    ...given,
    run: (kind, work) => finishing(() => given.run(kind, work)),
    long: () => finishing(given.long),
    query: (text, values) => database.run('read', (session) => session.rows(text, values)),
  };
  const id = async () =>
    String(only(await database.query(`SELECT id FROM ${given.dialect.tables.storage}`))['id']);
  return {
    roles: createRoleStore(database, parts),
    datasets: createDatasetStore(database, parts.wallClock),
    /**
     * Brings the schema up to date, as each method does on demand: a start finds trouble early.
     * @throws StorageUnavailable when it may succeed later, OperatorError when it cannot
     */
    open: () => finishing(given.open),
    /** A random id: the same role id in another storage is another role. */
    id,
    /** Tells if it answers now. Never rejects. */
    reachable: () =>
      inTime(id(), given.longestCheck, () => new Error('no answer in time')).then(
        () => true,
        () => false,
      ),
    /** Everything, of one moment: a `head`, then roles, then datasets, by ascending id. */
    dump: (): Records => dumpRecords(database),
    /**
     * Fills an empty storage (only the built-in role) from a dump, in one transaction. Ids and
     * times stay, and used ids are never given again.
     * @throws OperatorError when the storage is not empty or the records are out of order
     */
    restore: (records: Records) => finishing(() => restoreRecords(given, records, newToken(parts))),
    /** Reads certificates again, for later connections. @throws Error when one cannot be read */
    renewCertificates: () => given.renewCertificates?.(),
    close: () => (closed ??= Promise.allSettled(underWay).then(given.close)),
  };
}

export async function bringUpToDate(session: Session, parts: StorageParts): Promise<void> {
  const { dialect } = session;
  const latest = dialect.migrations.length;
  const version = await dialect.version(session);
  if (version === latest) return;
  if (version > latest) throw new OperatorError(dialect.newer(version, latest));
  for (const migration of dialect.migrations.slice(version)) await session.script(migration);
  if (version === 0) {
    await session.rows(dialect.firstRows, [newToken(parts), newToken(parts)]);
    const contains = parts.firstMembers.map((name) => ({ type: 'user' as const, name }));
    await insertRole(session, { ...ADMIN_ROLE, contains });
  }
  await session.script(dialect.setVersion(latest));
}

type Records = AsyncIterable<StorageRecord>;

const PAGE = 100;

async function* dumpRecords({ dialect, long }: SqlDatabase): AsyncGenerator<StorageRecord, void> {
  const { tables, documents } = dialect;
  await using work = await long();
  const { session } = work;
  await session.script(dialect.begin.snapshot);
  const head = only(await session.rows(dialect.head));
  const [roles, datasets] = [Number(head['roles']), Number(head['datasets'])];
  const [nextRoleId, nextDatasetId] = [Number(head['role']), Number(head['dataset'])];
  yield { kind: 'head', roles, datasets, nextRoleId, nextDatasetId };
  const which = 'WHERE id > ?1 ORDER BY id LIMIT ?2';
  for (let last: number | undefined = 0; last !== undefined;) {
    const page: readonly Role[] = await readRoles(session, which, [last, PAGE]);
    for (const role of page) yield { kind: 'role', role };
    last = page.at(-1)?.id;
  }
  const columns = ['id', 'project', 'name', 'type', 'last_modified', ...documents.columns];
  const next = `SELECT ${columns.join(', ')} FROM ${tables.datasets} WHERE id > ?1 ORDER BY id LIMIT 1`;
  for (let id = 0; ;) {
    const [row] = await session.rows(next, [id]);
    if (row === undefined) return;
    id = Number(row['id']);
    const [project, name, type] = ['project', 'name', 'type'].map((column) => textOf(row[column]));
    const document = await documents.load(session, row);
    const dataset = { project, name, type, document } as Dataset;
    yield { kind: 'dataset', id, lastModified: Number(row['last_modified']), dataset };
  }
}

async function restoreRecords({ dialect, long }: SqlDatabase, records: Records, token: string) {
  await using work = await long();
  const { session } = work;
  await session.script(dialect.begin.alone);
  const head = only(await session.rows(dialect.head));
  const [others, datasets] = [Number(head['roles']) - 1, Number(head['datasets'])];
  const holds = `it holds ${others} roles beside the built-in one, and ${datasets} datasets`;
  refuseUnless(others === 0 && datasets === 0, `the storage is not empty: ${holds}`);
  await session.rows(`DELETE FROM ${dialect.tables.roles} WHERE id = ?1`, [ADMIN_ROLE.id]);
  await writeRecords(session, records);
  await setRolesToken(session, token);
  await session.script('COMMIT');
}

/** @throws OperatorError when a record is missing, surplus or out of order */
async function writeRecords(session: Session, records: Records) {
  const { documents, advanceIds } = session.dialect;
  let head: Extract<StorageRecord, { kind: 'head' }> | undefined;
  const last = { role: 0, dataset: 0 };
  const counted = { role: 0, dataset: 0 };
  for await (const record of records) {
    const { kind } = record;
    const isHead = kind === 'head';
    refuseUnless(isHead !== !!head, 'the records must begin with a head, their only one');
    if (isHead) {
      head = record;
      await session.rows(advanceIds, [head.nextRoleId, head.nextDatasetId]);
      continue;
    }
    const id = kind === 'role' ? record.role.id : record.id;
    const next = (kind === 'role' ? head?.nextRoleId : head?.nextDatasetId) ?? 0;
    refuseUnless(id > last[kind], `${kind} ${id} stands behind ${kind} ${last[kind]}`);
    refuseUnless(id < next, `${kind} ${id} is not below the next id, which is ${next}`);
    last[kind] = id;
    counted[kind] += 1;
    if (kind === 'role') {
      const { contains } = record.role;
      const folded = new Set(contains.map(({ name }) => foldCase(name)));
      const built = `the first role must be the built-in one, ${ADMIN_ROLE.id}`;
      refuseUnless(counted.dataset === 0, 'a role stands behind a dataset');
      refuseUnless(counted.role > 1 || id === ADMIN_ROLE.id, built);
      // Drivers would differ.
      refuseUnless(folded.size === contains.length, `role ${id} has a member twice`);
      const made = await insertRole(session, record.role);
      refuseUnless(made !== 'name-taken', `role ${id} has the name of another one`);
    } else {
      const document = await documents.keep(session, record.dataset.document);
      const made = await insertDataset(session, record, document);
      refuseUnless(made !== 'exists', `dataset ${id} has the project and name of another one`);
    }
  }
  if (head === undefined) throw new OperatorError('there are no records');
  const named = `${head.roles} roles and ${head.datasets} datasets`;
  const isWhole = counted.role === head.roles && counted.dataset === head.datasets;
  const came = `${counted.role} and ${counted.dataset} came`;
  refuseUnless(isWhole, `the head names ${named}, but ${came}`);
}

function refuseUnless(holds: boolean, problem: string): void {
  if (!holds) throw new OperatorError(problem);
}
