import type { DatabaseSync } from 'node:sqlite';
import type { DatasetIdentity, DatasetSummary } from '../../datasets/dataset.ts';
import { textOf, toBytes } from './text.ts';
import { reading, writing } from './transactions.ts';

/** A dataset as it crosses the threads, which know no Buffer. */
export interface SentDataset extends DatasetIdentity {
  readonly document: Uint8Array<ArrayBuffer>;
}

/** A dataset of a dump. */
export interface KeptDataset extends SentDataset {
  readonly id: number;
  /** Whole seconds since 1970 (UTC). */
  readonly lastModified: number;
}

/** What a port of datasets does, in the thread of the database. Each one is a transaction. */
export function createDatasetOperations(database: DatabaseSync) {
  const sql = (text: string) => database.prepare(text);
  const takeId = sql(
    'UPDATE storage SET next_dataset_id = next_dataset_id + 1 RETURNING next_dataset_id - 1 AS id',
  );
  const find = sql('SELECT id FROM dataset WHERE project = ? AND name = ?');
  const insert = sql(`
    INSERT INTO dataset (id, project, name, type, last_modified, document)
    VALUES (?, ?, ?, ?, ?, ?)
  `);
  const replace = sql('UPDATE dataset SET type = ?, last_modified = ?, document = ? WHERE id = ?');
  const read = sql('SELECT type, document FROM dataset WHERE project = ? AND name = ?');
  const list = sql(`
    SELECT id, name, type, last_modified FROM dataset WHERE project = ? ORDER BY id
  `);
  const after = sql(`
    SELECT id, project, name, type, last_modified, document FROM dataset
    WHERE id > ? ORDER BY id LIMIT 1
  `);

  const insertDataset = (dataset: KeptDataset) => {
    const { id, project, name, type, lastModified, document } = dataset;
    insert.run(id, toBytes(project), toBytes(name), toBytes(type), lastModified, document);
  };
  const idOf = (project: string, name: string) => {
    const found = find.get(toBytes(project), toBytes(name));
    return found === undefined ? undefined : Number(found['id']);
  };

  return {
    createDataset: (dataset: SentDataset, lastModified: number) =>
      writing(database, () => {
        if (idOf(dataset.project, dataset.name) !== undefined) return 'exists';
        const id = Number(takeId.get()?.['id']);
        insertDataset({ ...dataset, id, lastModified });
        return { id };
      }),

    updateDataset: ({ project, name, type, document }: SentDataset, lastModified: number) =>
      writing(database, () => {
        const id = idOf(project, name);
        if (id === undefined) return 'no-such-dataset';
        replace.run(toBytes(type), lastModified, document, id);
        return { id };
      }),

    readDataset: (project: string, name: string): SentDataset | undefined =>
      reading(database, () => {
        const found = read.get(toBytes(project), toBytes(name));
        if (found === undefined) return undefined;
        return { project, name, type: textOf(found['type']), document: bytesOf(found) };
      }),

    listDatasets: (project: string) =>
      reading(database, () =>
        list.all(toBytes(project)).map((found): DatasetSummary => ({
          id: Number(found['id']),
          name: textOf(found['name']),
          type: textOf(found['type']),
          lastModified: Number(found['last_modified']),
        })),
      ),

    /** The next one behind an id. Within a transaction that is under way. */
    datasetAfter(id: number): KeptDataset | undefined {
      const found = after.get(id);
      if (found === undefined) return undefined;
      return {
        id: Number(found['id']),
        project: textOf(found['project']),
        name: textOf(found['name']),
        type: textOf(found['type']),
        lastModified: Number(found['last_modified']),
        document: bytesOf(found),
      };
    },

    /** Within a transaction that is under way. */
    insertDataset,
  };
}

const bytesOf = (row: Readonly<Record<string, unknown>>) =>
  row['document'] as Uint8Array<ArrayBuffer>;
