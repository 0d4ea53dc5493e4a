import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { Login, Permissions } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit, Outcome } from '../common/events.ts';
import type { Principal } from '../common/principal.ts';
import { REASONS } from '../common/reasons.ts';
import type { PurgeLog } from '../cache/purge/purge-log.ts';
import { REMEDIES } from '../common/remedies.ts';
import { type SharedStatistics, SORTS } from '../statistics/shared-statistics.ts';
import { idOf, sendPretty } from './admin-act.ts';
import { type AdminPage, mergePages, page, word } from './admin-page.ts';
import { forgedAct, refuseDelegation } from './request-head.ts';

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
  console: Record<'overview' | 'system', () => Promise<object>> & {
    status: (principal: Principal) => Promise<object>;
  };
  /** Pages of features, which may share a page with those here. */
  ofFeatures?: readonly Readonly<Record<string, AdminPage>>[];
  clock: Pick<Clock, 'wall'>;
  emit: Emit;
}) {
  const { permissions, purgeLog, statistics, console, clock, emit } = options;
  const own: Readonly<Record<string, AdminPage>> = {
    '/admin/status': page({}, (_query, principal) => console.status(principal), true),
    '/admin/reasons': page({}, async () => ({ reasons: WORDS }), true),
    '/admin/purges': page({ limit: PAGE.limit }, tellPurges, true),
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
