import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Login, Permissions, Principal } from '../auth/authenticator.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Outcome } from '../common/events.ts';
import {
  BYPASS_REASONS,
  GATEWAY_REASONS,
  HIT_SOURCES,
  REFUSAL_REASONS,
} from '../common/reasons.ts';
import type { PurgeLog, PurgeRecord } from '../cache/purge/purge-log.ts';
import { REMEDIES } from '../common/remedies.ts';
import {
  type DigestSort,
  type EntrySort,
  type SharedStatistics,
  SORTS,
} from '../statistics/shared-statistics.ts';
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

/** An XMLA request that is looked at and not answered. */
export interface AdminQuestion {
  /** Those that an XMLA request is understood by. */
  readonly headers: IncomingHttpHeaders;
  /** Without content coding. */
  readonly body: Buffer;
  /** As of the path /mdx/xmla/{project}, decoded. */
  readonly project: string | undefined;
  /** Whose request it would be. */
  readonly principal: Principal;
  /** The header with which an engine is asked that gets the login of the client. */
  readonly authorization?: string | undefined;
}

/**
 * Port: what would become of an XMLA request if it came now. Asks no engine, and changes nothing, not even a metric.
 */
export type ExplainXmla = (question: AdminQuestion) => Promise<object>;

/**
 * Port: whether the engine would answer a request now as the cache does. Stores nothing.
 * @param id of the call
 * @param signal aborted when the caller has gone
 */
export type CompareXmla = (
  question: AdminQuestion,
  id: string,
  signal: AbortSignal,
) => Promise<object>;

/** What both are built on. */
interface QuestionOptions {
  readonly login: Login;
  readonly permissions: Permissions;
  /** Bytes of a body. */
  readonly maxBody: number;
}

/**
 * The XMLA request that an administrator posts.
 * @throws what {@link readBody} and the login throw; GatewayError `forbidden`, `identity-refused`, `bad-request`
 */
async function readQuestion(
  request: IncomingMessage,
  { login, permissions, maxBody }: QuestionOptions,
  ...names: readonly ('project' | 'user')[]
) {
  const administrator = await login(request);
  refuseDelegation(request.headers, '');
  if (!permissions.mayAdminister(administrator)) {
    throw notTold(administrator, 'not in auth.admins');
  }
  const forged = forgery(request.headers);
  if (forged !== undefined) throw new GatewayError('forbidden', `Nothing is told: ${forged}.`);
  const { project, user } = readQuestionQuery(request, names);
  const principal = user === undefined ? administrator : { name: user };
  const headers = xmlaHeaders(request.headers);
  const body = await readBody(request, maxBody);
  return { administrator, question: { headers, body, project, principal } };
}

/**
 * `POST /admin/explain`, for administrators: it tells when a user has asked something and which sessions are known.
 * @throws as {@link readQuestion}
 */
export function createExplainHandler(
  options: QuestionOptions & { explain: ExplainXmla; emit: Emit },
): RequestHandler {
  return async (request, response) => {
    const { administrator, question } = await readQuestion(request, options, 'project', 'user');
    const { project, principal } = question;
    const told = { project, user: principal.name, ...(await options.explain(question)) };
    options.emit({
      type: 'explained',
      id: idOf(response),
      principal: administrator.name,
      user: principal.name,
      project: project ?? '',
    });
    sendPretty(response, told);
  };
}

/**
 * `POST /admin/compare`, for administrators: the engine is asked with the login of the caller, whose own entry is compared.
 * @throws as {@link readQuestion}
 */
export function createCompareHandler(
  options: QuestionOptions & { compare: CompareXmla },
): RequestHandler {
  return async (request, response) => {
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const { question } = await readQuestion(request, options, 'project');
    const { project, principal } = question;
    const { authorization } = request.headers;
    const id = idOf(response);
    const compared = await options.compare({ ...question, authorization }, id, gone.signal);
    sendPretty(response, { project, user: principal.name, ...compared });
  };
}

/** As it goes out with the answer. */
const idOf = (response: ServerResponse) => String(response.getHeader(REQUEST_ID) ?? '');

/** What the header Authorization can carry as a name (RFC 7617 §2), at most as long as in a password file. */
const USER_NAME = /^[^:\p{Cc}]{1,255}$/u;

function readQuestionQuery(request: IncomingMessage, names: readonly ('project' | 'user')[]) {
  const { project, user } = readQuery(request, ...names);
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

const xmlaHeaders = (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isXmlaHeader(name)));

/** Without `limit`, and at most. */
const LIMITS = { usual: 100, most: 1000 } as const;

/** What one path below /admin tells. */
interface AdminPage {
  /** Besides administrators: viewers, or purgers as well. */
  readonly to: 'viewers' | 'viewers and purgers';
  /** Its query may hold each of these once. */
  readonly names: readonly string[];
  tell(query: Partial<Record<string, string>>, principal: Principal): Promise<object>;
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
  /** How the gateway is, and what it was worth in the last hour. */
  console: {
    status: (principal: Principal) => Promise<object>;
    overview: () => Promise<object>;
  };
}) {
  const { permissions, purgeLog, statistics, console } = options;
  const pages: Readonly<Record<string, AdminPage>> = {
    '/admin/status': {
      to: 'viewers and purgers',
      names: [],
      tell: (_query, principal) => console.status(principal),
    },
    '/admin/overview': { to: 'viewers', names: [], tell: console.overview },
    '/admin/reasons': {
      to: 'viewers and purgers',
      names: [],
      tell: async () => ({ reasons: REASONS }),
    },
    '/admin/purges': {
      to: 'viewers and purgers',
      names: ['limit'],
      async tell(query) {
        const { complete, purges } = await purgeLog.latest(readLimit(query));
        return { complete, purges: purges.map(purgeJson) };
      },
    },
    '/admin/statistics': {
      to: 'viewers',
      names: ['sort', 'project', 'digest', ...PAGE],
      tell({ project, digest, ...query }, principal) {
        const page = { ...readPage(query), sort: readSort(query, SORTS.digests) };
        const withText = permissions.mayAdminister(principal);
        return statistics.statistics(page, withText, { project, digest });
      },
    },
    '/admin/requests': {
      to: 'viewers',
      names: [...FILTERS, ...PAGE],
      tell: async ({ limit, offset, ...filter }) =>
        statistics.requests(readFilter(filter), readPage({ limit, offset })),
    },
    '/admin/entries': {
      to: 'viewers',
      names: ['sort', ...PAGE],
      tell: (query) =>
        statistics.entries({ ...readPage(query), sort: readSort(query, SORTS.entries) }),
    },
  };

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
      const { mayView, mayPurge } = permissions;
      const isForPurgers = page.to === 'viewers and purgers';
      if (!mayView(principal) && !(isForPurgers && mayPurge(principal))) {
        const lists = isForPurgers
          ? 'in none of auth.admins, auth.viewers and auth.purgers'
          : 'neither in auth.admins nor in auth.viewers';
        throw notTold(principal, lists);
      }
      return page.tell(readQuery({ url: target }, ...page.names), principal);
    },
  };
}

/**
 * Answers a `GET` below /admin.
 * @throws what the login and {@link Admin.tell} throw; GatewayError `identity-refused`
 */
export const createAdminHandler =
  ({ login, admin }: { login: Login; admin: Admin }): RequestHandler =>
  async (request, response) => {
    const principal = await login(request);
    refuseDelegation(request.headers, '');
    sendPretty(response, await admin.tell(request.originalUrl, principal));
  };

/** The words of Cache-Status: what each means, and what an operator can do about it. */
const REASONS = [
  ...wordsOf('bypass', BYPASS_REASONS),
  ...wordsOf('miss', REFUSAL_REASONS),
  ...wordsOf('hit', HIT_SOURCES),
  ...Object.entries(GATEWAY_REASONS).map(([word, [status, meaning]]) => ({
    word,
    outcome: 'gateway',
    status,
    meaning,
  })),
];

function wordsOf<Word extends string>(outcome: string, reasons: Readonly<Record<Word, string>>) {
  const remedies: Readonly<Partial<Record<string, string>>> = REMEDIES;
  return Object.entries(reasons).map(([word, meaning]) => ({
    word,
    outcome,
    meaning,
    remedy: remedies[word],
  }));
}

const OUTCOMES: ReadonlySet<string> = new Set<Outcome['kind']>([
  'hit',
  'miss',
  'bypass',
  'gateway',
]);
const WORDS: ReadonlySet<string> = new Set(['', ...REASONS.map(({ word }) => word)]);
const FILTERS = [
  'user',
  'project',
  'digest',
  'outcome',
  'reason',
  'id',
  'until',
  'slower',
] as const;
const PAGE = ['limit', 'offset'] as const;
/** As many requests as are remembered; what is sorted is sorted so far. */
const LAST_OFFSET = 10_000;

function readFilter({ until, slower, ...texts }: Partial<Record<string, string>>): RequestFilter {
  const { outcome, reason } = texts;
  if (outcome !== undefined && !OUTCOMES.has(outcome)) {
    throw refused(`outcome must be one of ${[...OUTCOMES].join(', ')}`);
  }
  if (reason !== undefined && !WORDS.has(reason)) {
    throw refused('reason must be a word of Cache-Status (docs/OBSERVABILITY.md), or empty');
  }
  return {
    ...texts,
    until: until === undefined ? undefined : readTime(until),
    slower: slower === undefined ? undefined : readMilliseconds(slower),
  };
}

function readMilliseconds(slower: string): number {
  if (/^\d{1,9}$/.test(slower)) return Number(slower);
  throw refused('slower must be a whole number of milliseconds, at most 999999999');
}

/** @returns ms of the wall clock */
function readTime(until: string): number {
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z$/.test(until)
    ? Date.parse(until)
    : NaN;
  // The 31st of a month that has 30 days would be the first of the next.
  if (!Number.isNaN(time) && new Date(time).toISOString().startsWith(until.slice(0, 10)))
    return time;
  throw refused('until must be a time of ISO 8601 in UTC, such as 2026-01-02T08:55:00.000Z');
}

function readLimit({ limit = String(LIMITS.usual) }: { limit?: string | undefined }): number {
  if (!/^[1-9]\d{0,3}$/.test(limit) || Number(limit) > LIMITS.most) {
    throw refused(`limit must be a whole number from 1 to ${LIMITS.most}`);
  }
  return Number(limit);
}

function readPage(query: { limit?: string | undefined; offset?: string | undefined }) {
  const { offset = '0' } = query;
  if (!/^(?:0|[1-9]\d{0,4})$/.test(offset) || Number(offset) > LAST_OFFSET) {
    throw refused(`offset must be a whole number from 0 to ${LAST_OFFSET}`);
  }
  return { limit: readLimit(query), offset: Number(offset) };
}

function readSort<S extends DigestSort | EntrySort>(
  { sort }: { sort?: string },
  sorts: readonly S[],
) {
  const found = sort === undefined ? sorts[0] : sorts.find((one) => one === sort);
  if (found === undefined) throw refused(`sort must be one of ${sorts.join(', ')}`);
  return found;
}

const notTold = ({ name }: Principal, lists: string) =>
  new GatewayError('forbidden', `Nothing is told: ${name} is ${lists}.`);

const purgeJson = ({ id, at, ...record }: PurgeRecord) => ({ id, at: new Date(at), ...record });

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

function sendPretty(response: ServerResponse, value: unknown): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, null, 2)}\n`);
}
