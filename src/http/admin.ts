import type { RequestHandler } from 'express';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Login, Permissions } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Outcome } from '../common/events.ts';
import { type Principal, principalOf } from '../common/principal.ts';
import { REASONS } from '../common/reasons.ts';
import type { PurgeLog } from '../cache/purge/purge-log.ts';
import { HEADER_VALUE } from '../cache/stored-answer.ts';
import { REMEDIES } from '../common/remedies.ts';
import { type SharedStatistics, SORTS } from '../statistics/shared-statistics.ts';
import type { WarmUp } from '../cache/warm/warm.ts';
import { type AdminPage, mergePages, page, type Query, readQuery } from './admin-page.ts';
import { sendWhole } from './answers.ts';
import { readBody } from './read-body.ts';
import { forgedAct, isXmlaHeader, refuseDelegation, REQUEST_ID } from './request-head.ts';
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
    const administrator = await administratorOf(request, response, options, 'Nothing is told');
    const words = may.user ? { ...QUESTION, user: userName.optional() } : QUESTION;
    const query: Query<typeof QUESTION> & { user?: string | undefined } = readQuery(request, words);
    const { project, user, user_agent, content_type } = query;
    const principal = user === undefined ? administrator : principalOf(user);
    const headers = {
      ...xmlaHeaders(request.headers),
      ...(user_agent && { 'user-agent': user_agent }),
      ...(content_type && { 'content-type': content_type }),
    };
    const { authorization } = request.headers;
    const body = await readBody(request, options.maxBody);
    const id = idOf(response);
    const who = { id, administrator, principal, authorization, signal: gone.signal };
    const told = await tell({ ...who, headers, body, project });
    sendPretty(response, { project, user: principal.name, ...told });
  };
}

/** Each request below /admin has one by then. */
const idOf = (response: ServerResponse) => String(response.getHeader(REQUEST_ID));
type Admission = Readonly<{ login: Login; permissions: Permissions }>;

/** @throws what the login throws; GatewayError `forbidden`, `identity-refused` */
async function administratorOf(
  request: IncomingMessage,
  response: ServerResponse,
  { login, permissions }: Admission,
  outcome: 'Nothing is told' | 'Nothing was done',
): Promise<Principal> {
  const principal = await login(request, idOf(response));
  refuseDelegation(request.headers, '');
  const why = permissions.mayAdminister(principal)
    ? forgedAct(request.headers)
    : `${principal.name} is not in auth.admins`;
  if (why !== undefined) throw new GatewayError('forbidden', `${outcome}: ${why}.`);
  return principal;
}

/** A word of a query, which must be so. */
const word = (allowed: string, is: (text: string) => boolean) =>
  z.string().refine(is, `must be ${allowed}`);
const isHeader = (text: string) => HEADER_VALUE.test(text);
const header = word('a value of a header: letters of ISO-8859-1', isHeader).optional();
/** Names that no path can carry are refused here as they are there. */
const ofPath = z.string().superRefine((project, { addIssue }) => {
  const path = readXmlaPath(`/mdx/xmla/${encodeURIComponent(project)}`);
  if (path?.kind === 'xmla' && path.project === project) return;
  const why = path?.kind === 'bad-project' ? ` ${path.message}` : '';
  addIssue(`must be a name that can stand in the path /mdx/xmla/{project}.${why}`);
});
/** What the header Authorization can carry as a name (RFC 7617 §2), as the log tells it, at most as long as in a password file. */
const userName = word('a user name: 1 to 255 characters, no colon, no control characters', (text) =>
  /^(?:iso-8859-1:)?[^:\p{Cc}]{1,255}$/u.test(text),
);
/** Browsers do not send the headers of another program: two words count in the place of theirs. */
const QUESTION = { project: ofPath.optional(), user_agent: header, content_type: header };

const xmlaHeaders = (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => isXmlaHeader(name)));

/** So many queries stand in a diagnosis. */
const DIAGNOSED = 50;

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
  console: Record<'overview' | 'system' | 'hooks', () => Promise<object>> & {
    status: (principal: Principal) => Promise<object>;
  };
  /** Pages of features, which may share a page with those here. */
  ofFeatures?: readonly Readonly<Record<string, AdminPage>>[];
  clock: Pick<Clock, 'wall'>;
  emit: Emit;
}) {
  const { permissions, purgeLog, statistics, warmUp, console, clock, emit } = options;
  const own: Readonly<Record<string, AdminPage>> = {
    '/admin/status': page({}, (_query, principal) => console.status(principal), true),
    '/admin/reasons': page({}, async () => ({ reasons: WORDS }), true),
    '/admin/purges': page({ limit: PAGE.limit }, tellPurges, true),
    '/admin/watches': page({}, console.hooks, true),
    '/admin/warm': page({}, () => warmUp.tell()),
    '/admin/overview': page({}, console.overview),
    '/admin/system': page({}, console.system),
    [DIAGNOSIS]: page({}, diagnose),
    '/admin/statistics': page(
      { sort: oneOf(SORTS.digests).default('cost'), project: text, digest: text, ...PAGE },
      (query, principal) => statistics.statistics(query, permissions.mayAdminister(principal)),
    ),
    '/admin/requests': page({ ...FILTER, ...PAGE }, ({ limit, offset, ...filter }) =>
      statistics.requests(filter, { limit, offset }),
    ),
    '/admin/entries': page(
      { sort: oneOf(SORTS.entries).default('hits'), ...PAGE },
      statistics.entries,
    ),
  };
  const pages = mergePages([...(options.ofFeatures ?? []), own]);

  async function tellPurges({ limit }: Readonly<Record<'limit', number>>) {
    const { complete, purges } = await purgeLog.latest(limit);
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
      purges: tellPurges({ limit: USUAL_LIMIT }),
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
      const found = pages[path];
      if (found === undefined) throw new Error(`nothing is told under ${path}`);
      const { toPurgers, tell } = found;
      if (!permissions.mayView(principal) && !(toPurgers && permissions.mayPurge(principal))) {
        const lists = toPurgers
          ? 'in none of auth.admins, auth.viewers and auth.purgers'
          : 'neither in auth.admins nor in auth.viewers';
        throw new GatewayError('forbidden', `Nothing is told: ${principal.name} is ${lists}.`);
      }
      return tell(target, principal);
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
    const principal = await login(request, idOf(response));
    refuseDelegation(request.headers, '');
    const forged = path === DIAGNOSIS && forgedAct(request.headers);
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
 * `POST /admin/warm`: begins a run of the warm-up with the login of an administrator, for what that user asked or names.
 * @throws what the login throws; GatewayError `forbidden`, `identity-refused`, `bad-request`, `not-warmed`
 */
export const createWarmHandler =
  (parts: Admission & { warmUp: Pick<WarmUp, 'begin'> }): RequestHandler =>
  async (request, response) => {
    const principal = await administratorOf(request, response, parts, 'Nothing was done');
    const { project } = readQuery(request, { project: ofPath.optional() });
    const { authorization } = request.headers;
    const queries = namedQueries(await readBody(request, LONGEST_LIST));
    const begun = await parts.warmUp.begin({ principal, authorization }, { project, queries });
    sendPretty(response, begun, 202);
  };

/** Of digests (bytes). */
const LONGEST_LIST = 64 * 1024;
const NAMED = z.strictObject({ queries: z.array(z.string().regex(/^[\w-]{22}$/)).min(1) });

/** @returns undefined for no body */
function namedQueries(body: Buffer): ReadonlySet<string> | undefined {
  if (body.length === 0) return undefined;
  try {
    return new Set(NAMED.parse(JSON.parse(body.toString())).queries);
  } catch {
    const rule = '{"queries":["…"]}, with one or more digests of GET /admin/statistics';
    throw new GatewayError('bad-request', `The body is refused: it may be missing, or ${rule}.`);
  }
}

/** The words of Cache-Status: what each means, and what an operator can do about it. */
const WORDS = Object.entries(REASONS).flatMap(([outcome, words]) =>
  Object.entries(words).map(([word, said]: [string, string | readonly [number, string]]) => {
    const [status, meaning] = typeof said === 'string' ? [undefined, said] : said;
    const { [word]: remedy } = REMEDIES as Readonly<Partial<Record<string, string>>>;
    return { word, outcome, status, meaning, remedy };
  }),
);

const OUTCOMES = ['hit', 'miss', 'bypass', 'gateway'] satisfies Outcome['kind'][];
const text = z.string().optional();
const oneOf = <const Words extends readonly string[]>(words: Words) =>
  z.enum(words, `must be one of ${words.join(', ')}`);
const whole = (least: number, most: number, usual: number, of = '') =>
  word(`a whole number${of} from ${least} to ${most}`, (text) => {
    const isWhole = /^(?:0|[1-9]\d*)$/.test(text);
    return isWhole && Number(text) >= least && Number(text) <= most;
  })
    .default(String(usual))
    .transform(Number);

const USUAL_LIMIT = 100;
/** As many requests as are remembered; what is sorted is sorted so far. */
const LAST_OFFSET = 10_000;
const PAGE = { limit: whole(1, 1000, USUAL_LIMIT), offset: whole(0, LAST_OFFSET, 0) };
/** Of requests. */
const FILTER = {
  user: text,
  project: text,
  digest: text,
  outcome: oneOf(OUTCOMES).optional(),
  reason: word(
    'a word of Cache-Status (docs/OBSERVABILITY.md), or empty',
    (reason) => reason === '' || WORDS.some(({ word }) => word === reason),
  ).optional(),
  id: text,
  until: z.iso
    .datetime('must be a time of ISO 8601 in UTC, such as 2026-01-02T08:55:00.000Z')
    .transform(Date.parse)
    .optional(),
  slower: whole(0, 999_999_999, 0, ' of milliseconds'),
};

function sendPretty(response: ServerResponse, value: unknown, status = 200): void {
  sendWhole(response, 'application/json', `${JSON.stringify(value, null, 2)}\n`, status);
}
