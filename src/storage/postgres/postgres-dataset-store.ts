import type { DatasetStore } from '../../datasets/dataset-store.ts';
import type { DatasetIdentity, DatasetSummary } from '../../datasets/dataset.ts';
import { bytes } from './bytes.ts';
import type { BigintText } from './bytes.ts';
import { takeId } from './counters.ts';
import type { Database } from './database.ts';
import { insertDataset } from './dataset-rows.ts';
import { dropDocument, getDocument, putDocument } from './documents.ts';
import type { StoredDocument } from './documents.ts';
import type { Session } from './session.ts';

/**
 * Datasets in PostgreSQL. A document is sent before anything is locked, so that the locks, first the counter or
 * the row of the dataset, are held for a short time only.
 * @param wallClock milliseconds since 1970
 */
export function createPostgresDatasetStore(
  database: Database,
  wallClock: () => number,
): DatasetStore {
  const now = () => Math.floor(wallClock() / 1_000);
  return {
    create: (dataset) =>
      database.write(async (session) => {
        if ((await find(session, dataset)) !== undefined) return 'exists';
        const document = await putDocument(session, dataset.document);
        const id = await takeId(session, 'dataset');
        const result = await insertDataset(session, { id, lastModified: now(), dataset }, document);
        return result === 'done' ? { id } : result;
      }),

    update: (dataset) =>
      database.write(async (session) => {
        if ((await find(session, dataset)) === undefined) return 'no-such-dataset';
        const document = await putDocument(session, dataset.document);
        const old = await find(session, dataset, 'FOR UPDATE');
        if (old === undefined) return 'no-such-dataset';
        await session.rows(
          `UPDATE mdx_gateway_datasets SET type = $2, last_modified = $3, document = $4, octets = $5
           WHERE id = $1`,
          [old.id, bytes(dataset.type), now(), document, dataset.document.length],
        );
        await dropDocument(session, old.document);
        return { id: Number(old.id) };
      }),

    read: (project, name) =>
      database.snapshot(async (session) => {
        const found = await find(session, { project, name });
        if (found === undefined) return undefined;
        const document = await getDocument(session, found);
        return { project, name, type: found.type.toString(), document };
      }),

    list: (project) =>
      database.read(async (session) => {
        const rows = await session.rows<ListRow>(
          `SELECT id, name, type, last_modified FROM mdx_gateway_datasets WHERE project = $1 ORDER BY id`,
          [bytes(project)],
        );
        return rows.map((row): DatasetSummary => {
          const { id, name, type, last_modified } = row;
          return {
            id: Number(id),
            name: name.toString(),
            type: type.toString(),
            lastModified: Number(last_modified),
          };
        });
      }),
  };
}

interface ListRow {
  readonly id: BigintText;
  readonly name: Buffer;
  readonly type: Buffer;
  readonly last_modified: BigintText;
}

interface FoundRow extends StoredDocument {
  readonly id: BigintText;
  readonly type: Buffer;
}

async function find(
  session: Session,
  { project, name }: Pick<DatasetIdentity, 'project' | 'name'>,
  lock: 'FOR UPDATE' | '' = '',
): Promise<FoundRow | undefined> {
  const [row] = await session.rows<FoundRow>(
    `SELECT id, type, document, octets FROM mdx_gateway_datasets WHERE project = $1 AND name = $2 ${lock}`,
    [bytes(project), bytes(name)],
  );
  return row;
}
