import { once } from 'node:events';
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { clientGone, GatewayError, StorageUnavailable } from '../common/errors.ts';
import { words } from '../common/header-names.ts';
import { basicAuthorization } from '../common/principal.ts';
import type { RemoteConfig } from '../storage/config.ts';
import { readDocument } from '../datasets/dataset.ts';
import { carriesBody, REQUEST_ID } from '../http/request-head.ts';
import {
  answerHead,
  answerHeaders,
  bodyUpTo,
  breakOff,
  parameterName,
  refusedLogin,
  requestHeaders,
  type UpstreamHead,
} from '../proxy/forwarded.ts';
import { namedRole } from '../roles/role.ts';
import { createUpstream, NotConnected, reasonOf } from '../proxy/upstream.ts';
import {
  API_OPERATIONS,
  type ApiExchange,
  type ApiHandlers,
  QUERY_PARAMETERS,
  roleSubject,
} from './api.ts';
import { type DatasetParts, datasetSubject, invalidating, type Made } from './datasets.ts';
import { receiveDataset, receiveJson } from './json.ts';

/** An allow list: headers that tell servers who asks cannot be listed completely. */
const SENT = words('content-type accept accept-language accept-encoding user-agent');
/** Bytes of an answer to a change, which is an id or an error page. */
const LONGEST_HELD = 1024 * 1024;
type AcceptedHead = Omit<UpstreamHead, 'headers'> & { readonly headers: OutgoingHttpHeaders };

type Remote = Readonly<{ config: RemoteConfig; upstream: ReturnType<typeof createUpstream> }>;

/**
 * Operations at a remote server with the same interface, which checks the login again. Its answers,
 * errors too, are passed on after the cache dropped what it may have changed. Each request has a
 * new connection: on a kept one, it is unknown whether a change was read.
 */
export function createRemoteOperations(
  config: RemoteConfig,
  { invalidate, documents, limits }: DatasetParts,
) {
  const upstream = createUpstream(config, false);
  const remote: Remote = { config, upstream };

  /** Sends a change once, also if its client leaves. */
  const change = (exchange: ApiExchange, sent: Buffer | undefined) =>
    ask(remote, exchange, sent, undefined, async (answer, head) => {
      const body = await bodyUpTo(answer, LONGEST_HELD);
      if (body === undefined) throw new Error('the answer to a change is too long');
      return { head, body };
    });

  function changeDataset(exchange: ApiExchange) {
    const { request, facts } = exchange;
    const receive = async () =>
      carriesBody(request) ? receiveDataset(request, limits.dataset) : NOTHING;
    return documents.receive(exchange, receive, async (received) => {
      const { document, ...read } = await readDocument(await received());
      if (read.ok) facts.subject = datasetSubject(read.identity);
      const stale = read.ok ? { project: read.identity.project } : 'everything';
      const write = () => change(exchange, document);
      return invalidating(exchange, invalidate, stale, write, ({ head }) => madeBy(head.status));
    });
  }

  async function handle(exchange: ApiExchange): Promise<void> {
    const { response, operation } = exchange;
    refuseClimbing(exchange.parameters);
    if (operation.changes === undefined) return read(remote, exchange);
    const { head, body } =
      operation.changes === 'datasets'
        ? await changeDataset(exchange)
        : await change(exchange, await bodyOf(exchange, limits.body));
    response.writeHead(head.status, head.statusMessage, head.headers).end(body);
  }

  const handlers = Object.fromEntries(API_OPERATIONS.map(({ name }) => [name, handle]));
  const { reachable, close } = upstream;
  return { handlers: handlers as ApiHandlers, reachable, close };
}

/** @throws StorageUnavailable also if the server refused the gateway's login, or redirects */
async function ask<T>(
  { config, upstream }: Remote,
  { id, request, operation }: ApiExchange,
  body: Buffer | undefined,
  signal: AbortSignal | undefined,
  take: (answer: IncomingMessage, head: AcceptedHead) => Promise<T>,
): Promise<T> {
  const { service, timeout: timeoutMs, url, login } = config;
  const { method, headers: given } = request;
  const outcome = operation.changes === undefined ? 'nothing-done' : 'unknown';
  const authorization = service ? basicAuthorization(service) : given.authorization;
  const path = remoteTarget(url, request.url, QUERY_PARAMETERS[operation.name] ?? []);
  const headers = requestHeaders(given, authorization, body?.length, (name) => SENT.has(name));
  let answer: IncomingMessage | undefined;
  try {
    answer = await upstream.forward({ method, path, headers, body }, { signal, timeoutMs });
    const head = answerHead(answer);
    if (head.status >= 300 && head.status < 400) {
      const doubt = outcome === 'unknown' ? ' Whether the change was made is not known.' : '';
      const what = 'The storage answers with a redirect; its operator must correct storage.url.';
      throw new StorageUnavailable(outcome, undefined, `${what}${doubt}`);
    }
    if (refusedLogin(head.status, login)) {
      const what = 'The storage refused the login of the gateway; its operator must correct';
      throw new StorageUnavailable('nothing-done', undefined, `${what} storage.service.`);
    }
    const own = { 'cache-control': 'no-store', [REQUEST_ID]: id };
    return await take(answer, { ...head, headers: { ...answerHeaders(head.headers), ...own } });
  } catch (error) {
    answer?.destroy();
    if (error instanceof GatewayError || error instanceof StorageUnavailable) throw error;
    const known = error instanceof NotConnected ? 'nothing-done' : outcome;
    throw new StorageUnavailable(known, reasonOf(error, 'storage'));
  }
}

/** @throws StorageUnavailable without a whole answer; GatewayError `client-gone` */
async function read(remote: Remote, exchange: ApiExchange): Promise<void> {
  const { request, response } = exchange;
  const gone = new AbortController();
  const leave = () => {
    if (!response.writableFinished) gone.abort();
  };
  if (response.destroyed) leave();
  response.once('close', leave);
  try {
    await ask(remote, exchange, undefined, gone.signal, async (answer, head) => {
      response.writeHead(head.status, head.statusMessage, head.headers);
      await pipeline(answer, response, { end: false });
      await once(response.end(), 'close');
    });
  } catch (error) {
    if (!gone.signal.aborted && response.headersSent) breakOff(request, response);
    if (!gone.signal.aborted) throw error;
  }
  // The request fails in some way when its client leaves.
  if (gone.signal.aborted) throw clientGone();
}

async function bodyOf({ request, operation, parameters, facts }: ApiExchange, bytes: number) {
  const limit = { bytes, limitName: 'limits.body' };
  const { roleId } = parameters;
  facts.subject = roleSubject(roleId);
  if (!carriesBody(request)) return operation.method === 'DELETE' ? undefined : NOTHING();
  const body = await (await receiveJson(request, 'JSON', limit))();
  facts.subject = roleSubject(roleId, ...namesIn(body));
  return body;
}

const NOTHING = () => Buffer.alloc(0);

/** Parsing a longer body for the log would block the event loop. */
const MOST_READ_BYTES = 64 * 1024;

function namesIn(body: Buffer): [role?: string, users?: readonly string[] | undefined] {
  if (body.length > MOST_READ_BYTES) return [];
  try {
    const { name, contains } = namedRole.parse(JSON.parse(body.toString()));
    return [name, contains];
  } catch {
    return [];
  }
}

const NOT_BEGUN: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 413, 415]);

/** A conflict may be with an earlier attempt. Other errors may come before or after the change. */
function madeBy(status: number): Made {
  if (status < 300 || status === 409) return 'yes';
  return NOT_BEGUN.has(status) ? 'no' : 'unknown';
}

/**
 * Drops unknown parameters: the server may read others, such as another method or user.
 * @param below the request target below /api (RFC 9112 §3.2, origin-form or absolute-form)
 */
function remoteTarget(url: string, below: string, known: readonly string[]): string {
  const base = new URL(url).pathname.replace(/\/+$/, '');
  const originForm = below.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '');
  const [path = '', ...rest] = originForm.split('?');
  const parameters = rest.join('?').split('&');
  const kept = parameters.filter((parameter) => known.includes(parameterName(parameter)));
  // Some servers take a semicolon for a separator.
  const search = kept.join('&').replaceAll(';', '%3B');
  return `${base}/api${path}${search === '' ? '' : `?${search}`}`;
}

const CLIMBS = /(?:^|[/\\])\.\.?(?:$|[/\\;])/;

/** Refuses dot segments, also behind `%2F` or before a semicolon: a server may decode them. */
function refuseClimbing(parameters: ApiExchange['parameters']): void {
  const [name] = Object.entries(parameters).find(([, value]) => CLIMBS.test(value)) ?? [];
  if (name === undefined) return;
  const rule = 'must not be "." or "..", nor hold them between slashes';
  throw new GatewayError('bad-request', `${name}: ${rule}.`);
}
