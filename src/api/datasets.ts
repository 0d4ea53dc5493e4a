import { exportQuery, importQuery, readDocument, type DatasetStore } from '../datasets/dataset.ts';
import { ApiError, GatewayError } from '../common/errors.ts';
import { foldCase } from '../common/fold-case.ts';
import type { ReceivedBody } from '../http/read-body.ts';
import { queryParameters } from '../http/request-head.ts';
import { invalidating, type Invalidate } from '../common/invalidation.ts';
import { sendDocument, type DocumentGate } from './documents.ts';
import type { ApiExchange, ApiHandlers } from './api.ts';
import { checked, receiveDataset, sendValue } from './json.ts';

const EXISTS = 'dataset_name: the project has a dataset of this name already';
const NONE = 'dataset_name: the project has no dataset of this name';

/** The operations of the interface document §4.2. */
export function createDatasetOperations(options: {
  readonly datasets: DatasetStore;
  readonly invalidate: Invalidate;
  readonly documents: DocumentGate;
  /** Largest document in bytes. */
  readonly maxDocument: number;
}) {
  const { datasets, invalidate, documents, maxDocument } = options;

  /**
   * What the engine answers for a project may depend on its datasets. A client that is told that a dataset exists
   * already may have made it, by an attempt that ended without an answer, and takes that for done.
   */
  async function save(
    exchange: ApiExchange,
    how: 'create' | 'update',
    received: ReceivedBody,
  ): Promise<{ readonly dataset_id: number }> {
    const read = await readDocument(await received());
    if (!read.ok) throw new GatewayError('bad-request', read.problem);
    const dataset = { ...read.identity, document: read.document };
    const stale = { project: dataset.project };
    const principal = exchange.principal.name;
    // Before it too, so that fills of the old state end before the new one can be read.
    if (how === 'update') await invalidate(stale, principal, 'before');
    const write = async () => datasets[how](dataset);
    const made = (result: Awaited<ReturnType<typeof write>>) =>
      result === 'no-such-dataset' ? 'no' : 'yes';
    const saved = await invalidating({ invalidate, stale, principal, write, made });
    if (saved === 'exists') throw new ApiError('dataset-exists', `${EXISTS}; PUT updates it.`);
    if (saved === 'no-such-dataset') throw new ApiError(saved, `${NONE}; POST imports it.`);
    return { dataset_id: saved.id };
  }

  const receive = (exchange: ApiExchange, how: 'create' | 'update') =>
    documents.receive(
      exchange,
      () => receiveDataset(exchange.request, maxDocument),
      (body) => save(exchange, how, body),
    );

  return {
    async exportDataset(exchange) {
      const { request, response } = exchange;
      const { project, name, type } = checked(exportQuery, queryParameters(request));
      const read = async () => {
        const dataset = await datasets.read(project, name);
        if (dataset !== undefined && foldCase(dataset.type) === foldCase(type)) {
          return dataset.document;
        }
        throw new ApiError('no-such-dataset', 'The project has no dataset of this name and type.');
      };
      await documents.pass(exchange, read, (document) => sendDocument(response, document));
    },

    async importDataset(exchange) {
      checked(importQuery, queryParameters(exchange.request));
      return receive(exchange, 'create');
    },

    updateDataset: (exchange) => receive(exchange, 'update'),

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
  } satisfies Partial<ApiHandlers>;
}
