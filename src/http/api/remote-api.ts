import type { Router } from 'express';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RemoteConfig } from '../../config/config.ts';
import { readDocument } from '../../datasets/read-document.ts';
import { invalidating, type Invalidate } from '../../invalidation.ts';
import {
  createRemoteStorage,
  type HeldAnswer,
  type RemoteRequest,
} from '../../storage/remote/remote-storage.ts';
import { refuseClimbing } from '../../storage/remote/remote-target.ts';
import type { DocumentGate } from './document-gate.ts';
import { createApiRouter, type ApiExchange, type ApiFront, type ApiHandlers } from './front.ts';
import { API_OPERATIONS, QUERY_PARAMETERS } from './operations.ts';
import { readJsonBytes, receiveDataset } from './read-json.ts';

/**
 * The role and dataset API at a remote server that speaks the same interface, to be mounted at /api. Login and
 * permission are checked here, and at the remote server by the login that it is sent. What it answers is passed
 * on, its errors too. A dataset that it may have changed is dropped from the cache before its answer goes out.
 */
export function createRemoteApi(
  options: ApiFront & {
    readonly config: RemoteConfig;
    readonly invalidate: Invalidate;
    readonly documents: DocumentGate;
    /** Largest body of a role request, and largest dataset document, in bytes. */
    readonly limits: { readonly body: number; readonly dataset: number };
  },
): {
  readonly router: Router;
  /** Never rejects. */
  reachable(): Promise<boolean>;
  /** Breaks off what is under way. */
  close(): void;
} {
  const { config, invalidate, documents, limits, ...front } = options;
  const remote = createRemoteStorage(config);

  /** Of a request about roles; undefined without a body. */
  async function bodyOf({ request, operation }: ApiExchange): Promise<Buffer | undefined> {
    if (carriesBody(request)) return readJsonBytes(request, 'JSON', limits.body, 'limits.body');
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
    const query = QUERY_PARAMETERS[operation.name] ?? [];
    const sent = { method, target, query, headers };
    if (operation.changes === undefined) {
      return remote.read({ ...sent, body: undefined }, { request, response });
    }
    const answer =
      operation.changes === 'roles'
        ? remote.change({ ...sent, body: await bodyOf(exchange) })
        : documents.receive(
            exchange,
            async () => (carriesBody(request) ? receiveDataset(request, limits.dataset) : NOTHING),
            async (body) => changeDataset(exchange, sent, await body()),
          );
    sendHeld(response, await answer);
  }

  const handlers = Object.fromEntries(API_OPERATIONS.map(({ name }) => [name, handle]));
  return {
    router: createApiRouter(handlers as ApiHandlers, front),
    reachable: remote.reachable,
    close: remote.close,
  };
}

const NOTHING = () => Buffer.alloc(0);

function carriesBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

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

function sendHeld(response: ServerResponse, { head, body }: HeldAnswer): void {
  response.writeHead(head.status, head.statusMessage, head.headers);
  response.end(body);
}
