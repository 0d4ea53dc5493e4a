import type { StorageRecord } from '../storage.ts';
import type { BigintText } from './bytes.ts';
import type { Database } from './database.ts';
import { getDocument } from './documents.ts';
import type { StoredDocument } from './documents.ts';
import { ROLE_COLUMNS, roleOf } from './role-rows.ts';
import type { RoleRow } from './role-rows.ts';
import type { Session } from './session.ts';

/** Rows that are read at one time. */
const PAGE = 50;

/** Everything in the storage, of one moment. */
export async function* dumpDatabase(database: Database): AsyncGenerator<StorageRecord, void> {
  const { session, end } = await database.longSnapshot();
  try {
    yield await readHead(session);
    const roles = pages<RoleRow>(
      session,
      `SELECT ${ROLE_COLUMNS} FROM mdx_gateway_roles r WHERE r.id > $1 ORDER BY r.id LIMIT $2`,
    );
    for await (const row of roles) yield { kind: 'role', role: roleOf(row) };
    const datasets = pages<DatasetRow>(
      session,
      'SELECT * FROM mdx_gateway_datasets WHERE id > $1 ORDER BY id LIMIT $2',
    );
    for await (const row of datasets) {
      yield {
        kind: 'dataset',
        id: Number(row.id),
        lastModified: Number(row.last_modified),
        dataset: {
          project: row.project.toString(),
          name: row.name.toString(),
          type: row.type.toString(),
          document: await getDocument(session, row),
        },
      };
    }
  } finally {
    end();
  }
}

interface DatasetRow extends StoredDocument {
  readonly id: BigintText;
  readonly project: Buffer;
  readonly name: Buffer;
  readonly type: Buffer;
  readonly last_modified: BigintText;
}

async function readHead(session: Session): Promise<StorageRecord> {
  const [row] = await session.rows<Record<'roles' | 'datasets' | 'role' | 'dataset', BigintText>>(
    `SELECT (SELECT count(*) FROM mdx_gateway_roles) AS roles,
       (SELECT count(*) FROM mdx_gateway_datasets) AS datasets,
       (SELECT next FROM mdx_gateway_counters WHERE kind = 'role') AS role,
       (SELECT next FROM mdx_gateway_counters WHERE kind = 'dataset') AS dataset`,
  );
  return {
    kind: 'head',
    roles: Number(row?.roles),
    datasets: Number(row?.datasets),
    nextRoleId: Number(row?.role),
    nextDatasetId: Number(row?.dataset),
  };
}

async function* pages<Row extends { readonly id: BigintText }>(
  session: Session,
  text: string,
): AsyncGenerator<Row, void> {
  for (let last: BigintText = '0'; ;) {
    const rows = await session.rows<Row>(text, [last, PAGE]);
    yield* rows;
    const end = rows.at(-1);
    if (end === undefined) return;
    last = end.id;
  }
}
