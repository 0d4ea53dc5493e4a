import type { StorageRecord } from '../storage.ts';
import { bytes } from './bytes.ts';
import type { BigintText } from './bytes.ts';
import type { Session } from './session.ts';

/** A dataset with its id and its time. */
export type DatasetEntry = Omit<Extract<StorageRecord, { kind: 'dataset' }>, 'kind'>;

/** @param document where its document is kept already */
export async function insertDataset(
  session: Session,
  { id, lastModified, dataset }: DatasetEntry,
  document: BigintText,
): Promise<'done' | 'exists'> {
  const project = bytes(dataset.project);
  const name = bytes(dataset.name);
  const type = bytes(dataset.type);
  const rows = await session.rows(
    `INSERT INTO mdx_gateway_datasets (id, project, name, type, last_modified, document, octets)
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (project, name) DO NOTHING RETURNING id`,
    [id, project, name, type, lastModified, document, dataset.document.length],
  );
  return rows.length === 0 ? 'exists' : 'done';
}
