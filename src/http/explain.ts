import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders } from 'node:http';
import type { Principal } from '../auth/authenticator.ts';
import type { Permissions } from '../auth/permissions.ts';
import type { CacheShare } from '../config/config.ts';
import { GatewayError } from '../errors.ts';
import type { Explanation } from '../query-cache/explain.ts';
import type { BypassReason, GatewayReason } from '../reasons.ts';
import { queryParameters } from './api/query-parameters.ts';
import { refuseDelegation } from './delegation.ts';
import { explanationJson } from './explanation-json.ts';
import { forgery } from './forgery.ts';
import type { Login } from './login.ts';
import { readBody } from './read-body.ts';
import { readXmlaPath } from './xmla-path.ts';

/** An XMLA request that is looked at and not answered. */
export interface ExplainQuestion {
  /** Those of its headers that an XMLA request is understood by. */
  readonly headers: IncomingHttpHeaders;
  /** Without content coding. */
  readonly body: Buffer;
  /** As of the path /mdx/xmla/{project}, decoded. */
  readonly project: string | undefined;
  readonly search: '';
  /** Who would send it. */
  readonly principal: Principal;
}

/** What would become of an XMLA request. What is undefined was not reached, or does not apply. */
export interface Classification {
  readonly decision: 'cacheable' | 'bypass' | 'refused';
  /** Why it is not looked up. */
  readonly reason?: BypassReason | GatewayReason | undefined;
  /** What of it was not understood, in words. */
  readonly why?: string | undefined;
  readonly method?: 'Discover' | 'Execute' | undefined;
  /** Discover request type, or `Execute`. */
  readonly subject?: string | undefined;
  readonly catalogs?: readonly string[] | undefined;
  readonly share?: CacheShare | undefined;
  /** Milliseconds. */
  readonly ttl?: number | undefined;
}

export interface XmlaExplanation {
  readonly classification: Classification;
  /** For a cacheable request. */
  readonly cache?: Explanation | undefined;
}

/**
 * Port: what would become of an XMLA request if it came now. Asks no engine, and changes nothing: no entry, no
 * session, no metric.
 * @throws GatewayError that the client would be answered with instead of an answer of cache or engine
 */
export type ExplainXmla = (question: ExplainQuestion) => Promise<XmlaExplanation>;

/**
 * `POST /admin/explain`, for administrators. It tells when a user has asked something and which sessions are
 * known, so that it is forbidden to those who may only purge.
 * @throws what {@link readBody} and the login throw; GatewayError `forbidden`, `identity-refused`, and
 *   `bad-request` for a query that is not understood
 */
export function createExplainHandler(options: {
  login: Login;
  permissions: Pick<Permissions, 'mayAdminister'>;
  explain: ExplainXmla;
  /** Largest XMLA request in bytes. */
  maxBody: number;
}): RequestHandler {
  const { login, permissions } = options;

  return async (request, response) => {
    const principal = await login(request);
    refuseDelegation(request.headers, '');
    const forged = forgery(request.headers);
    if (forged !== undefined) throw new GatewayError('forbidden', `Nothing is told: ${forged}.`);
    if (!permissions.mayAdminister(principal)) {
      throw new GatewayError(
        'forbidden',
        `Nothing is told: ${principal.name} is not in auth.admins.`,
      );
    }
    const { project, user } = readParameters(request);
    const asking = user === undefined ? principal : { name: user };
    const question: ExplainQuestion = {
      headers: xmlaHeaders(request.headers),
      body: await readBody(request, options.maxBody),
      project,
      search: '',
      principal: asking,
    };
    const explanation = await options.explain(question).catch(asRefusal);
    const answer = {
      ...(project !== undefined && { project }),
      user: asking.name,
      ...explanationJson(explanation),
    };
    const body = Buffer.from(`${JSON.stringify(answer, undefined, 2)}\n`);
    response.writeHead(200, {
      'content-type': 'application/json',
      'content-length': body.length,
      'cache-control': 'no-store',
    });
    response.end(body);
  };
}

/** The XMLA request would fail, not the call for its explanation. */
function asRefusal(error: unknown): XmlaExplanation {
  if (!(error instanceof GatewayError)) throw error;
  const { reason, message } = error;
  return { classification: { decision: 'refused', reason, why: message } };
}

const PARAMETERS: ReadonlySet<string> = new Set(['project', 'user']);

/** What the header Authorization can carry as a name (RFC 7617 §2), at most as long as in a password file. */
const USER_NAME = /^[^:\p{Cc}]{1,255}$/u;

function readParameters(request: { readonly url: string }): {
  readonly project: string | undefined;
  readonly user: string | undefined;
} {
  const given = queryParameters(request);
  const strange = Object.keys(given).filter((name) => !PARAMETERS.has(name));
  if (strange.length > 0) {
    throw refused(`${strange.join(', ')} is no query parameter here; allowed are project and user`);
  }
  const user = once('user', given['user']);
  if (user !== undefined && !USER_NAME.test(user)) {
    throw refused('user must be a user name: 1 to 255 characters, no colon, no control characters');
  }
  return { project: readProject(once('project', given['project'])), user };
}

function once(name: string, value: string | readonly string[] | undefined): string | undefined {
  if (value === undefined || typeof value === 'string') return value;
  throw refused(`${name} is given more than once`);
}

/** Names that no path can carry are refused here as they are there. */
function readProject(name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  const path = readXmlaPath(`/mdx/xmla/${encodeURIComponent(name)}`);
  if (path?.kind === 'xmla' && path.project === name) return name;
  const why = path?.kind === 'bad-project' ? ` ${path.message}` : '';
  throw refused(`project must be a name that can stand in the path /mdx/xmla/{project}.${why}`);
}

function refused(why: string): GatewayError {
  return new GatewayError('bad-request', `The query is refused: ${why.replace(/\.$/, '')}.`);
}

/** An XMLA request is understood by these; what else the caller's program sends speaks of the call itself. */
const XMLA_HEADERS: ReadonlySet<string> = new Set([
  'content-type',
  'soapaction',
  'user-agent',
  'x-as-sessionid',
  'x-as-getsessiontoken',
]);

function xmlaHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const accept = xmlaAccept(headers.accept);
  return {
    ...Object.fromEntries(Object.entries(headers).filter(([name]) => XMLA_HEADERS.has(name))),
    ...(accept !== undefined && { accept }),
  };
}

/**
 * The explanation is JSON, and programs such as curl say that they take anything, so that neither says what the
 * XMLA request would accept.
 */
function xmlaAccept(header: string | undefined): string | undefined {
  const ranges = (header ?? '').split(',').filter((range) => typeOf(range) !== 'application/json');
  if (ranges.every((range) => ['', '*/*'].includes(typeOf(range)))) return undefined;
  return ranges.join(',').trim();
}

function typeOf(range: string): string {
  return range.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}
