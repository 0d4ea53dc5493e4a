import { ADMIN_ROLE } from '../../roles/role.ts';
import type { StorageRecord } from '../storage.ts';
import type { BigintText } from './bytes.ts';
import type { Database } from './database.ts';
import { insertDataset } from './dataset-rows.ts';
import { putDocument } from './documents.ts';
import { inOrder } from '../record-order.ts';
import { insertRole } from './role-rows.ts';
import { setRolesToken } from './role-sharing.ts';
import type { Session } from './session.ts';

/**
 * Fills an empty storage with what another one dumped.
 * @param token what the roles have from then on
 * @throws Error with one line for the operator when the storage is not empty or the records are not in order
 */
export async function restoreDatabase(
  database: Database,
  records: AsyncIterable<StorageRecord>,
  token: string,
): Promise<void> {
  await database.longWrite(async (session) => {
    // Held to the end, so that nothing is created beside it.
    const counters = await session.rows(
      'SELECT FROM mdx_gateway_counters ORDER BY kind FOR UPDATE',
    );
    if (counters.length !== 2) throw new Error('The table mdx_gateway_counters is damaged.');
    await checkEmpty(session);
    await session.rows('DELETE FROM mdx_gateway_roles');
    for await (const record of inOrder(records)) await take(session, record);
    await setRolesToken(session, token);
    return 'done';
  });
}

async function checkEmpty(session: Session): Promise<void> {
  const [row] = await session.rows<Record<'roles' | 'datasets', BigintText>>(
    `SELECT (SELECT count(*) FROM mdx_gateway_roles WHERE id <> $1) AS roles,
       (SELECT count(*) FROM mdx_gateway_datasets) AS datasets`,
    [ADMIN_ROLE.id],
  );
  if (row?.roles === '0' && row.datasets === '0') return;
  throw new Error(
    `the storage is not empty: it holds ${row?.roles} roles beside the built-in one, and ${row?.datasets} datasets`,
  );
}

async function take(session: Session, record: StorageRecord): Promise<void> {
  switch (record.kind) {
    case 'head':
      await session.rows(
        `UPDATE mdx_gateway_counters
         SET next = greatest(next, CASE kind WHEN 'role' THEN $1::bigint ELSE $2::bigint END)`,
        [record.nextRoleId, record.nextDatasetId],
      );
      return;
    case 'role':
      if ((await insertRole(session, record.role)) === 'done') return;
      throw new Error(`the role ${record.role.id} has the name of another role`);
    case 'dataset': {
      const document = await putDocument(session, record.dataset.document);
      if ((await insertDataset(session, record, document)) === 'done') return;
      throw new Error(`the dataset ${record.id} has the project and name of another one`);
    }
  }
}
