import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Login, Permissions, Principal } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Outcome } from '../common/events.ts';
import { REASONS } from '../common/reasons.ts';
import type { PurgeLog } from '../cache/purge/purge-log.ts';
import { HEADER_VALUE } from '../cache/stored-answer.ts';
import { REMEDIES } from '../common/remedies.ts';
import { type SharedStatistics, SORTS } from '../statistics/shared-statistics.ts';
import type { WarmUp } from '../cache/warm/warm.ts';
import type { RequestFilter } from '../statistics/statistics.ts';
import { sendWhole } from './answers.ts';
import { readBody } from './read-body.ts';
import {
  forgery,
  isXmlaHeader,
  queryParameters,
  refuseDelegation,
  REQUEST_ID,
} from './request-head.ts';
import { readXmlaPath } from './xmla-path.ts';

/** An XMLA request that an administrator asks about. */
export interface AdminQuestion {
  /** Of the call. */
  readonly id: string;
  readonly administrator: Principal;
  /** Whose request it would be. */
  readonly principal: Principal;
  /** Those that an XMLA request is understood by. */
  readonly headers: IncomingHttpHeaders;
  /** The login of the administrator, for an engine that gets that of the client. */
  readonly authorization: string | undefined;
  /** Without content coding. */
  readonly body: Buffer;
  /** As of the path /mdx/xmla/{project}, decoded. */
  readonly project: string | undefined;
  /** Aborted when the administrator has gone. */
  readonly signal: AbortSignal;
}

/** Port: tells what becomes of an XMLA request, or of what is in the cache for it, and changes nothing, not even a metric of users. */
export type TellAbout = (question: AdminQuestion) => Promise<object>;

/**
 * `POST /admin/explain` and `POST /admin/compare`, for administrators: they tell when a user has asked something and which
 * sessions are known.
 * @param may.user whether the query may name another user whose request it would be
 * @throws what {@link readBody} and the login throw; GatewayError `forbidden`, `identity-refused`, `bad-request`
 */
export function createQuestionHandler(
  options: Admission & { maxBody: number },
  tell: TellAbout,
  may: { readonly user: boolean },
): RequestHandler {
  return async (request, response) => {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const administrator = await administratorOf(request, options, 'Nothing is told');
    const { project, user, ...client } = readQuestionQuery(request, may.user);
    const principal = user === undefined ? administrator : { name: user };
    const headers = { ...xmlaHeaders(request.headers), ...client };
    const { authorization } = request.headers;
    const body = await readBody(request, options.maxBody);
    const id = String(response.getHeader(REQUEST_ID));
    const who = { id, administrator, principal, authorization, signal: gone.signal };
    const told = await tell({ ...who, headers, body, project });
    sendPretty(response, { project, user: principal.name, ...told });
  };
}

type Admission = Readonly<{ login: Login; permissions: Permissions }>;

/** @throws what the login throws; GatewayError `forbidden`, `identity-refused` */
async function administratorOf(
  request: IncomingMessage,
  { login, permissions }: Admission,
  outcome: 'Nothing is told' | 'Nothing was done',
): Promise<Principal> {
  const principal = await login(request);
  refuseDelegation(request.headers, '');
  const why = permissions.mayAdminister(principal)
    ? forgery(request.headers)
    : `${principal.name} is not in auth.admins`;
  if (why !== undefined) throw new GatewayError('forbidden', `${outcome}: ${why}.`);
  return principal;
}

/** What the header Authorization can carry as a name (RFC 7617 §2), at most as long as in a password file. */
const USER_NAME = /^[^:\p{Cc}]{1,255}$/u;

function readQuestionQuery(request: IncomingMessage, mayNameUser: boolean) {
  // Browsers do not send the headers of another program: two words count in the place of theirs.
  const words = ['project', 'user_agent', 'content_type'] as const;
  const query = readQuery(request, ...words, ...(mayNameUser ? (['user'] as const) : []));
  const { project, user, user_agent, content_type } = query;
  if ([user_agent, content_type].some((text = 'x') => !HEADER_VALUE.test(text))) {
    throw refused('user_agent and content_type must be values of headers: letters of ISO-8859-1');
  }
  if (user !== undefined && !USER_NAME.test(user)) {
    throw refused('user must be a user name: 1 to 255 characters, no colon, no control characters');
  }
  checkProject(project);
  const client = {
    ...(user_agent && { 'user-agent': user_agent }),
    ...(content_type && { 'content-type': content_type }),
  };
  return { project, user, ...client };
}

/** Names that no path can carry are refused here as they are there. */
function checkProject(project: string | undefined): void {
  if (project === undefined) return;
  const path = readXmlaPath(`/mdx/xmla/${encodeURIComponent(project)}`);
  const why = path?.kind === 'bad-project' ? ` ${path.message}` : '';
  if (path?.kind !== 'xmla' || path.project !== project) {
    throw refused(`project must be a name that can stand in the path /mdx/xmla/{project}.${why}`);
  }
}

const xmlaHeaders = (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isXmlaHeader(name)));

/** Without `limit`, and at most. */
const LIMITS = { usual: 100, most: 1000 } as const;
/** So many queries stand in a diagnosis. */
const DIAGNOSED = 50;

/** Of a query. */
type Words = Partial<Record<string, string>>;
/** What one path below /admin tells: to administrators and viewers, and its query may hold each of the names once. */
interface AdminPage {
  readonly toPurgers?: true;
  readonly names?: readonly string[];
  tell(query: Words, principal: Principal): Promise<object>;
}

export type Admin = ReturnType<typeof createAdmin>;
/**
 * What is told by `GET` below /admin, to programs and to the console: how the gateway is, and a page of what it remembers of
 * queries, of the latest requests, of the entries in memory, and of purges.
 */
export function createAdmin(options: {
  permissions: Permissions;
  purgeLog: Pick<PurgeLog, 'latest'>;
  statistics: SharedStatistics;
  warmUp: Pick<WarmUp, 'begin'> & { tell: () => Promise<object> };
  console: {
    status: (principal: Principal) => Promise<object>;
    overview: () => Promise<object>;
    system: () => Promise<object>;
    watches: () => Promise<object>;
  };
  clock: Pick<Clock, 'wall'>;
  emit: Emit;
}) {
  const { permissions, purgeLog, statistics, warmUp, console, clock, emit } = options;
  const pages: Readonly<Record<string, AdminPage>> = {
    '/admin/status': { toPurgers: true, tell: (_query, principal) => console.status(principal) },
    '/admin/reasons': { toPurgers: true, tell: async () => ({ reasons: WORDS }) },
    '/admin/purges': { toPurgers: true, names: ['limit'], tell: tellPurges },
    '/admin/watches': { toPurgers: true, tell: console.watches },
    '/admin/warm': { tell: () => warmUp.tell() },
    '/admin/overview': { tell: console.overview },
    '/admin/system': { tell: console.system },
    [DIAGNOSIS]: { tell: diagnose },
    '/admin/statistics': {
      names: ['sort', 'project', 'digest', ...PAGE],
      tell({ project, digest, ...query }, principal) {
        const page = { ...readPage(query), sort: readSort(query, SORTS.digests) };
        const withText = permissions.mayAdminister(principal);
        return statistics.statistics({ ...page, project, digest }, withText);
      },
    },
    '/admin/requests': {
      names: [...FILTERS, ...PAGE],
      tell: async ({ limit, offset, ...filter }) =>
        statistics.requests(readFilter(filter), readPage({ limit, offset })),
    },
    '/admin/entries': {
      names: ['sort', ...PAGE],
      tell: (query) =>
        statistics.entries({ ...readPage(query), sort: readSort(query, SORTS.entries) }),
    },
  };

  async function tellPurges(query: Words) {
    const { complete, purges } = await purgeLog.latest(readLimit(query));
    return {
      complete,
      purges: purges.map((one) => Object.assign({}, one, { at: new Date(one.at) })),
    };
  }

  /** All that a supporter would ask for, without statements. What cannot be had now says why instead. */
  async function diagnose(_query: object, principal: Principal): Promise<object> {
    const page = { limit: 0, offset: 0 };
    /** Of those that are remembered. */
    const countOf = async (outcome: string) =>
      [outcome, (await statistics.requests({ outcome }, page)).total] as const;
    const parts: Readonly<Record<string, Promise<object>>> = {
      status: console.status(principal),
      overview: console.overview(),
      system: console.system(),
      statistics: statistics.statistics({ ...page, sort: 'cost', limit: DIAGNOSED }),
      purges: tellPurges({}),
      requests: Promise.all(OUTCOMES.map(countOf)).then(Object.fromEntries),
    };
    const told = Object.entries(parts).map(
      async ([name, part]) => [name, await part.catch(toldError)] as const,
    );
    const diagnosis = Object.fromEntries(await Promise.all(told)) as object;
    emit({ type: 'diagnosis-saved', principal: principal.name });
    return { at: new Date(clock.wall()), ...diagnosis };
  }

  return {
    paths: Object.keys(pages),
    /**
     * @param target a path and its query, as in the request line
     * @throws GatewayError `forbidden`, `bad-request`, `overloaded`
     */
    async tell(target: string, principal: Principal): Promise<object> {
      const [path = ''] = target.split('?', 1);
      const page = pages[path];
      if (page === undefined) throw new Error(`nothing is told under ${path}`);
      const { toPurgers = false, names = [] } = page;
      if (!permissions.mayView(principal) && !(toPurgers && permissions.mayPurge(principal))) {
        const lists = toPurgers
          ? 'in none of auth.admins, auth.viewers and auth.purgers'
          : 'neither in auth.admins nor in auth.viewers';
        throw notTold(principal, lists);
      }
      return page.tell(readQuery({ url: target }, ...names), principal);
    },
  };
}

/** It is saved by browsers, not shown. */
const DIAGNOSIS = '/admin/diagnosis';

/**
 * Answers a `GET` of one path below /admin.
 * @throws what the login and {@link Admin.tell} throw; GatewayError `identity-refused`
 */
export const createAdminHandler =
  ({ login, admin, path }: { login: Login; admin: Admin; path: string }): RequestHandler =>
  async (request, response) => {
    const principal = await login(request);
    refuseDelegation(request.headers, '');
    const forged = path === DIAGNOSIS && forgery(request.headers);
    if (forged) throw new GatewayError('forbidden', `Nothing is told: ${forged}.`);
    // However the path is spelt in the request.
    const told = await admin.tell(path + request.url.replace(/^[^?]*/, ''), principal);
    if (path === DIAGNOSIS) {
      response.setHeader('content-disposition', 'attachment; filename="diagnosis.json"');
    }
    sendPretty(response, told);
  };

/** @throws what is no GatewayError */
function toldError(error: unknown): object {
  if (!(error instanceof GatewayError)) throw error;
  return { error: error.reason, message: error.message };
}

/**
 * `POST /admin/warm`: begins a run of the warm-up with the login of an administrator.
 * @throws what the login throws; GatewayError `forbidden`, `identity-refused`, `bad-request`, `not-warmed`
 */
export const createWarmHandler =
  (parts: Admission & { warmUp: Pick<WarmUp, 'begin'> }): RequestHandler =>
  async (request, response) => {
    const principal = await administratorOf(request, parts, 'Nothing was done');
    const { project } = readQuery(request, 'project');
    checkProject(project);
    const { authorization } = request.headers;
    const id = await parts.warmUp.begin({ principal, authorization }, project);
    sendPretty(response, { id }, 202);
  };

/** The words of Cache-Status: what each means, and what an operator can do about it. */
const WORDS = Object.entries(REASONS).flatMap(([outcome, words]) =>
  Object.entries(words).map(([word, said]: [string, string | readonly [number, string]]) => {
    const [status, meaning] = typeof said === 'string' ? [undefined, said] : said;
    const { [word]: remedy } = REMEDIES as Readonly<Partial<Record<string, string>>>;
    return { word, outcome, status, meaning, remedy };
  }),
);

const OUTCOMES = ['hit', 'miss', 'bypass', 'gateway'] satisfies Outcome['kind'][];
const FILTERS = 'user project digest outcome reason id until slower'.split(' ');
const PAGE = ['limit', 'offset'] as const;
/** As many requests as are remembered; what is sorted is sorted so far. */
const LAST_OFFSET = 10_000;

function readFilter({ until, slower = '0', ...texts }: Words): RequestFilter {
  const { outcome = 'hit', reason = '' } = texts;
  if (!OUTCOMES.some((one) => one === outcome)) {
    throw refused(`outcome must be one of ${OUTCOMES.join(', ')}`);
  }
  if (reason !== '' && !WORDS.some(({ word }) => word === reason)) {
    throw refused('reason must be a word of Cache-Status (docs/OBSERVABILITY.md), or empty');
  }
  if (!/^\d{1,9}$/.test(slower)) {
    throw refused('slower must be a whole number of milliseconds, at most 999999999');
  }
  const last = until === undefined ? undefined : readTime(until);
  return { ...texts, until: last, slower: Number(slower) };
}

/** @returns ms of the wall clock */
function readTime(until: string): number {
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/.test(until);
  const time = new Date(until);
  // The 31st of a month that has 30 days would be the first of the next; of no time it is null.
  if (isTime && time.toJSON()?.startsWith(until.slice(0, 10))) return time.getTime();
  throw refused('until must be a time of ISO 8601 in UTC, such as 2026-01-02T08:55:00.000Z');
}

function readLimit({ limit = String(LIMITS.usual) }: Words): number {
  if (!/^[1-9]\d{0,3}$/.test(limit) || Number(limit) > LIMITS.most) {
    throw refused(`limit must be a whole number from 1 to ${LIMITS.most}`);
  }
  return Number(limit);
}

function readPage(query: Words) {
  const { offset = '0' } = query;
  if (!/^(?:0|[1-9]\d{0,4})$/.test(offset) || Number(offset) > LAST_OFFSET) {
    throw refused(`offset must be a whole number from 0 to ${LAST_OFFSET}`);
  }
  return { limit: readLimit(query), offset: Number(offset) };
}

function readSort<S extends string>({ sort }: Words, sorts: readonly S[]): S {
  const found = sort === undefined ? sorts[0] : sorts.find((one) => one === sort);
  if (found === undefined) throw refused(`sort must be one of ${sorts.join(', ')}`);
  return found;
}

const notTold = ({ name }: Principal, lists: string) =>
  new GatewayError('forbidden', `Nothing is told: ${name} is ${lists}.`);

/** The query of a request that may hold each of these names once, and no other. */
function readQuery<Name extends string>(
  request: Pick<IncomingMessage, 'url'>,
  ...names: readonly Name[]
): Partial<Record<Name, string>> {
  const given = Object.entries(queryParameters(request));
  const unknown = given.map(([name]) => name).filter((name) => !names.includes(name as Name));
  if (unknown.length > 0) {
    const list = names.join(', ').replace(/, (\S+)$/, ' and $1') || 'none';
    const allowed = `${names.length === 1 ? 'is' : 'are'} ${list}`;
    throw refused(`${unknown.join(', ')} is no query parameter here; allowed ${allowed}`);
  }
  const repeated = given.find(([, value]) => typeof value !== 'string');
  if (repeated !== undefined) throw refused(`${repeated[0]} is given more than once`);
  return Object.fromEntries(given) as Partial<Record<Name, string>>;
}

const refused = (why: string) =>
  new GatewayError('bad-request', `The query is refused: ${why.replace(/\.$/, '')}.`);

function sendPretty(response: ServerResponse, value: unknown, status = 200): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, null, 2)}\n`, status);
}
