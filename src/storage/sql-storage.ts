import type { Dataset, DatasetSummary, DatasetStore } from '../datasets/dataset.ts';
import { foldCase } from '../fold-case.ts';
import {
  ADMIN_ROLE,
  type Member,
  type Role,
  SHARED_AT_LEAST,
  SHARED_FOR,
  type RoleStore,
} from '../roles/role.ts';
import { inOrder } from './record-order.ts';
import { OperatorError, type Storage, type StorageRecord } from './storage.ts';

/** What a statement can be given. Text of users is kept as bytes, see {@link toBytes}. */
export type Value = string | number | Uint8Array;

/** One row, by the names of its columns. Drivers differ in how they hand out numbers and bytes. */
export type Row = Readonly<Record<string, unknown>>;

/** One connection, for the time of one operation. */
export interface Session {
  /**
   * Runs one statement, whose values stand as `?1`, `?2` … in its text.
   * @throws StorageUnavailable `nothing-done`: what it is part of is undone
   */
  rows(text: string, values?: readonly Value[]): Promise<readonly Row[]>;
}

/** Port: a database that runs statements. Methods reject with StorageUnavailable when it is not to be had. */
export interface SqlDatabase<S extends Session> {
  readonly dialect: Dialect<S>;
  /** Brings the schema up to date. */
  open(): Promise<void>;
  /** Statements that change nothing, each for itself. */
  read<T>(work: (session: S) => Promise<T>): Promise<T>;
  /** Statements that change nothing, and see one moment. */
  snapshot<T>(work: (session: S) => Promise<T>): Promise<T>;
  /**
   * A transaction. It is rolled back when the result is a word other than `done`, and when the work throws.
   * The work may be done twice, if the first time was in vain.
   */
  write<T>(work: (session: S) => Promise<T>): Promise<T>;
  /** A long snapshot, which `end` ends. */
  longSnapshot(): Promise<{ readonly session: S; end(): void }>;
  /** As `write`, for long work that is done once. */
  longWrite<T>(work: (session: S) => Promise<T>): Promise<T>;
  /** Whether it answers now. Never rejects. */
  answers(): Promise<boolean>;
  close(): Promise<void>;
}

/** What the SQL of two databases differs in. */
export interface Dialect<S extends Session> {
  readonly tables: Readonly<Record<'storage' | 'roles' | 'members' | 'datasets', string>>;
  /** The column of a member that names its role. */
  readonly roleOfMember: string;
  /** Locks the rows that a SELECT finds, against every change and against changes of the row itself. */
  readonly forUpdate: string;
  readonly forShare: string;
  /** Waits until no other transaction gives a role a name; undefined where writes come one by one anyway. */
  readonly lockNames: string | undefined;
  /** The same for everything that makes ids. */
  readonly lockIds: string | undefined;
  /** Gives the next id away, as `id`. */
  readonly takeId: Readonly<Record<'role' | 'dataset', string>>;
  /** How many `roles` and `datasets` there are, and the ids that come next, `role` and `dataset`. */
  readonly head: string;
  /** Sees to it that the next ids are at least ?1 for roles and ?2 for datasets. */
  readonly advanceIds: string;
  /** Whether the bytes ?1 stand in the column `folded`. */
  readonly contains: string;
  /** The larger one of two numbers or moments. */
  readonly greatest: string;
  /** The moment that many milliseconds from now, as `roles_shared_until` has it. */
  moment(milliseconds: number): string;
  /** Adds members at the end of role ?1, each once, and returns a row for each that was not there: ?2 as by {@link membersJson}. */
  readonly insertMembers: string;
  /** Where documents are: the columns of a dataset that lead to its document. */
  readonly documents: {
    readonly columns: readonly string[];
    /** Those of them that `drop` needs. */
    readonly dropped: readonly string[];
    /** Keeps a document that belongs to nothing yet. @returns the values of the columns */
    keep(session: S, document: Buffer): Promise<readonly Value[]>;
    /** @param row with the columns */
    load(session: S, row: Row): Promise<Buffer>;
    drop(session: S, row: Row): Promise<void>;
  };
}

/**
 * Text is kept as the bytes of its UTF-8: it is then compared exactly and may hold NUL, whatever the encoding and the
 * collation of a database. Well-formed text only.
 */
export const toBytes = (text: string): Buffer => Buffer.from(text);
const foldedBytes = (name: string): Buffer => toBytes(foldCase(name));

/** Names and folded names in hexadecimal, for statements that take a list of them. */
const membersJson = (members: readonly Member[]): string =>
  JSON.stringify(
    members.map(({ name }) => [toBytes(name), foldedBytes(name)].map((b) => b.toString('hex'))),
  );

/** @param value a column of bytes */
export function bytesOf(value: unknown): Buffer {
  const { buffer, byteOffset, byteLength } = value as Uint8Array<ArrayBuffer>;
  return Buffer.from(buffer, byteOffset, byteLength);
}
const textOf = (value: unknown): string => bytesOf(value).toString();

/** Roles that a dump reads at one time. */
const PAGE = 100;

/** The storage that stands on a SQL database: roles and datasets, with one store for all dialects. */
export function createSqlStorage<S extends Session>(options: {
  readonly database: SqlDatabase<S>;
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** A random token. */
  readonly newToken: () => string;
}): Storage {
  const { database } = options;
  return {
    roles: createRoleStore(database, options.newToken),
    datasets: createDatasetStore(database, options.wallClock),
    open: () => database.open(),
    id: () =>
      database.read(async (session) =>
        String(only(await session.rows(`SELECT id FROM ${database.dialect.tables.storage}`))['id']),
      ),
    reachable: () => database.answers(),
    dump: () => dumpRecords(database),
    restore: (records) => restoreRecords(database, records, options.newToken),
    close: () => database.close(),
  };
}

/**
 * Locks are taken in this order: the names of all roles for a change that gives a role a name; the row of the role,
 * shared for a change of one member, alone for every other change; the row with the token, last.
 */
function createRoleStore<S extends Session>(
  database: SqlDatabase<S>,
  newToken: () => string,
): RoleStore {
  const { dialect } = database;
  const { storage, roles, members } = dialect.tables;

  /** A change that succeeds makes the role sets that were read before old. */
  const changing = <T>(change: (session: S) => Promise<T>): Promise<T> =>
    database.write(async (session) => {
      const result = await change(session);
      if (typeof result !== 'string' || result === 'done') {
        await setRolesToken(database, session, newToken());
      }
      return result;
    });

  /** Runs a change of one member while the role neither goes nor changes its name. */
  const inRole = <T>(id: number, roleName: string, change: (session: S) => Promise<T>) =>
    changing(async (session) => {
      const [role] = await session.rows(
        `SELECT folded FROM ${roles} WHERE id = ?1${dialect.forShare}`,
        [id],
      );
      if (role === undefined) return 'no-such-role';
      if (textOf(role['folded']) !== foldCase(roleName)) return 'other-name';
      return await change(session);
    });

  return {
    create: (role) =>
      changing(async (session) => {
        const id = await takeId(database, session, 'role');
        const result = await insertRole(database, session, { id, ...role });
        return result === 'done' ? { id } : result;
      }),

    read: (id) =>
      database.read(async (session) => {
        const rows = await session.rows(rolesWithMembers(dialect, 'WHERE id = ?1'), [id]);
        return rolesOf(rows)[0];
      }),

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

    list: ({ offset, limit, nameContains }) =>
      database.read(async (session) => {
        const matching = `FROM ${roles} WHERE ${dialect.contains}`;
        // One statement, so that list and number are of one moment; without a role on the page, a row of nulls.
        const rows = await session.rows(
          `SELECT found.total, page.id, page.name, page.description
           FROM (SELECT count(*) AS total ${matching}) found
           LEFT JOIN (
             SELECT id, name, description ${matching} ORDER BY id DESC LIMIT ?3 OFFSET ?2
           ) page ON true
           ORDER BY page.id DESC`,
          [foldedBytes(nameContains), offset, limit],
        );
        const listed = rows.filter((row) => row['id'] !== null);
        return {
          roles: listed.map(({ id, name, description }) => ({
            id: Number(id),
            name: textOf(name),
            description: textOf(description),
          })),
          total: Number(rows[0]?.['total']),
        };
      }),

    roleSet: (userName) =>
      database.read(async (session) => {
        // One statement, so that token and roles are of one moment.
        const rows = await session.rows(
          `SELECT s.roles_token AS token, m.${dialect.roleOfMember} AS role
           FROM ${storage} s LEFT JOIN ${members} m ON m.folded = ?1 ORDER BY role`,
          [foldedBytes(userName)],
        );
        const ids = rows.filter(({ role }) => role !== null).map(({ role }) => Number(role));
        return { token: String(rows[0]?.['token']), ids };
      }),

    async token(lease) {
      const noted = await database.read(async (session) =>
        only(
          await session.rows(
            `SELECT roles_token AS token, roles_lease >= ?1
               AND roles_shared_until >= ${dialect.moment(SHARED_AT_LEAST)} AS noted FROM ${storage}`,
            [lease],
          ),
        ),
      );
      if (noted['noted'] === true || noted['noted'] === 1) return String(noted['token']);
      // Waits for a change that is being committed; the token is then the new one.
      const { token } = await database.write(async (session) =>
        only(
          await session.rows(
            `UPDATE ${storage} SET
               roles_lease = CASE WHEN roles_shared_until > ${dialect.moment(0)}
                 THEN ${dialect.greatest}(roles_lease, ?1) ELSE ?1 END,
               roles_shared_until = ${dialect.greatest}(roles_shared_until, ${dialect.moment(SHARED_FOR)})
             RETURNING roles_token AS token`,
            [lease],
          ),
        ),
      );
      return String(token);
    },

    lease: () =>
      database.read(async (session) => {
        const rows = await session.rows(
          `SELECT CASE WHEN roles_shared_until > ${dialect.moment(0)} THEN roles_lease ELSE 0 END AS lease
           FROM ${storage}`,
        );
        return Number(only(rows)['lease']);
      }),
  };
}

/**
 * A document is kept before anything is locked, so that the locks, first those of the ids or the row of the dataset, are
 * held for a short time only.
 */
function createDatasetStore<S extends Session>(
  database: SqlDatabase<S>,
  wallClock: () => number,
): DatasetStore {
  const { dialect } = database;
  const { documents, tables } = dialect;
  const now = () => Math.floor(wallClock() / 1_000);

  async function find(
    session: S,
    { project, name }: Pick<Dataset, 'project' | 'name'>,
    columns: string,
    lock = '',
  ): Promise<Row | undefined> {
    const [row] = await session.rows(
      `SELECT ${columns} FROM ${tables.datasets} WHERE project = ?1 AND name = ?2${lock}`,
      [toBytes(project), toBytes(name)],
    );
    return row;
  }

  return {
    create: (dataset) =>
      database.write(async (session) => {
        if ((await find(session, dataset, 'id')) !== undefined) return 'exists';
        const document = await documents.keep(session, dataset.document);
        const id = await takeId(database, session, 'dataset');
        const entry = { id, lastModified: now(), dataset };
        const result = await insertDataset(database, session, entry, document);
        return result === 'done' ? { id } : result;
      }),

    update: (dataset) =>
      database.write(async (session) => {
        if ((await find(session, dataset, 'id')) === undefined) return 'no-such-dataset';
        const document = await documents.keep(session, dataset.document);
        const known = ['id', ...documents.dropped].join(', ');
        const old = await find(session, dataset, known, dialect.forUpdate);
        if (old === undefined) return 'no-such-dataset';
        const id = Number(old['id']);
        const columns = documents.columns.map((column, i) => `, ${column} = ?${i + 4}`).join('');
        await session.rows(
          `UPDATE ${tables.datasets} SET type = ?2, last_modified = ?3${columns} WHERE id = ?1`,
          [id, toBytes(dataset.type), now(), ...document],
        );
        await documents.drop(session, old);
        return { id };
      }),

    read: (project, name) =>
      database.snapshot(async (session) => {
        const columns = ['type', ...documents.columns].join(', ');
        const found = await find(session, { project, name }, columns);
        if (found === undefined) return undefined;
        const document = await documents.load(session, found);
        return { project, name, type: textOf(found['type']), document };
      }),

    list: (project) =>
      database.read(async (session) => {
        const rows = await session.rows(
          `SELECT id, name, type, last_modified FROM ${tables.datasets} WHERE project = ?1 ORDER BY id`,
          [toBytes(project)],
        );
        return rows.map(({ id, name, type, last_modified: lastModified }): DatasetSummary => ({
          id: Number(id),
          name: textOf(name),
          type: textOf(type),
          lastModified: Number(lastModified),
        }));
      }),
  };
}

/** Everything in the storage, of one moment. */
async function* dumpRecords<S extends Session>({
  dialect,
  longSnapshot,
}: SqlDatabase<S>): AsyncGenerator<StorageRecord, void> {
  const { tables, documents } = dialect;
  const { session, end } = await longSnapshot();
  try {
    const head = only(await session.rows(dialect.head));
    yield {
      kind: 'head',
      roles: Number(head['roles']),
      datasets: Number(head['datasets']),
      nextRoleId: Number(head['role']),
      nextDatasetId: Number(head['dataset']),
    };
    for (let last = 0; ;) {
      const page = rolesWithMembers(dialect, 'WHERE id > ?1 ORDER BY id LIMIT ?2');
      const roles = rolesOf(await session.rows(page, [last, PAGE]));
      for (const role of roles) yield { kind: 'role', role };
      if (roles.length === 0) break;
      last = roles.at(-1)?.id ?? last;
    }
    const columns = ['id', 'project', 'name', 'type', 'last_modified', ...documents.columns];
    for (let last = 0; ;) {
      const [row] = await session.rows(
        `SELECT ${columns.join(', ')} FROM ${tables.datasets} WHERE id > ?1 ORDER BY id LIMIT 1`,
        [last],
      );
      if (row === undefined) return;
      last = Number(row['id']);
      const [project, name, type] = ['project', 'name', 'type'].map((column) =>
        textOf(row[column]),
      );
      const document = await documents.load(session, row);
      yield {
        kind: 'dataset',
        id: last,
        lastModified: Number(row['last_modified']),
        dataset: { project: project ?? '', name: name ?? '', type: type ?? '', document },
      };
    }
  } finally {
    end();
  }
}

async function restoreRecords<S extends Session>(
  database: SqlDatabase<S>,
  records: AsyncIterable<StorageRecord>,
  newToken: () => string,
): Promise<void> {
  const { dialect } = database;
  await database.longWrite(async (session) => {
    // Held to the end, so that nothing is created beside it.
    if (dialect.lockIds !== undefined) await session.rows(dialect.lockIds);
    const head = only(await session.rows(dialect.head));
    const others = Number(head['roles']) - 1;
    const datasets = Number(head['datasets']);
    if (others > 0 || datasets > 0) {
      throw new OperatorError(
        `the storage is not empty: it holds ${others} roles beside the built-in one, and ${datasets} datasets`,
      );
    }
    await session.rows(`DELETE FROM ${dialect.tables.roles} WHERE id = ?1`, [ADMIN_ROLE.id]);
    for await (const record of inOrder(records)) {
      if (record.kind === 'head') {
        await session.rows(dialect.advanceIds, [record.nextRoleId, record.nextDatasetId]);
      } else if (record.kind === 'role') {
        if ((await insertRole(database, session, record.role)) === 'done') continue;
        throw new OperatorError(`role ${record.role.id} has the name of another one`);
      } else {
        const document = await dialect.documents.keep(session, record.dataset.document);
        if ((await insertDataset(database, session, record, document)) === 'done') continue;
        throw new OperatorError(`dataset ${record.id} has the project and name of another one`);
      }
    }
    await setRolesToken(database, session, newToken());
    return 'done';
  });
}

/** Adds a role with its members, each once. */
export async function insertRole<S extends Session>(
  { dialect }: Pick<SqlDatabase<S>, 'dialect'>,
  session: S,
  { id, name, description, contains }: Role,
): Promise<'done' | 'name-taken'> {
  const rows = await session.rows(
    `INSERT INTO ${dialect.tables.roles} (id, name, folded, description) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (folded) DO NOTHING RETURNING id`,
    [id, toBytes(name), foldedBytes(name), toBytes(description)],
  );
  if (rows.length === 0) return 'name-taken';
  await session.rows(dialect.insertMembers, [id, membersJson(contains)]);
  return 'done';
}

async function insertDataset<S extends Session>(
  { dialect }: SqlDatabase<S>,
  session: S,
  entry: Omit<Extract<StorageRecord, { kind: 'dataset' }>, 'kind'>,
  document: readonly Value[],
): Promise<'done' | 'exists'> {
  const { id, lastModified, dataset } = entry;
  const { columns } = dialect.documents;
  const places = columns.map((_, i) => `?${i + 6}`);
  const rows = await session.rows(
    `INSERT INTO ${dialect.tables.datasets} (id, project, name, type, last_modified, ${columns.join(', ')})
     VALUES (?1, ?2, ?3, ?4, ?5, ${places.join(', ')}) ON CONFLICT (project, name) DO NOTHING RETURNING id`,
    [
      id,
      toBytes(dataset.project),
      toBytes(dataset.name),
      toBytes(dataset.type),
      lastModified,
      ...document,
    ],
  );
  return rows.length === 0 ? 'exists' : 'done';
}

/**
 * Gives the roles a new token. The last statement of every change of a role: the row is locked until its transaction
 * ends, so that changes of all roles are committed one after the other, and what a token stands for is of one moment.
 */
async function setRolesToken<S extends Session>(
  { dialect }: SqlDatabase<S>,
  session: S,
  token: string,
): Promise<void> {
  await session.rows(`UPDATE ${dialect.tables.storage} SET roles_token = ?1`, [token]);
}

/** The next id. It is rolled back with its transaction: so ids are consecutive. */
async function takeId<S extends Session>(
  { dialect }: SqlDatabase<S>,
  session: S,
  kind: 'role' | 'dataset',
): Promise<number> {
  return Number(only(await session.rows(dialect.takeId[kind]))['id']);
}

/** Selects roles, each with a row for each of its members, or one with nulls. @param which conditions, order, limit */
function rolesWithMembers({ tables, roleOfMember }: Dialect<never>, which: string): string {
  return `SELECT r.id, r.name, r.description, m.name AS member
    FROM (SELECT id, name, description FROM ${tables.roles} ${which}) r
    LEFT JOIN ${tables.members} m ON m.${roleOfMember} = r.id
    ORDER BY r.id, m.position`;
}

function rolesOf(rows: readonly Row[]): readonly Role[] {
  const found = new Map<number, Role & { readonly contains: Member[] }>();
  for (const { id, name, description, member } of rows) {
    const key = Number(id);
    const role = found.get(key) ?? {
      id: key,
      name: textOf(name),
      description: textOf(description),
      contains: [],
    };
    found.set(key, role);
    if (member !== null) role.contains.push({ type: 'user', name: textOf(member) });
  }
  return [...found.values()];
}

/** @throws Error when there is no row where there always is one */
function only(rows: readonly Row[]): Row {
  const [row] = rows;
  if (row === undefined) throw new Error('The storage has lost the row of its own.');
  return row;
}
