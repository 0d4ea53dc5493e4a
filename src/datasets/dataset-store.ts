import type { Dataset, DatasetSummary } from './dataset.ts';

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
