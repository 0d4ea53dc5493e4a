import type { RequestHandler } from 'express';
import type { Login, Permissions } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import type { Principal } from '../common/principal.ts';
import { REASONS } from '../common/reasons.ts';
import type { PurgeLog } from '../cache/purge/purge-log.ts';
import { REMEDIES } from '../common/remedies.ts';
import { idOf, sendPretty } from './admin-act.ts';
import {
  type AdminPage,
  type AdminPages,
  mergePages,
  page,
  PAGE,
  USUAL_LIMIT,
} from './admin-page.ts';
import { forgedAct, refuseDelegation } from './request-head.ts';

export type Admin = ReturnType<typeof createAdmin>;
/**
 * What is told by `GET` below /admin, to programs and to the console.
 * @param options.ofFeatures pages of features, which may share a page with those here
 */
export function createAdmin(options: {
  permissions: Permissions;
  purgeLog: Pick<PurgeLog, 'latest'>;
  ofFeatures: readonly AdminPages[];
  clock: Pick<Clock, 'wall'>;
  emit: Emit;
}) {
  const { permissions, purgeLog, ofFeatures, clock, emit } = options;
  const own: Readonly<Record<string, AdminPage>> = {
    '/admin/reasons': page({}, async () => ({ reasons: WORDS }), true),
    '/admin/purges': page({ limit: PAGE.limit }, tellPurges, true),
    [DIAGNOSIS]: page({}, diagnose),
  };
  const pages = mergePages([...ofFeatures.map(({ admin = {} }) => admin), own]);

  async function tellPurges({ limit }: Readonly<Record<'limit', number>>) {
    const { complete, purges } = await purgeLog.latest(limit);
    return {
      complete,
      purges: purges.map((one) => Object.assign({}, one, { at: new Date(one.at) })),
    };
  }

  /** All that a supporter would ask for. What cannot be had now says why instead. */
  async function diagnose(_query: object, principal: Principal): Promise<object> {
    const parts = [
      ...ofFeatures.flatMap(({ diagnosis = {} }) => Object.entries(diagnosis)),
      ['purges', () => tellPurges({ limit: USUAL_LIMIT })] as const,
    ];
    const told = parts.map(
      async ([name, tell]) => [name, await tell(principal).catch(toldError)] as const,
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
