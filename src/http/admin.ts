import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Login, Permissions, Principal } from '../auth/authenticator.ts';
import type { CacheShare } from '../config/config.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Explanation } from '../cache/cache.ts';
import type { PurgeLog, PurgeRecord } from '../cache/purge/purge-log.ts';
import type { BypassReason, GatewayReason } from '../common/reasons.ts';
import { sendWhole } from './answers.ts';
import { readBody } from './read-body.ts';
import { forgery, queryParameters, refuseDelegation } from './request-head.ts';
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
export function createExplainHandler({
  explain,
  maxBody,
  ...admission
}: Admission & {
  explain: ExplainXmla;
  /** Largest XMLA request in bytes. */
  maxBody: number;
}): RequestHandler {
  return async (request, response) => {
    const administrator = await admit(request, admission);
    const forged = forgery(request.headers);
    if (forged !== undefined) throw new GatewayError('forbidden', `Nothing is told: ${forged}.`);
    const { project, user } = readExplainQuery(request);
    const principal = user === undefined ? administrator : { name: user };
    const headers = xmlaHeaders(request.headers);
    const body = await readBody(request, maxBody);
    const question = { headers, body, project, search: '', principal } as const;
    const { classification, cache } = await explain(question).catch(asRefusal);
    // As a reader would have them in order.
    const { decision, reason, why, ...asked } = classification;
    const { key, parts, epochs, memory, ...beside } = cache ?? {};
    sendPretty(response, {
      project,
      user: principal.name,
      classification: { decision, reason, why: why === '' ? undefined : why, ...asked },
      cache: cache && { key, parts, epochs, memory, ...beside },
    });
  };
}

/** The XMLA request would fail, not the call for its explanation. */
function asRefusal(error: unknown): XmlaExplanation {
  if (!(error instanceof GatewayError)) throw error;
  const { reason, message } = error;
  return { classification: { decision: 'refused', reason, why: message } };
}

const UNITS: ReadonlyMap<string, string> = new Map([
  ['age', 'age_ms'],
  ['ttl', 'ttl_ms'],
  ['engineMilliseconds', 'engine_ms'],
]);

/** For JSON: milliseconds under names that say so, without fractions. */
function withUnits(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const named = Object.entries(value).map(([name, inner]) => {
    const unit = typeof inner === 'number' ? UNITS.get(name) : undefined;
    return unit === undefined ? [name, inner] : [unit, Math.round(inner)];
  });
  return Object.fromEntries(named);
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
const XMLA_HEADER = /^(?:content-type|soapaction|user-agent|x-as-sessionid|x-as-getsessiontoken)$/;

function xmlaHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const taken = Object.entries(headers).filter(([name]) => XMLA_HEADER.test(name));
  return { ...Object.fromEntries(taken), accept: xmlaAccept(headers.accept) };
}

/**
 * The explanation is JSON, and programs such as curl say that they take anything, so that neither says what the
 * XMLA request would accept.
 */
function xmlaAccept(header = ''): string | undefined {
  const ranges = header.split(',').filter((range) => !/^\s*application\/json\s*(;|$)/i.test(range));
  const isOpen = ranges.every((range) => /^\s*(\*\/\*)?\s*(;|$)/.test(range));
  return isOpen ? undefined : ranges.join(',').trim();
}

/** How many are told when the request does not say how many, and the most. */
const LIMITS = { usual: 100, most: 1000 } as const;

/**
 * `GET /admin/purges`, for administrators: the latest purges, the newest first.
 * @throws what the login throws; GatewayError `forbidden`, `identity-refused`, and `bad-request` for a query that is
 *   not understood
 */
export function createPurgesHandler({
  purgeLog,
  ...admission
}: Admission & { purgeLog: Pick<PurgeLog, 'latest'> }): RequestHandler {
  return async (request, response) => {
    await admit(request, admission);
    const { limit = String(LIMITS.usual) } = readQuery(request, 'limit');
    if (!/^[1-9]\d{0,3}$/.test(limit) || Number(limit) > LIMITS.most) {
      throw refused(`limit must be a whole number from 1 to ${LIMITS.most}`);
    }
    const { complete, purges } = await purgeLog.latest(Number(limit));
    sendPretty(response, { complete, purges: purges.map(purgeJson) });
  };
}

function purgeJson({ id, at, ...record }: PurgeRecord) {
  return { id, at: new Date(at), ...record };
}

/** What is needed to know administrators. */
interface Admission {
  login: Login;
  permissions: Permissions;
}

/** @throws what the login throws; GatewayError `identity-refused`, `forbidden` for all but administrators */
async function admit(
  request: IncomingMessage,
  { login, permissions }: Admission,
): Promise<Principal> {
  const principal = await login(request);
  refuseDelegation(request.headers, '');
  if (permissions.mayAdminister(principal)) return principal;
  throw new GatewayError('forbidden', `Nothing is told: ${principal.name} is not in auth.admins.`);
}

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

function refused(why: string): GatewayError {
  return new GatewayError('bad-request', `The query is refused: ${why.replace(/\.$/, '')}.`);
}

function sendPretty(response: ServerResponse, value: unknown): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, withUnits, 2)}\n`);
}

/** Concurrent callers share the running check, and later ones its result for so many milliseconds. */
export function shareFor<T>(
  milliseconds: number,
  clock: Pick<Clock, 'now'>,
  check: () => Promise<T>,
): () => Promise<T> {
  let shared: Promise<T> | undefined;
  let until = 0;
  return () => {
    if (shared !== undefined && clock.now() < until) return shared;
    until = Infinity;
    shared = check().finally(() => (until = clock.now() + milliseconds));
    return shared;
  };
}
