import { inTime } from '../common/clock.ts';
import { StorageUnavailable } from '../common/errors.ts';
import { foldCase } from '../common/fold-case.ts';
import type { Dataset, DatasetStore } from '../datasets/dataset.ts';
import { ADMIN_ROLE, type RoleStore, SHARED_AT_LEAST, SHARED_FOR } from '../roles/role.ts';
import {
  foldedBytes,
  insertDataset,
  insertRole,
  isRefusal,
  membersJson,
  newToken,
  only,
  readRoles,
  type Row,
  type Session,
  setRolesToken,
  type SqlDatabase,
  summaryOf,
  textOf,
  toBytes,
} from './sql-database.ts';
import { OperatorError, type StorageParts, type StorageRecord } from './storage.ts';

/** One storage with roles and datasets. */
export type Storage = ReturnType<typeof createSqlStorage>;

/** The storage that stands on a SQL database: roles and datasets, with one store for all dialects. */
export function createSqlStorage(
  given: SqlDatabase,
  parts: Pick<StorageParts, 'randomBytes' | 'wallClock'>,
) {
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

  const database: SqlDatabase = {
    ...given,
    run: (kind, work) => finishing(() => given.run(kind, work)),
    long: () => finishing(given.long),
  };
  /** One statement, so that all that it gives is of one moment. */
  const query: Session['rows'] = (text, values) =>
    database.run('read', (session) => session.rows(text, values));
  const makeToken = () => newToken(parts);
  const id = async () =>
    String(only(await query(`SELECT id FROM ${given.dialect.tables.storage}`))['id']);
  return {
    roles: createRoleStore(database, query, makeToken),
    datasets: createDatasetStore(database, query, parts.wallClock),
    /**
     * Brings the schema up to date, and makes the built-in role in an empty storage. Every method does that by
     * itself when it has not been done yet; a start calls it to learn early of what only an operator can mend.
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
    dump: (): AsyncIterable<StorageRecord> => dumpRecords(database),
    /**
     * Fills an empty storage (nothing but the built-in role) with what another one dumped, as one transaction.
     * Ids and times stay; ids that were given away there are not given again here.
     * @throws OperatorError when the storage is not empty or the records are not in order; then nothing has changed
     */
    restore: (records: AsyncIterable<StorageRecord>) =>
      finishing(() => restoreRecords(given, records, makeToken())),
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
function createRoleStore(
  { dialect, run }: SqlDatabase,
  query: Session['rows'],
  makeToken: () => string,
): RoleStore {
  const { storage, roles, members } = dialect.tables;

  /** A change that succeeds makes the role sets that were read earlier stale. */
  const changing = <T>(change: (session: Session) => Promise<T>): Promise<T> =>
    run('write', async (session) => {
      const result = await change(session);
      if (!isRefusal(result)) await setRolesToken(session, makeToken());
      return result;
    });

  /** Runs a change of one member while the role is neither removed nor renamed. */
  const inRole = <T>(id: number, roleName: string, change: (session: Session) => Promise<T>) =>
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
        const result = await insertRole(session, { id, ...role });
        return result === 'done' ? { id } : result;
      }),

    read: (id) =>
      run('read', async (session) => (await readRoles(session, 'WHERE id = ?1', [id]))[0]),

    update: (id, { name, description, contains }) =>
      changing(async (session) => {
        if (dialect.lockNames !== undefined) await session.rows(dialect.lockNames);
        const folded = foldedBytes(name);
        const found = await session.rows(
          `SELECT id FROM ${roles} WHERE id = ?1 OR folded = ?2${dialect.forUpdate}`,
          [id, folded],
        );
        if (!found.some((row) => Number(row['id']) === id)) return 'no-such-role';
        if (found.length > 1) return 'name-taken';
        await session.rows(
          `UPDATE ${roles} SET name = ?2, folded = ?3, description = ?4 WHERE id = ?1`,
          [id, toBytes(name), folded, toBytes(description)],
        );
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
        const removed = await session.rows(
          `DELETE FROM ${members} WHERE ${dialect.roleOfMember} = ?1 AND folded = ?2 RETURNING 1`,
          [id, foldedBytes(name)],
        );
        return removed.length === 0 ? 'not-a-member' : 'done';
      }),

    async list({ offset, limit, nameContains }) {
      const matching = `FROM ${roles} WHERE ${dialect.contains}`;
      // Without a role on the page, a row of nulls.
      const rows = await query(
        `SELECT found.total, page.id, page.name, page.description
         FROM (SELECT count(*) AS total ${matching}) found
         LEFT JOIN (
           SELECT id, name, description ${matching} ORDER BY id DESC LIMIT ?3 OFFSET ?2
         ) page ON true
         ORDER BY page.id DESC`,
        [foldedBytes(nameContains), offset, limit],
      );
      const listed = rows.filter(({ id }) => id !== null);
      return { roles: listed.map(summaryOf), total: Number(rows[0]?.['total']) };
    },

    async roleSet(userName) {
      const rows = await query(
        `SELECT s.roles_token AS token, m.${dialect.roleOfMember} AS role
         FROM ${storage} s LEFT JOIN ${members} m ON m.folded = ?1 ORDER BY role`,
        [foldedBytes(userName)],
      );
      const ids = rows.filter(({ role }) => role !== null).map(({ role }) => Number(role));
      return { token: String(only(rows)['token']), ids };
    },

    async token(lease) {
      const { token, noted } = only(
        await query(
          `SELECT roles_token AS token, roles_lease >= ?1
             AND roles_shared_until >= ${dialect.moment(SHARED_AT_LEAST)} AS noted FROM ${storage}`,
          [lease],
        ),
      );
      // A truth value of PostgreSQL, or of SQLite.
      if (noted === true || noted === 1) return String(token);
      // Waits for a change that is being committed; the token is then the new one.
      const renewed = await run('write', (session) =>
        session.rows(
          `UPDATE ${storage} SET
             roles_lease = CASE WHEN roles_shared_until > ${dialect.moment(0)} AND roles_lease > ?1
               THEN roles_lease ELSE ?1 END,
             roles_shared_until = ${dialect.moment(SHARED_FOR)}
           RETURNING roles_token AS token`,
          [lease],
        ),
      );
      return String(only(renewed)['token']);
    },

    async lease() {
      const rows =
        await query(`SELECT CASE WHEN roles_shared_until > ${dialect.moment(0)} THEN roles_lease ELSE 0 END AS lease
         FROM ${storage}`);
      return Number(only(rows)['lease']);
    },
  };
}

/** A document is kept before anything is locked, so that the locks are held for a short time only. */
function createDatasetStore(
  { dialect, run }: SqlDatabase,
  query: Session['rows'],
  wallClock: () => number,
): DatasetStore {
  const { documents, tables } = dialect;
  const now = () => Math.floor(wallClock() / 1_000);

  async function find(
    session: Session,
    { project, name }: Pick<Dataset, 'project' | 'name'>,
    columns: readonly string[],
    lock = '',
  ): Promise<Row | undefined> {
    const [row] = await session.rows(
      `SELECT ${columns.join(', ')} FROM ${tables.datasets} WHERE project = ?1 AND name = ?2${lock}`,
      [toBytes(project), toBytes(name)],
    );
    return row;
  }

  return {
    create: (dataset) =>
      run('write', async (session) => {
        if ((await find(session, dataset, ['id'])) !== undefined) return 'exists';
        const document = await documents.keep(session, dataset.document);
        const id = Number(only(await session.rows(dialect.takeId.dataset))['id']);
        const entry = { id, lastModified: now(), dataset };
        const result = await insertDataset(session, entry, document);
        return result === 'done' ? { id } : result;
      }),

    update: (dataset) =>
      run('write', async (session) => {
        if ((await find(session, dataset, ['id'])) === undefined) return 'no-such-dataset';
        const document = await documents.keep(session, dataset.document);
        const old = await find(session, dataset, ['id'], dialect.forUpdate);
        if (old === undefined) return 'no-such-dataset';
        const id = Number(old['id']);
        await documents.drop(session, id);
        const columns = documents.columns.map((column, i) => `, ${column} = ?${i + 4}`).join('');
        await session.rows(
          `UPDATE ${tables.datasets} SET type = ?2, last_modified = ?3${columns} WHERE id = ?1`,
          [id, toBytes(dataset.type), now(), ...document],
        );
        return { id };
      }),

    read: (project, name) =>
      run('snapshot', async (session) => {
        const found = await find(session, { project, name }, ['type', ...documents.columns]);
        if (found === undefined) return undefined;
        const document = await documents.load(session, found);
        return { project, name, type: textOf(found['type']), document };
      }),

    async list(project) {
      const columns = 'id, name, type, last_modified';
      const rows = await query(
        `SELECT ${columns} FROM ${tables.datasets} WHERE project = ?1 ORDER BY id`,
        [toBytes(project)],
      );
      return rows.map((row) => ({
        id: Number(row['id']),
        name: textOf(row['name']),
        type: textOf(row['type']),
        lastModified: Number(row['last_modified']),
      }));
    },
  };
}

/** Roles that a dump reads at one time. */
const PAGE = 100;

/** Everything in the storage, of one moment. */
async function* dumpRecords({ dialect, long }: SqlDatabase): AsyncGenerator<StorageRecord, void> {
  const { tables, documents } = dialect;
  const { session, end } = await long();
  try {
    await session.script(dialect.begin.snapshot);
    const head = only(await session.rows(dialect.head));
    yield {
      kind: 'head',
      roles: Number(head['roles']),
      datasets: Number(head['datasets']),
      nextRoleId: Number(head['role']),
      nextDatasetId: Number(head['dataset']),
    };
    for (let last = 0; ;) {
      const which = 'WHERE id > ?1 ORDER BY id LIMIT ?2';
      const roles = await readRoles(session, which, [last, PAGE]);
      for (const role of roles) yield { kind: 'role', role };
      if (roles.length === 0) break;
      last = roles.at(-1)?.id ?? last;
    }
    const columns = ['id', 'project', 'name', 'type', 'last_modified', ...documents.columns];
    const next = `SELECT ${columns.join(', ')} FROM ${tables.datasets} WHERE id > ?1 ORDER BY id LIMIT 1`;
    for (let last = 0; ;) {
      const [row] = await session.rows(next, [last]);
      if (row === undefined) return;
      last = Number(row['id']);
      yield {
        kind: 'dataset',
        id: last,
        lastModified: Number(row['last_modified']),
        dataset: {
          project: textOf(row['project']),
          name: textOf(row['name']),
          type: textOf(row['type']),
          document: await documents.load(session, row),
        },
      };
    }
  } finally {
    await end();
  }
}

/** @throws OperatorError when the storage holds something, or the records are not in order */
async function restoreRecords(
  { dialect, long }: SqlDatabase,
  records: AsyncIterable<StorageRecord>,
  rolesToken: string,
): Promise<void> {
  const { session, end } = await long();
  try {
    await session.script(dialect.begin.alone);
    const head = only(await session.rows(dialect.head));
    const others = Number(head['roles']) - 1;
    const datasets = Number(head['datasets']);
    refuseUnless(
      others === 0 && datasets === 0,
      `the storage is not empty: it holds ${others} roles beside the built-in one, and ${datasets} datasets`,
    );
    await session.rows(`DELETE FROM ${dialect.tables.roles} WHERE id = ?1`, [ADMIN_ROLE.id]);
    await writeRecords(session, records);
    await setRolesToken(session, rolesToken);
    await session.script('COMMIT');
  } finally {
    await end();
  }
}

/** @throws OperatorError when a record is missing, too much or not where it should be */
async function writeRecords(
  session: Session,
  records: AsyncIterable<StorageRecord>,
): Promise<void> {
  const { documents, advanceIds } = session.dialect;
  let head: Extract<StorageRecord, { kind: 'head' }> | undefined;
  const last = { role: 0, dataset: 0 };
  const counted = { role: 0, dataset: 0 };
  for await (const record of records) {
    const { kind } = record;
    const first = head === undefined;
    refuseUnless((kind === 'head') === first, 'the records must begin with a head, their only one');
    if (kind === 'head') {
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
      refuseUnless(made === 'done', `role ${id} has the name of another one`);
    } else {
      const document = await documents.keep(session, record.dataset.document);
      const made = await insertDataset(session, record, document);
      refuseUnless(made === 'done', `dataset ${id} has the project and name of another one`);
    }
  }
  if (head === undefined) throw new OperatorError('there are no records');
  refuseUnless(
    counted.role === head.roles && counted.dataset === head.datasets,
    `the head names ${head.roles} roles and ${head.datasets} datasets, but ${counted.role} and ${counted.dataset} came`,
  );
}

function refuseUnless(holds: boolean, problem: string): void {
  if (!holds) throw new OperatorError(problem);
}
