import { ApiError, GatewayError } from '../../errors.ts';
import {
  type Dataset,
  type DatasetStore,
  exportQuery,
  importQuery,
} from '../../datasets/dataset.ts';
import { readDocument } from '../../datasets/read-document.ts';
import { foldCase } from '../../fold-case.ts';
import { invalidating, type Invalidate } from '../../invalidation.ts';
import { checked } from './checked.ts';
import type { DocumentGate } from './document-gate.ts';
import type { ApiExchange, ApiHandlers } from './front.ts';
import { queryParameters } from './query-parameters.ts';
import { readJsonBytes } from './read-json.ts';
import { sendDocument } from './send-document.ts';
import { sendData, sendValue } from './send-json.ts';

type DatasetHandlers = Pick<
  ApiHandlers,
  'exportDataset' | 'importDataset' | 'updateDataset' | 'listDatasets'
>;

/** The operations of the interface document §4.2. */
export function createDatasetOperations(options: {
  readonly datasets: DatasetStore;
  readonly invalidate: Invalidate;
  readonly documents: DocumentGate;
  /** Largest document in bytes. */
  readonly maxDocument: number;
}): DatasetHandlers {
  const { datasets, invalidate, documents, maxDocument } = options;

  async function readDataset({ request }: ApiExchange): Promise<Dataset> {
    const bytes = await readJsonBytes(request, 'a dataset', maxDocument, 'limits.dataset');
    const read = await readDocument(bytes);
    if (!read.ok) throw new GatewayError('bad-request', read.problem);
    return { ...read.identity, document: read.document };
  }

  /**
   * What the engine answers for a project may depend on its datasets. Who is told that a dataset exists already
   * may have made it, by an attempt that ended without an answer, and takes that for done.
   */
  const changing = <Refused extends 'exists' | 'no-such-dataset'>(
    { principal }: ApiExchange,
    { project }: Dataset,
    write: () => Promise<{ readonly id: number } | Refused>,
  ) =>
    invalidating({
      invalidate,
      stale: { project },
      principal: principal.name,
      write,
      made: (result) => (result === 'no-such-dataset' ? 'no' : 'yes'),
    });

  async function importDocument(exchange: ApiExchange): Promise<number> {
    const dataset = await readDataset(exchange);
    const created = await changing(exchange, dataset, () => datasets.create(dataset));
    if (created !== 'exists') return created.id;
    throw new ApiError(
      'dataset-exists',
      'dataset_name: the project has a dataset of this name already; PUT updates it.',
    );
  }

  async function updateDocument(exchange: ApiExchange): Promise<number> {
    const dataset = await readDataset(exchange);
    // Before it too, so that fills of the old state end before the new one can be read.
    await invalidate({ project: dataset.project }, exchange.principal.name, 'before');
    const updated = await changing(exchange, dataset, () => datasets.update(dataset));
    if (updated !== 'no-such-dataset') return updated.id;
    throw new ApiError(
      'no-such-dataset',
      'dataset_name: the project has no dataset of this name; POST imports it.',
    );
  }

  return {
    async exportDataset(exchange) {
      const { request, response } = exchange;
      const { project, name, type } = checked(exportQuery, queryParameters(request));
      await documents.pass(
        exchange,
        async () => {
          const dataset = await datasets.read(project, name);
          if (dataset !== undefined && foldCase(dataset.type) === foldCase(type)) {
            return dataset.document;
          }
          throw new ApiError(
            'no-such-dataset',
            'The project has no dataset of this name and type.',
          );
        },
        (document) => sendDocument(response, document),
      );
    },

    async importDataset(exchange) {
      checked(importQuery, queryParameters(exchange.request));
      const id = await documents.hold(exchange, () => importDocument(exchange));
      sendData(exchange.response, { dataset_id: id });
    },

    async updateDataset(exchange) {
      const id = await documents.hold(exchange, () => updateDocument(exchange));
      sendData(exchange.response, { dataset_id: id });
    },

    async listDatasets({ parameters, response }) {
      const { project = '' } = parameters;
      const list = await datasets.list(project);
      sendValue(response, {
        project,
        semantic_datasets: list.map(({ id, name, type, lastModified }) => ({
          dataset_id: id,
          dataset_name: name,
          type,
          last_modified: lastModified,
        })),
      });
    },
  };
}
