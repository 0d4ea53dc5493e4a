import { inTime } from '../common/clock.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { foldCase } from '../common/fold-case.ts';
import type { Dataset, DatasetStore } from '../datasets/dataset.ts';
import { ADMIN_ROLE, type Member, type Role, type RoleStore } from '../roles/role.ts';
import {
  bytesOf,
  isRefusal,
  only,
  OperatorError,
  type Row,
  type Session,
  type SqlDatabase,
  type StorageParts,
  type StorageRecord,
  type Value,
  type Work,
} from './sql-database.ts';

/** For how long the note of a lease counts (ms). */
const SHARED_FOR = 3_600_000;
/** A note that counts for less than this is renewed (ms), so that hardly any token is asked for by a write. */
const SHARED_AT_LEAST = SHARED_FOR / 2;
type Records = AsyncIterable<StorageRecord>;
/** `query` runs one statement, so that all that it gives is of one moment. */
type Database = SqlDatabase & { readonly query: Session['rows'] };
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

  const database: Database = {
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

/**
 * Locks are taken in this order: the names of all roles for a change that gives a role a name; the row of the role,
 * shared for a change of one member, alone for every other change; the row with the token, last.
 */
function createRoleStore({ dialect, run, query }: Database, parts: StorageParts): RoleStore {
  const { storage, roles, members } = dialect.tables;
  /** The lease that is noted, if it is still in force and longer than another one. */
  const longerLease = (other: string) =>
    `CASE WHEN roles_shared_until > ${dialect.moment(0)} AND roles_lease > ${other}
      THEN roles_lease ELSE ${other} END`;

  /** A change that succeeds makes the role sets that were read earlier stale. */
  const changing = <T>(change: Work<T>): Promise<T> =>
    run('write', async (session) => {
      const result = await change(session);
      if (!isRefusal(result)) await setRolesToken(session, newToken(parts));
      return result;
    });

  /** Runs a change of one member while the role is neither removed nor renamed. */
  const inRole = <T>(id: number, roleName: string, change: Work<T>) =>
    changing(async (session) => {
      const locked = `SELECT folded FROM ${roles} WHERE id = ?1${dialect.forShare}`;
      const [role] = await session.rows(locked, [id]);
      if (role === undefined) return 'no-such-role';
      if (textOf(role['folded']) !== foldCase(roleName)) return 'other-name';
      return await change(session);
    });

  return {
    create: (role) =>
      changing(async (session) => {
        const id = Number(only(await session.rows(dialect.takeId.role))['id']);
        return insertRole(session, { id, ...role });
      }),

    read: (id) =>
      run('read', async (session) => (await readRoles(session, 'WHERE id = ?1', [id]))[0]),

    update: (id, { name, description, contains }) =>
      changing(async (session) => {
        if (dialect.lockNames !== undefined) await session.rows(dialect.lockNames);
        const folded = foldedBytes(name);
        const locked = `SELECT id FROM ${roles} WHERE id = ?1 OR folded = ?2${dialect.forUpdate}`;
        const found = await session.rows(locked, [id, folded]);
        if (!found.some((row) => Number(row['id']) === id)) return 'no-such-role';
        if (found.length > 1) return 'name-taken';
        const change = `UPDATE ${roles} SET name = ?2, folded = ?3, description = ?4 WHERE id = ?1`;
        await session.rows(change, [id, toBytes(name), folded, toBytes(description)]);
        await session.rows(`DELETE FROM ${members} WHERE ${dialect.roleOfMember} = ?1`, [id]);
        await session.rows(dialect.insertMembers, [id, membersJson(contains)]);
        return 'done';
      }),

    remove: (id) =>
      changing(async (session) => {
        const rows = await session.rows(`DELETE FROM ${roles} WHERE id = ?1 RETURNING id`, [id]);
        return rows.length === 0 ? 'no-such-role' : 'done';
      }),

    addMember: (id, roleName, member) =>
      inRole(id, roleName, async (session) => {
        const added = await session.rows(dialect.insertMembers, [id, membersJson([member])]);
        return added.length === 0 ? 'already-member' : 'done';
      }),

    removeMember: (id, roleName, { name }) =>
      inRole(id, roleName, async (session) => {
        const removal = `DELETE FROM ${members} WHERE ${dialect.roleOfMember} = ?1 AND folded = ?2 RETURNING 1`;
        const removed = await session.rows(removal, [id, foldedBytes(name)]);
        return removed.length === 0 ? 'not-a-member' : 'done';
      }),

    async list({ offset, limit, nameContains }) {
      const matching = `FROM ${roles} WHERE ${dialect.contains}`;
      // Without a role on the page, a row of nulls.
      const asked = `SELECT found.total, page.id, page.name, page.description
        FROM (SELECT count(*) AS total ${matching}) found
        LEFT JOIN (SELECT id, name, description ${matching} ORDER BY id DESC LIMIT ?3 OFFSET ?2) page
        ON true ORDER BY page.id DESC`;
      const rows = await query(asked, [foldedBytes(nameContains), offset, limit]);
      const listed = rows.filter(({ id }) => id !== null);
      return { roles: listed.map(summaryOf), total: Number(rows[0]?.['total']) };
    },
    async roleSet(userName) {
      const asked = `SELECT s.roles_token AS token, m.${dialect.roleOfMember} AS role
        FROM ${storage} s LEFT JOIN ${members} m ON m.folded = ?1 ORDER BY role`;
      const rows = await query(asked, [foldedBytes(userName)]);
      const ids = rows.filter(({ role }) => role !== null).map(({ role }) => Number(role));
      return { token: String(only(rows)['token']), ids };
    },
    async token(lease) {
      const asked = `SELECT roles_token AS token, roles_lease >= ?1
        AND roles_shared_until >= ${dialect.moment(SHARED_AT_LEAST)} AS noted FROM ${storage}`;
      const { token, noted } = only(await query(asked, [lease]));
      // A truth value of PostgreSQL, or of SQLite.
      if (noted === true || noted === 1) return String(token);
      const renewal = `UPDATE ${storage} SET roles_lease = ${longerLease('?1')},
        roles_shared_until = ${dialect.moment(SHARED_FOR)} RETURNING roles_token AS token`;
      // Waits for a change that is being committed; the token is then the new one.
      const renewed = await run('write', (session) => session.rows(renewal, [lease]));
      return String(only(renewed)['token']);
    },
    async lease() {
      const rows = await query(`SELECT ${longerLease('0')} AS lease FROM ${storage}`);
      return Number(only(rows)['lease']);
    },
  };
}

/** A document is kept before anything is locked, so that the locks are held for a short time only. */
function createDatasetStore(database: Database, wallClock: () => number): DatasetStore {
  const { dialect, run, query } = database;
  const { documents, tables } = dialect;
  const now = () => Math.floor(wallClock() / 1_000);

  type Named = Pick<Dataset, 'project' | 'name'>;
  async function find(session: Session, { project, name }: Named, columns = 'id', lock = '') {
    const asked = `SELECT ${columns} FROM ${tables.datasets} WHERE project = ?1 AND name = ?2${lock}`;
    return (await session.rows(asked, [toBytes(project), toBytes(name)]))[0];
  }

  return {
    create: (dataset) =>
      run('write', async (session) => {
        if ((await find(session, dataset)) !== undefined) return 'exists';
        const document = await documents.keep(session, dataset.document);
        const id = Number(only(await session.rows(dialect.takeId.dataset))['id']);
        return insertDataset(session, { id, lastModified: now(), dataset }, document);
      }),

    update: (dataset) =>
      run('write', async (session) => {
        if ((await find(session, dataset)) === undefined) return 'no-such-dataset';
        const document = await documents.keep(session, dataset.document);
        const old = await find(session, dataset, 'id', dialect.forUpdate);
        if (old === undefined) return 'no-such-dataset';
        const id = Number(old['id']);
        await documents.drop(session, id);
        const columns = documents.columns.map((column, i) => `, ${column} = ?${i + 4}`).join('');
        const change = `UPDATE ${tables.datasets} SET type = ?2, last_modified = ?3${columns} WHERE id = ?1`;
        await session.rows(change, [id, toBytes(dataset.type), now(), ...document]);
        return { id };
      }),

    read: (project, name) =>
      run('snapshot', async (session) => {
        const columns = ['type', ...documents.columns].join(', ');
        const found = await find(session, { project, name }, columns);
        if (found === undefined) return undefined;
        const document = await documents.load(session, found);
        return { project, name, type: textOf(found['type']), document };
      }),

    async list(project) {
      const asked = `SELECT id, name, type, last_modified AS modified FROM ${tables.datasets}
        WHERE project = ?1 ORDER BY id`;
      const rows = await query(asked, [toBytes(project)]);
      return rows.map(({ id, name, type, modified }) => ({
        id: Number(id),
        name: textOf(name),
        type: textOf(type),
        lastModified: Number(modified),
      }));
    },
  };
}

/** Roles that a dump reads at one time. */
const PAGE = 100;

/** Everything in the storage, of one moment. */
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

/** @throws OperatorError when the storage holds something, or the records are not in order */
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

/** @throws OperatorError when a record is missing, too much or not where it should be */
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
      // Each driver would do something else with them.
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

/** Text is kept as the bytes of its UTF-8: compared exactly, whatever the collation, and with NUL. */
const toBytes = (text: string): Buffer => Buffer.from(text);
const foldedBytes = (name: string): Buffer => toBytes(foldCase(name));

/** Names and folded names in hexadecimal, for statements that take a list of them. */
const membersJson = (members: readonly Member[]): string =>
  JSON.stringify(
    members.map(({ name }) => [toBytes(name), foldedBytes(name)].map((b) => b.toString('hex'))),
  );

const textOf = (value: unknown): string => bytesOf(value).toString();

/** A random token, or id of a storage. */
const newToken = ({ randomBytes }: Pick<StorageParts, 'randomBytes'>): string =>
  randomBytes(16).toString('base64url');

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

/** Adds a role with its members, each once. */
async function insertRole(session: Session, role: Role) {
  const { id, name, description, contains } = role;
  const { tables, insertMembers } = session.dialect;
  const rows = await session.rows(
    `INSERT INTO ${tables.roles} (id, name, folded, description) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (folded) DO NOTHING RETURNING id`,
    [id, toBytes(name), foldedBytes(name), toBytes(description)],
  );
  if (rows.length === 0) return 'name-taken';
  await session.rows(insertMembers, [id, membersJson(contains)]);
  return { id };
}

/** @param document the values of the columns of its document */
async function insertDataset(
  session: Session,
  { id, lastModified, dataset }: Omit<Extract<StorageRecord, { kind: 'dataset' }>, 'kind'>,
  document: readonly Value[],
) {
  const { columns } = session.dialect.documents;
  const { datasets } = session.dialect.tables;
  const slots = columns.map((_, i) => `?${i + 6}`).join(', ');
  const texts = [dataset.project, dataset.name, dataset.type].map(toBytes);
  const rows = await session.rows(
    `INSERT INTO ${datasets} (id, project, name, type, last_modified, ${columns.join(', ')})
     VALUES (?1, ?2, ?3, ?4, ?5, ${slots}) ON CONFLICT (project, name) DO NOTHING RETURNING id`,
    [id, ...texts, lastModified, ...document],
  );
  return rows.length === 0 ? 'exists' : { id };
}

/**
 * Gives the roles a new token. The last statement of every change of a role: it locks the row until its transaction ends,
 * so that changes are committed one after the other, and what a token stands for is of one moment.
 */
async function setRolesToken(session: Session, token: string): Promise<void> {
  await session.rows(`UPDATE ${session.dialect.tables.storage} SET roles_token = ?1`, [token]);
}

/** Reads roles with their members. @param which conditions, order, limit */
async function readRoles(session: Session, which: string, values: readonly Value[]) {
  const { tables, roleOfMember } = session.dialect;
  const rows = await session.rows(
    `SELECT r.id, r.name, r.description, m.name AS member
     FROM (SELECT id, name, description FROM ${tables.roles} ${which}) r
     LEFT JOIN ${tables.members} m ON m.${roleOfMember} = r.id
     ORDER BY r.id, m.position`,
    values,
  );
  return [...Map.groupBy(rows, ({ id }) => Number(id)).values()].map((ofRole) => {
    // A role without members has one row, without a member.
    const named = ofRole.filter(({ member }) => member !== null);
    const contains = named.map(({ member }): Member => ({ type: 'user', name: textOf(member) }));
    return Object.assign(summaryOf(only(ofRole)), { contains });
  });
}

const summaryOf = ({ id, name, description }: Row) => ({
  id: Number(id),
  name: textOf(name),
  description: textOf(description),
});
