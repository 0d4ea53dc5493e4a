import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import type { WorkerAnswer } from './document-worker.ts';
import { checkDocument, type DatasetIdentity } from './document.ts';

/** A dataset (interface document §2.3; queries §4.2) with its imported bytes. */
export type Dataset = DatasetIdentity & { readonly document: Buffer };
/** `lastModified`: whole seconds since 1970 (UTC) of the last import or update. */
export type DatasetSummary = Pick<Dataset, 'name' | 'type'> &
  Readonly<Record<'id' | 'lastModified', number>>;

/**
 * Port of the storage of datasets. Methods are atomic and durable; each rejects with
 * `StorageUnavailable` when that is away. Project and name are compared by code units.
 */
export interface DatasetStore {
  /** Ids are consecutive: a dataset that could not be created takes none. */
  create(dataset: Dataset): Promise<{ readonly id: number } | 'exists'>;
  /** Replaces type and document, and keeps the id. */
  update(dataset: Dataset): Promise<{ readonly id: number } | 'no-such-dataset'>;
  read(project: string, name: string): Promise<Dataset | undefined>;
  list(project: string): Promise<readonly DatasetSummary[]>;
}

const text = z
  .string({ error: 'must be given exactly once' })
  .refine((value) => value !== '', { error: 'must not be empty' });

export const exportQuery = z
  .object({ project: text, datasetName: text })
  .transform(({ project, datasetName: name }) => ({ project, name }));

export const importQuery = z.object({
  createType: z.literal('import', { error: 'must be given exactly once, as import' }),
});

/** Checking so many bytes takes no longer than sending them to a thread and back. */
const LONGEST_HERE = 64 * 1024;
/** Sources run as they are or built: the ending is that of this file. */
const WORKER = new URL(`./document-worker${extname(import.meta.url)}`, import.meta.url);

/** Checks a long document in a thread, so that no request waits; the result owns the bytes. */
export async function readDocument(bytes: Buffer) {
  if (bytes.length <= LONGEST_HERE) return { ...checkDocument(bytes), document: bytes };
  // Only a whole memory block can be transferred: a part would take its neighbours along.
  const { buffer, byteLength } = bytes;
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength;
  const whole = isWhole ? new Uint8Array(buffer) : new Uint8Array(bytes);
  const options = { name: 'document', workerData: whole, transferList: [whole.buffer] };
  const thread = new Worker(WORKER, options);
  const [answer] = (await once(thread, 'message')) as [WorkerAnswer];
  return { ...answer, document: Buffer.from(answer.document.buffer) };
}
