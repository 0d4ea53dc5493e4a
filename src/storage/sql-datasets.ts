import type { Dataset, DatasetStore } from '../datasets/dataset.ts';
import {
  only,
  type QueriedDatabase,
  type Session,
  type StorageRecord,
  textOf,
  toBytes,
  type Value,
} from './sql-database.ts';

/** Keeps a document before it locks anything, so that locks are held briefly. */
export function createDatasetStore(
  database: QueriedDatabase,
  wallClock: () => number,
): DatasetStore {
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

export async function insertDataset(
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
