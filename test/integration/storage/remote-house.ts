import express from 'express';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { createApiRouter } from '../../../src/api/api.ts';
import { createDocumentGate } from '../../../src/api/documents.ts';
import { createRemoteOperations } from '../../../src/api/remote.ts';
import { createPermissions, type Login, unauthenticated } from '../../../src/auth/authenticator.ts';
import { systemClock } from '../../../src/common/clock.ts';
import type { GatewayEvent, Invalidate } from '../../../src/common/events.ts';
import type { RemoteConfig } from '../../../src/storage/config.ts';
import { type Answer, type Message, send } from '../../support/http-client.ts';
import { basic } from '../../support/test-gateway.ts';
import { withoutRequestId } from '../../support/request-id.ts';
import { principalOf } from '../../../src/common/principal.ts';

export const LIMITS = { body: 10_000, dataset: 21_000_000 };

export const DOCUMENT = '{"project":"Mart","dataset_name":"d","type":"MDX"}';

/** Every change of the API, and whether it is one of a dataset. */
export const CHANGES = [
  ['POST', '/role', '{"name":"a"}', false],
  ['PUT', '/role/2', '{"name":"a"}', false],
  ['DELETE', '/role/2', undefined, false],
  ['POST', '/role/user/visibility/2', '{"name":"a"}', false],
  ['DELETE', '/role/user/visibility/2', '{"name":"a"}', false],
  ['POST', '/dataset?createType=import', DOCUMENT, true],
  ['PUT', '/dataset', DOCUMENT, true],
] as const;

export const READS = [
  '/role/2',
  '/roles?pageNum=0&pageSize=5&containsDesc=true',
  '/dataset?project=Mart&datasetType=MDX&datasetName=d',
  '/datasets/MDX/Mart',
] as const;

export interface RemoteHouse {
  readonly url: string;
  readonly events: GatewayEvent[];
  /** What was dropped from the cache: what, by whom, and whether that was waited for. */
  readonly invalidated: Parameters<Invalidate>[];
  /** Open connections of clients. */
  readonly sockets: ReadonlySet<Socket>;
  readonly reachable: () => Promise<boolean>;
  close(): Promise<void>;
}

/** The API over a remote server, in an app of its own. ADMIN may change things, alice may not. */
export async function openRemoteHouse(
  url: string,
  config: Partial<RemoteConfig> = {},
  invalidate: Invalidate = async () => true,
): Promise<RemoteHouse> {
  const events: GatewayEvent[] = [];
  const invalidated: Parameters<Invalidate>[] = [];
  const remote = createRemoteOperations(
    {
      driver: 'http',
      url,
      login: 'forward',
      service: undefined,
      ca: undefined,
      certificate: undefined,
      key: undefined,
      timeout: 20_000,
      ...config,
    },
    {
      invalidate(...call) {
        invalidated.push(call);
        return invalidate(...call);
      },
      documents: createDocumentGate(),
      limits: LIMITS,
    },
  );
  const router = createApiRouter(remote.handlers, {
    login,
    during: (request) => request,
    permissions: createPermissions({ admins: ['ADMIN'], viewers: [], purgers: [] }, 'nobody'),
    clock: systemClock,
    newId: () => 'id',
    emit: (event) => events.push(event),
  });
  const app = express();
  app.disable('x-powered-by');
  app.use('/api', router);
  const server = app.listen(0, '127.0.0.1');
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    invalidated,
    sockets,
    reachable: remote.reachable,
    async close() {
      remote.close();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const login: Login = async ({ headers: { authorization } }) => {
  for (const name of ['ADMIN', 'alice'] as const)
    if (authorization === basic(name)) return principalOf(name);
  throw unauthenticated();
};

/** Sends a request to a path below /api as ADMIN. */
export function ask(
  house: RemoteHouse,
  method: string,
  path: string,
  body?: Buffer | string,
  headers: Message['headers'] = {},
): Promise<Answer> {
  return send(house.url, {
    method,
    path: `/api${path}`,
    ...(body !== undefined && { body }),
    headers: {
      authorization: basic('ADMIN'),
      ...(body !== undefined && {
        'content-type': 'application/json;charset=utf8',
        'content-length': String(Buffer.byteLength(body)),
      }),
      ...headers,
    },
  });
}

/** `503 [storage-unavailable] …` */
export function failureOf({ status, headers, text }: Answer): string {
  const { errorMesg, code, ...rest } = JSON.parse(text) as Record<'errorMesg' | 'code', string>;
  if (JSON.stringify(rest) !== '{"status":1,"data":"failure"}')
    throw new Error(`no envelope: ${text}`);
  return `${status} [${code}]${withoutRequestId(errorMesg.replace(/^\[[^\]]*\]/, ''), headers)}`;
}
