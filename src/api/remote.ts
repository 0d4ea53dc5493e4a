import type { RemoteConfig } from '../config/config.ts';
import { readDocument } from '../datasets/read-document.ts';
import { carriesBody } from '../http/request-head.ts';
import type { Invalidate } from '../common/events.ts';
import {
  createRemoteStorage,
  refuseClimbing,
  type HeldAnswer,
  type RemoteRequest,
} from '../storage/remote-storage.ts';
import { invalidating } from './datasets.ts';
import type { DocumentGate } from './documents.ts';
import { readJsonBytes, receiveDataset } from './json.ts';
import {
  API_OPERATIONS,
  type ApiExchange,
  type ApiHandlers,
  type ApiOperation,
} from './operations.ts';

/** The query parameters that the interface document names; other operations have none. */
const QUERY_PARAMETERS: Partial<Readonly<Record<ApiOperation['name'], readonly string[]>>> = {
  listRoles: ['pageNum', 'pageSize', 'containsDesc', 'RoleName'],
  exportDataset: ['project', 'datasetType', 'datasetName'],
  importDataset: ['createType'],
};

/**
 * The operations at a remote server that speaks the same interface. Login and permission are checked before, and at
 * the remote server by the login that it is sent. What it answers is passed on, its errors too. A dataset that it may
 * have changed is dropped from the cache before its answer goes out.
 */
export function createRemoteOperations(options: {
  readonly config: RemoteConfig;
  readonly invalidate: Invalidate;
  readonly documents: DocumentGate;
  /** Largest body of a role request, and largest dataset document, in bytes. */
  readonly limits: { readonly body: number; readonly dataset: number };
}) {
  const { invalidate, documents, limits } = options;
  const remote = createRemoteStorage(options.config);

  /** Of a request about roles; undefined without a body. */
  async function bodyOf({ request, operation }: ApiExchange): Promise<Buffer | undefined> {
    const limit = { bytes: limits.body, name: 'limits.body' };
    if (carriesBody(request)) return readJsonBytes(request, 'JSON', limit);
    return operation.method === 'DELETE' ? undefined : Buffer.alloc(0);
  }

  async function changeDataset(
    { operation, principal }: ApiExchange,
    sent: Omit<RemoteRequest, 'body'>,
    body: Buffer,
  ): Promise<HeldAnswer> {
    const { document, ...read } = await readDocument(body);
    const stale = read.ok ? { project: read.identity.project } : 'everything';
    if (operation.name === 'updateDataset' && read.ok) {
      // Before it too, so that fills of the old state end before the new one can be read.
      await invalidate(stale, principal.name, 'before');
    }
    return invalidating({
      invalidate,
      stale,
      principal: principal.name,
      write: () => remote.change({ ...sent, body: document }),
      made: ({ head }) => changeBehind(head.status),
    });
  }

  async function handle(exchange: ApiExchange): Promise<void> {
    const { request, response, operation } = exchange;
    refuseClimbing(exchange.parameters);
    const { method, url: target, headers } = request;
    const sent = { method, target, query: QUERY_PARAMETERS[operation.name] ?? [], headers };
    if (operation.changes === undefined) {
      return remote.read({ ...sent, body: undefined }, { request, response });
    }
    const { head, body } =
      operation.changes === 'datasets'
        ? await documents.receive(
            exchange,
            async () => (carriesBody(request) ? receiveDataset(request, limits.dataset) : NOTHING),
            async (received) => changeDataset(exchange, sent, await received()),
          )
        : await remote.change({ ...sent, body: await bodyOf(exchange) });
    response.writeHead(head.status, head.statusMessage, head.headers);
    response.end(body);
  }

  const handlers = Object.fromEntries(API_OPERATIONS.map(({ name }) => [name, handle]));
  return {
    handlers: handlers as ApiHandlers,
    reachable: remote.reachable,
    close: remote.close,
  };
}

const NOTHING = () => Buffer.alloc(0);

/** By these a server says that it did not begin. */
const NOT_BEGUN: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 413, 415]);

/**
 * A conflict may be with what the same client sent before, without hearing that it was made. Whatever says less
 * may come from a server that made the change before, or makes it yet.
 */
function changeBehind(status: number): 'yes' | 'no' | 'unknown' {
  if (status < 300 || status === 409) return 'yes';
  return NOT_BEGUN.has(status) ? 'no' : 'unknown';
}
