import { inTime } from '../common/clock.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { ADMIN_ROLE } from '../roles/role.ts';
import { dumpRecords, type Records, restoreRecords } from './sql-copy.ts';
import {
  newToken,
  only,
  OperatorError,
  type QueriedDatabase,
  type Session,
  type SqlDatabase,
  type StorageParts,
} from './sql-database.ts';
import { createDatasetStore } from './sql-datasets.ts';
import { createRoleStore, insertRole } from './sql-roles.ts';

/** One storage with roles and datasets. */
export type Storage = ReturnType<typeof createSqlStorage>;

/** The storage that stands on a SQL database: roles and datasets, with one store for all dialects. */
export function createSqlStorage(given: SqlDatabase, parts: StorageParts) {
  const underWay = new Set<Promise<unknown>>();
  let closed: Promise<void> | undefined;

  /** Runs what must be finished before the end. */
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
     * Brings the schema up to date, as every method does when that was not done yet: a start learns early of troubles.
     * @throws StorageUnavailable when it may succeed later
     * @throws OperatorError when it cannot: a schema of a newer program, a folder that cannot be written
     */
    open: () => finishing(given.open),
    /** A random id that tells it from all others: the same role id in another storage is another role. */
    id,
    /** Whether it answers now. Never rejects. */
    reachable: () =>
      inTime(id(), given.longestCheck, () => new Error('no answer in time')).then(
        () => true,
        () => false,
      ),
    /** Everything in it, of one moment: first one `head`, then the roles, then the datasets, by ascending id. */
    dump: (): Records => dumpRecords(database),
    /**
     * Fills an empty storage (nothing but the built-in role) with what another one dumped, as one transaction.
     * Ids and times stay; ids that were given away there are not given again here.
     * @throws OperatorError when the storage is not empty or the records are not in order; then nothing has changed
     */
    restore: (records: Records) => finishing(() => restoreRecords(given, records, newToken(parts))),
    /** Reads the certificates again, for the next connections. @throws Error when one cannot be read */
    renewCertificates: () => given.renewCertificates?.(),
    /** Finishes what is under way. */
    close: () => (closed ??= Promise.allSettled(underWay).then(given.close)),
  };
}

/** Brings the schema up to date, and makes the built-in role in an empty one. @throws OperatorError */
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
