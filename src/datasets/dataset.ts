import { z } from 'zod';

/**
 * Datasets as the interface document §2.3 has them: documents that belong to a project. With the port behind which
 * they are kept, and what the queries of dataset requests may hold (§4.2).
 */

/** What a document says of itself. Project and name together are unique, and compared exactly. */
export interface DatasetIdentity {
  readonly project: string;
  readonly name: string;
  /** As it was spelt; compared without regard to case. */
  readonly type: string;
}

export interface Dataset extends DatasetIdentity {
  /** The bytes that were imported. */
  readonly document: Buffer;
}

/** A dataset as it is listed. */
export interface DatasetSummary {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  /** Whole seconds since 1970 (UTC) of the last import or update. */
  readonly lastModified: number;
}

/**
 * Port: where the datasets are. What it is given was checked before. Project and name are compared exactly,
 * code unit by code unit. Each method is atomic, and what it reports as done outlives the process.
 *
 * Every method rejects with `StorageUnavailable` when the storage cannot be reached or does not answer in time.
 */
export interface DatasetStore {
  /** The ids are consecutive: a dataset that could not be created takes none. */
  create(dataset: Dataset): Promise<{ readonly id: number } | 'exists'>;
  /** Replaces type and document, and keeps the id. */
  update(dataset: Dataset): Promise<{ readonly id: number } | 'no-such-dataset'>;
  read(project: string, name: string): Promise<Dataset | undefined>;
  /** Of one project, by ascending id. Empty for a project without datasets. */
  list(project: string): Promise<readonly DatasetSummary[]>;
}

const text = z
  .string({ error: 'must be given exactly once' })
  .refine((value) => value !== '', { error: 'must not be empty' });

export const exportQuery = z
  .object({ project: text, datasetType: text, datasetName: text })
  .transform(({ project, datasetType: type, datasetName: name }) => ({ project, type, name }));

export const importQuery = z.object({
  createType: z.literal('import', { error: 'must be given exactly once, as import' }),
});
