import { foldCase } from '../common/fold-case.ts';
import { ADMIN_ROLE, type Role } from '../roles/role.ts';
import {
  insertDataset,
  insertRole,
  only,
  readRoles,
  setRolesToken,
  textOf,
  type SqlDatabase,
} from './sql-database.ts';
import { OperatorError, type StorageRecord } from './storage.ts';

/** Roles that a dump reads at one time. */
const PAGE = 100;

/** Everything in the storage, of one moment. */
export async function* dumpRecords(
  { dialect }: Pick<SqlDatabase, 'dialect'>,
  begin: () => ReturnType<SqlDatabase['long']>,
): AsyncGenerator<StorageRecord, void> {
  const { tables, documents } = dialect;
  const { session, end } = await begin();
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
      const which = 'WHERE id > ?1 ORDER BY id LIMIT ?2';
      const roles = await readRoles(dialect, session, which, [last, PAGE]);
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
export async function restoreRecords(
  { dialect, long }: SqlDatabase,
  records: AsyncIterable<StorageRecord>,
  rolesToken: string,
): Promise<void> {
  const { session, end } = await long('write');
  try {
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
        if ((await insertRole(dialect, session, record.role)) === 'done') continue;
        throw new OperatorError(`role ${record.role.id} has the name of another one`);
      } else {
        const document = await dialect.documents.keep(session, record.dataset.document);
        if ((await insertDataset(dialect, session, record, document)) === 'done') continue;
        throw new OperatorError(`dataset ${record.id} has the project and name of another one`);
      }
    }
    await setRolesToken(dialect, session, rolesToken);
    await session.commit();
  } finally {
    await end();
  }
}

/**
 * The same records; fails when one is missing, too much or not where it should be.
 * @throws OperatorError
 */
async function* inOrder(
  records: AsyncIterable<StorageRecord>,
): AsyncGenerator<StorageRecord, void, undefined> {
  let head: Extract<StorageRecord, { kind: 'head' }> | undefined;
  const last = { role: 0, dataset: 0 };
  const counted = { role: 0, dataset: 0 };
  for await (const record of records) {
    const { kind } = record;
    if (kind === 'head') {
      refuseUnless(head === undefined, 'the records hold two heads');
      head = record;
    } else {
      if (head === undefined) throw new OperatorError('the records must begin with a head');
      const id = kind === 'role' ? record.role.id : record.id;
      const next = kind === 'role' ? head.nextRoleId : head.nextDatasetId;
      refuseUnless(id > last[kind], `${kind} ${id} stands behind ${kind} ${last[kind]}`);
      refuseUnless(id < next, `${kind} ${id} is not below the next id, which is ${next}`);
      if (kind === 'role') {
        refuseUnless(counted.dataset === 0, 'a role stands behind a dataset');
        refuseUnless(
          counted.role > 0 || id === ADMIN_ROLE.id,
          `the first role must be the built-in one, ${ADMIN_ROLE.id}`,
        );
        // Each driver would do something else with them.
        refuseUnless(!hasRepeatedMember(record.role), `role ${id} has a member twice`);
      }
      last[kind] = id;
      counted[kind] += 1;
    }
    yield record;
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

function hasRepeatedMember({ contains }: Role): boolean {
  return new Set(contains.map(({ name }) => foldCase(name))).size < contains.length;
}
