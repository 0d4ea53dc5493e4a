import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Login, Permissions, Principal } from '../auth/authenticator.ts';
import { GatewayError } from '../common/errors.ts';
import type { PurgeLog, PurgeRecord } from '../cache/purge/purge-log.ts';
import { sendWhole } from './answers.ts';
import { readBody } from './read-body.ts';
import { forgery, queryParameters, refuseDelegation } from './request-head.ts';
import { readXmlaPath } from './xmla-path.ts';

/** An XMLA request that is looked at and not answered. */
export interface ExplainQuestion {
  /** Those that an XMLA request is understood by. */
  readonly headers: IncomingHttpHeaders;
  /** Without content coding. */
  readonly body: Buffer;
  /** As of the path /mdx/xmla/{project}, decoded. */
  readonly project: string | undefined;
  readonly principal: Principal;
}

/**
 * Port: what would become of an XMLA request if it came now. Asks no engine, and changes nothing, not even a metric.
 */
export type ExplainXmla = (question: ExplainQuestion) => Promise<object>;

/**
 * `POST /admin/explain`, for administrators: it tells when a user has asked something and which sessions are known.
 * @throws what {@link readBody} and the login throw; GatewayError `forbidden`, `identity-refused`, `bad-request`
 */
export function createExplainHandler(
  options: Admission & { explain: ExplainXmla; maxBody: number },
): RequestHandler {
  return async (request, response) => {
    const administrator = await admit(request, options);
    const forged = forgery(request.headers);
    if (forged !== undefined) throw new GatewayError('forbidden', `Nothing is told: ${forged}.`);
    const { project, user } = readExplainQuery(request);
    const principal = user === undefined ? administrator : { name: user };
    const headers = xmlaHeaders(request.headers);
    const body = await readBody(request, options.maxBody);
    const explained = await options.explain({ headers, body, project, principal });
    sendPretty(response, { project, user: principal.name, ...explained });
  };
}

/** What the header Authorization can carry as a name (RFC 7617 §2), at most as long as in a password file. */
const USER_NAME = /^[^:\p{Cc}]{1,255}$/u;

function readExplainQuery(request: IncomingMessage) {
  const { project, user } = readQuery(request, 'project', 'user');
  if (user !== undefined && !USER_NAME.test(user)) {
    throw refused('user must be a user name: 1 to 255 characters, no colon, no control characters');
  }
  if (project !== undefined) {
    // Names that no path can carry are refused here as they are there.
    const path = readXmlaPath(`/mdx/xmla/${encodeURIComponent(project)}`);
    const why = path?.kind === 'bad-project' ? ` ${path.message}` : '';
    if (path?.kind !== 'xmla' || path.project !== project) {
      throw refused(`project must be a name that can stand in the path /mdx/xmla/{project}.${why}`);
    }
  }
  return { project, user };
}

/** An XMLA request is understood by these; what else the caller's program sends speaks of the call itself. */
const XMLA_HEADER =
  /^(?:content-type|soapaction|accept|user-agent|x-as-sessionid|x-as-getsessiontoken)$/;

const xmlaHeaders = (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => XMLA_HEADER.test(name)));

/** Without `limit`, and at most. */
const LIMITS = { usual: 100, most: 1000 } as const;

/**
 * `GET /admin/purges`, for administrators: the latest purges, the newest first.
 * @throws what the login throws; GatewayError `forbidden`, `identity-refused`, `bad-request`
 */
export function createPurgesHandler(
  options: Admission & { purgeLog: Pick<PurgeLog, 'latest'> },
): RequestHandler {
  return async (request, response) => {
    await admit(request, options);
    const { limit = String(LIMITS.usual) } = readQuery(request, 'limit');
    if (!/^[1-9]\d{0,3}$/.test(limit) || Number(limit) > LIMITS.most) {
      throw refused(`limit must be a whole number from 1 to ${LIMITS.most}`);
    }
    const { complete, purges } = await options.purgeLog.latest(Number(limit));
    sendPretty(response, { complete, purges: purges.map(purgeJson) });
  };
}

interface Admission {
  login: Login;
  permissions: Permissions;
}

async function admit(request: IncomingMessage, { login, permissions }: Admission) {
  const principal = await login(request);
  refuseDelegation(request.headers, '');
  if (permissions.mayAdminister(principal)) return principal;
  throw new GatewayError('forbidden', `Nothing is told: ${principal.name} is not in auth.admins.`);
}

const purgeJson = ({ id, at, ...record }: PurgeRecord) => ({ id, at: new Date(at), ...record });

/** The query of a request that may hold each of these names once, and no other. */
function readQuery<Name extends string>(
  request: IncomingMessage,
  ...names: readonly Name[]
): Partial<Record<Name, string>> {
  const given = Object.entries(queryParameters(request));
  const unknown = given.map(([name]) => name).filter((name) => !names.includes(name as Name));
  if (unknown.length > 0) {
    const allowed = `${names.length === 1 ? 'is' : 'are'} ${names.join(' and ')}`;
    throw refused(`${unknown.join(', ')} is no query parameter here; allowed ${allowed}`);
  }
  const repeated = given.find(([, value]) => typeof value !== 'string');
  if (repeated !== undefined) throw refused(`${repeated[0]} is given more than once`);
  return Object.fromEntries(given) as Partial<Record<Name, string>>;
}

const refused = (why: string) =>
  new GatewayError('bad-request', `The query is refused: ${why.replace(/\.$/, '')}.`);

function sendPretty(response: ServerResponse, value: unknown): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, null, 2)}\n`);
}
