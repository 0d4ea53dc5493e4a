import { ApiError, GatewayError } from '../../errors.ts';
import type { Dataset } from '../../datasets/dataset.ts';
import type { DatasetStore } from '../../datasets/dataset-store.ts';
import { exportQuery, importQuery } from '../../datasets/dataset-queries.ts';
import { readDocument } from '../../datasets/read-document.ts';
import { foldCase } from '../../fold-case.ts';
import { invalidating, type Invalidate } from '../../invalidation.ts';
import type { ReceivedBody } from '../read-body.ts';
import { checked } from './checked.ts';
import type { DocumentGate } from './document-gate.ts';
import type { ApiExchange, ApiHandlers } from './front.ts';
import { queryParameters } from './query-parameters.ts';
import { receiveDataset } from './read-json.ts';
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

  async function importDocument(exchange: ApiExchange, received: ReceivedBody): Promise<number> {
    const dataset = await datasetOf(received);
    const created = await changing(exchange, dataset, () => datasets.create(dataset));
    if (created !== 'exists') return created.id;
    throw new ApiError(
      'dataset-exists',
      'dataset_name: the project has a dataset of this name already; PUT updates it.',
    );
  }

  async function updateDocument(exchange: ApiExchange, received: ReceivedBody): Promise<number> {
    const dataset = await datasetOf(received);
    // Before it too, so that fills of the old state end before the new one can be read.
    await invalidate({ project: dataset.project }, exchange.principal.name, 'before');
    const updated = await changing(exchange, dataset, () => datasets.update(dataset));
    if (updated !== 'no-such-dataset') return updated.id;
    throw new ApiError(
      'no-such-dataset',
      'dataset_name: the project has no dataset of this name; POST imports it.',
    );
  }

  const received = (exchange: ApiExchange, write: typeof importDocument) =>
    documents.receive(
      exchange,
      () => receiveDataset(exchange.request, maxDocument),
      (body) => write(exchange, body),
    );

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
      const id = await received(exchange, importDocument);
      sendData(exchange.response, { dataset_id: id });
    },

    async updateDataset(exchange) {
      const id = await received(exchange, updateDocument);
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

async function datasetOf(received: ReceivedBody): Promise<Dataset> {
  const read = await readDocument(await received());
  if (!read.ok) throw new GatewayError('bad-request', read.problem);
  return { ...read.identity, document: read.document };
}
