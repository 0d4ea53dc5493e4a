import express, { type Request, type Response, type Router } from 'express';
import type { Login, Permissions } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError, StorageUnavailable } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import type { Principal } from '../common/principal.ts';
import { parameterName } from '../proxy/forwarded.ts';
import { asAnsweredError, sendError, sendJson, type AnsweredError } from '../http/answers.ts';
import { forgedAct, nameRequest, refuseDelegation, unclearHead } from '../http/request-head.ts';

/** Operations of the interface document §4.1 and §4.2; only administrators may change anything. */
export const API_OPERATIONS = [
  { name: 'createRole', method: 'POST', path: '/role', changes: 'roles' },
  { name: 'updateRole', method: 'PUT', path: '/role/:roleId', changes: 'roles' },
  { name: 'readRole', method: 'GET', path: '/role/:roleId', changes: undefined },
  { name: 'deleteRole', method: 'DELETE', path: '/role/:roleId', changes: 'roles' },
  { name: 'addUser', method: 'POST', path: '/role/user/visibility/:roleId', changes: 'roles' },
  { name: 'removeUser', method: 'DELETE', path: '/role/user/visibility/:roleId', changes: 'roles' },
  { name: 'listRoles', method: 'GET', path: '/roles', changes: undefined },
  { name: 'exportDataset', method: 'GET', path: '/dataset', changes: undefined },
  { name: 'importDataset', method: 'POST', path: '/dataset', changes: 'datasets' },
  { name: 'updateDataset', method: 'PUT', path: '/dataset', changes: 'datasets' },
  { name: 'listDatasets', method: 'GET', path: '/datasets/MDX/:project', changes: undefined },
] as const;

const PATHS = [...new Set(API_OPERATIONS.map(({ path }) => path))];

export type ApiOperation = (typeof API_OPERATIONS)[number];
export const QUERY_PARAMETERS: Partial<Record<ApiOperation['name'], readonly string[]>> = {
  listRoles: ['pageNum', 'pageSize', 'containsDesc', 'RoleName'],
  exportDataset: ['project', 'datasetType', 'datasetName'],
  importDataset: ['createType'],
};

export interface ApiExchange {
  readonly id: string;
  readonly request: Request;
  readonly response: Response;
  readonly principal: Principal;
  readonly facts: { subject: string };
  readonly operation: ApiOperation;
  readonly parameters: Readonly<Record<string, string>>;
}

/** A handler returns the data of the answer, or undefined if it answered itself. */
export type ApiHandlers = Readonly<
  Record<ApiOperation['name'], (exchange: ApiExchange) => Promise<unknown>>
>;

export type ApiLimits = Readonly<{ body: number; dataset: number }>;

export interface ApiFront {
  readonly login: Login;
  /** Holds the shutdown until the request is over. */
  readonly during: <T>(request: Promise<T>) => Promise<T>;
  readonly permissions: Permissions;
  readonly clock: Pick<Clock, 'now' | 'wall'>;
  readonly newId: () => string;
  readonly emit: Emit;
}

const LONGEST_SUBJECT = 255;
const SHOWN = 100;
const MOST_USERS = 3;

export const shown = (name: string) => (name.length > SHOWN ? `${name.slice(0, SHOWN)}…` : name);

/** Words for the log. The number of users precedes their names, whose end may be cut off. */
export function roleSubject(id?: number | string, name?: string, users?: readonly string[]) {
  const role = ['role', ...(name ? [shown(name)] : []), ...(id ? [`(id ${id})`] : [])].join(' ');
  if (users === undefined) return role;
  const told = users.slice(0, MOST_USERS).map(shown).join(', ');
  if (users.length <= 1) return `${role}, ${told === '' ? 'no users' : `user ${told}`}`;
  return `${role}, ${users.length} users: ${told}${users.length > MOST_USERS ? ', …' : ''}`;
}

type Call = Omit<ApiExchange, 'operation' | 'parameters'>;

/**
 * The front of the role and dataset API. It checks, in this order: an unambiguous head; the login;
 * delegation and target; path and method (404, 405, OPTIONS); for changes, forgery and rights. HEAD
 * is answered as GET. Every answer is an event.
 */
export function createApiRouter(handlers: ApiHandlers, front: ApiFront): Router {
  const { login, during, permissions, clock, newId, emit } = front;

  async function answer(
    request: Request,
    response: Response,
    operation: ApiOperation | undefined,
    work: (call: Call) => Promise<void>,
  ): Promise<void> {
    const began = clock.now();
    const id = nameRequest(request, response, newId);
    const closed = new Promise((resolve) => response.once('close', resolve));
    let principal: Principal | undefined;
    let failure: AnsweredError | undefined;
    const facts = { subject: '' };
    try {
      const unclear = unclearHead(request);
      if (unclear !== undefined) throw unclear;
      principal = await login(request, id);
      refuseTarget(request);
      await work({ id, request, response, principal, facts });
    } catch (error) {
      failure = asAnsweredError(error, id, emit);
      if (response.headersSent) response.destroy();
      else sendError(response, failure, 'api-envelope', id);
    }
    await closed;
    emit({
      type: 'api-answered',
      id,
      principal: principal?.name ?? '',
      operation: operation?.name ?? '',
      subject: facts.subject.slice(0, LONGEST_SUBJECT).toWellFormed(),
      changes: operation?.changes !== undefined,
      status: response.headersSent ? response.statusCode : 499,
      reason: failure?.reason,
      error: failure?.reason === 'internal' ? undefined : failure?.cause,
      milliseconds: clock.now() - began,
    });
  }

  const router = express.Router({ caseSensitive: true });
  for (const [path, operations] of Map.groupBy(API_OPERATIONS, ({ path }) => path)) {
    const allow = operations
      .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
      .concat('OPTIONS')
      .join(', ');
    const notAllowed = `Allowed here: ${allow}.`;
    router.all(path, (request, response) => {
      const asked = request.method === 'HEAD' ? 'GET' : request.method;
      const operation = operations.find(({ method }) => method === asked);
      const work = async (call: Call) => {
        if (operation !== undefined) {
          if (operation.changes !== undefined) refuseChange(call, permissions);
          refuseMisspelt(request.originalUrl, QUERY_PARAMETERS[operation.name]);
          const parameters = request.params as Record<string, string>;
          const data = await handlers[operation.name]({ ...call, operation, parameters });
          // Envelope of the interface document §2.2.
          if (data !== undefined) sendJson(response, { status: 0, data });
        } else if (asked === 'OPTIONS') {
          response.writeHead(204, { allow, 'cache-control': 'no-store' }).end();
        } else throw new GatewayError('method-not-allowed', notAllowed, { headers: { allow } });
      };
      return during(answer(request, response, operation, work));
    });
  }
  router.use(({ path }) => {
    const text = `No operation of the API has this path; it must be ${pathsLike(path)}.`;
    throw new GatewayError('not-found', text);
  });
  const refuse: express.ErrorRequestHandler = (error, request, response, _next) =>
    during(answer(request, response, undefined, () => refusePath(error)));
  router.use(refuse);
  return router;
}

/** Runs a change, and `follow` if it failed but may have been made. */
export async function attempt<T>(change: () => Promise<T>, follow: () => Promise<unknown>) {
  try {
    return await change();
  } catch (error) {
    const nothingDone = error instanceof StorageUnavailable && error.outcome === 'nothing-done';
    if (!nothingDone) await follow();
    throw error;
  }
}

/** Refuses fragments (RFC 9112 §3.2): some servers add them to the last parameter. */
function refuseTarget({ originalUrl, headers }: Request): void {
  const begin = originalUrl.indexOf('?');
  refuseDelegation(headers, begin < 0 ? '' : originalUrl.slice(begin + 1));
  if (!originalUrl.includes('#')) return;
  throw new GatewayError('bad-request', 'The request target must not hold a fragment (#…).');
}

/** A list without its misspelt filter would be complete. @throws GatewayError `bad-request` */
function refuseMisspelt(target: string, known: readonly string[] = []): void {
  for (const piece of target.replace(/^[^?]*\??/, '').split('&')) {
    const given = parameterName(piece);
    const meant = known.includes(given) ? undefined : known.find((name) => isNearly(given, name));
    if (meant === undefined) continue;
    throw new GatewayError('bad-request', `${shown(given)}: this parameter is spelt ${meant}.`);
  }
}

/** Ignores letter case, separators, and one exchange of neighbours. */
function isNearly(given: string, name: string): boolean {
  const [a = '', b = ''] = [given, name].map((text) =>
    text.toLowerCase().replaceAll(/[^a-z]/g, ''),
  );
  let [begin, end] = [0, 0];
  while (begin < a.length && a[begin] === b[begin]) begin += 1;
  while (end < Math.min(a.length, b.length) - begin && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  return Math.max(a.length, b.length) - begin - end <= 2;
}

function pathsLike(given: string): string {
  const begins = (path: string) => path.split('/')[1] === given.split('/')[1];
  const like = PATHS.some(begins) ? PATHS.filter(begins) : PATHS;
  return like.map((path) => `/api${path.replace(/:(\w+)/, '{$1}')}`).join(', ');
}

function refuseChange({ request, principal }: Call, permissions: Permissions): void {
  const forged = forgedAct(request.headers);
  if (forged !== undefined) throw new GatewayError('forbidden', `Nothing was done: ${forged}.`);
  if (permissions.mayAdminister(principal)) return;
  throw new GatewayError('forbidden', `Nothing was done: ${principal.name} is not in auth.admins.`);
}

/** Express gives up on a path that it cannot decode. Other errors are failures of the gateway. */
async function refusePath(error: unknown): Promise<never> {
  const problem = 'The path is not well-formed: %XX must be bytes of UTF-8.';
  throw error instanceof URIError ? new GatewayError('bad-request', problem) : error;
}
