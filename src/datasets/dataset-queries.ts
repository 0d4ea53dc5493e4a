import { z } from 'zod';

/** What the queries of dataset requests may hold (interface document §4.2). */

function text() {
  return z
    .string({ error: 'must be given exactly once' })
    .refine((value) => value !== '', { error: 'must not be empty' });
}

export const exportQuery = z
  .object({ project: text(), datasetType: text(), datasetName: text() })
  .transform(({ project, datasetType, datasetName }) => ({
    project,
    type: datasetType,
    name: datasetName,
  }));

export const importQuery = z.object({
  createType: z.literal('import', { error: 'must be given exactly once, as import' }),
});
