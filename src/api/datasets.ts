import { ApiError, GatewayError } from '../common/errors.ts';
import type { Invalidate, Stale } from '../common/events.ts';
import { type DatasetStore, exportQuery, importQuery, readDocument } from '../datasets/dataset.ts';
import type { DatasetIdentity } from '../datasets/document.ts';
import { sendJson } from '../http/answers.ts';
import { queryParameters } from '../http/request-head.ts';
import { type ApiExchange, type ApiHandlers, type ApiLimits, attempt, shown } from './api.ts';
import { type DocumentGate, sendDocument } from './documents.ts';
import { checked, receiveDataset } from './json.ts';

const EXISTS = 'dataset_name: the project has a dataset of this name already';
const NO_SUCH = 'the project has no dataset of this name';

export interface DatasetParts {
  readonly invalidate: Invalidate;
  readonly documents: DocumentGate;
  readonly limits: ApiLimits;
}

export function createDatasetOperations(
  datasets: DatasetStore,
  { invalidate, documents, limits }: DatasetParts,
) {
  /** A client whose attempt got no answer takes "exists" for done, so that counts as a change. */
  const save = (exchange: ApiExchange, how: 'create' | 'update') => {
    const receive = () => receiveDataset(exchange.request, limits.dataset);
    return documents.receive(exchange, receive, async (received) => {
      const read = await readDocument(await received());
      if (!read.ok) throw new GatewayError('bad-request', read.problem);
      const dataset = { ...read.identity, document: read.document };
      const { project } = dataset;
      exchange.facts.subject = datasetSubject(dataset);
      const write = async () => datasets[how](dataset);
      const saved = await invalidating(exchange, invalidate, { project }, write, (result) =>
        result === 'no-such-dataset' ? 'no' : 'yes',
      );
      if (saved === 'exists') throw new ApiError('dataset-exists', `${EXISTS}; PUT updates it.`);
      if (saved === 'no-such-dataset')
        throw new ApiError(saved, `dataset_name: ${NO_SUCH}; POST imports it.`);
      return { dataset_id: saved.id };
    });
  };

  return {
    async exportDataset(exchange) {
      const { request, response } = exchange;
      // The reference server ignores datasetType too: project and name identify a dataset.
      const { project, name } = checked(exportQuery, queryParameters(request));
      const read = async () => {
        const dataset = await datasets.read(project, name);
        if (dataset !== undefined) return dataset.document;
        throw new ApiError('no-such-dataset', `datasetName: ${NO_SUCH}.`);
      };
      await documents.pass(exchange, read, (document) => sendDocument(response, document));
    },
    async importDataset(exchange) {
      checked(importQuery, queryParameters(exchange.request));
      return save(exchange, 'create');
    },
    updateDataset: (exchange) => save(exchange, 'update'),
    async listDatasets({ parameters, response }) {
      const { project = '' } = parameters;
      const list = await datasets.list(project);
      sendJson(response, {
        project,
        semantic_datasets: list.map(({ id, name, type, lastModified }) => ({
          dataset_id: id,
          dataset_name: name,
          type,
          last_modified: lastModified,
        })),
      });
    },
  } satisfies Partial<ApiHandlers>;
}

export const datasetSubject = ({ project, name }: DatasetIdentity): string =>
  `dataset ${shown(name)} of project ${shown(project)}`;

export type Made = 'yes' | 'no' | 'unknown';

/**
 * Resolves when no replica answers from what a write has or may have made stale.
 * @throws ApiError `not-cleared` when it is saved, but the cache could not be cleared
 */
export async function invalidating<T>(
  { principal: { name }, operation }: ApiExchange,
  invalidate: Invalidate,
  stale: Stale,
  write: () => Promise<T>,
  madeBy: (result: T) => Made,
): Promise<T> {
  // Also before an update: fills of the old state end before the new one can be read.
  const isUpdate = operation.name === 'updateDataset' && stale !== 'everything';
  if (isUpdate) await invalidate(stale, name, 'before');
  const result = await attempt(write, () => invalidate(stale, name, 'unknown'));
  const made = madeBy(result);
  if (made === 'no') return result;
  const cleared = await invalidate(stale, name, made === 'yes' ? 'after' : 'unknown');
  if (cleared || made === 'unknown') return result;
  const what = typeof stale === 'string' ? stale : stale.project;
  throw new ApiError('not-cleared', `saved; cache of ${what} not yet cleared`, { retryAfter: 5 });
}
