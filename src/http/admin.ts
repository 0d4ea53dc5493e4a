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
import { type AdminPages, mergePages, page, PAGE, USUAL_LIMIT } from './admin-page.ts';
import { forgedAct, refuseDelegation } from './request-head.ts';

export type Admin = ReturnType<typeof createAdmin>;
/** Answers `GET` below /admin. @param options.ofFeatures their pages may extend those here */
export function createAdmin(options: {
  permissions: Permissions;
  purgeLog: Pick<PurgeLog, 'latest'>;
  ofFeatures: readonly AdminPages[];
  clock: Pick<Clock, 'wall'>;
  emit: Emit;
}) {
  const { permissions, purgeLog, ofFeatures, clock, emit } = options;
  const own = {
    '/admin/reasons': page({}, async () => ({ reasons: WORDS }), true),
    '/admin/purges': page({ limit: PAGE.limit }, tellPurges, true),
    [DIAGNOSIS]: page({}, diagnose),
  };
  const pages = mergePages([...ofFeatures.map(({ admin = {} }) => admin), own]);

  async function tellPurges({ limit }: Readonly<Record<'limit', number>>) {
    const { complete, purges } = await purgeLog.latest(limit);
    const told = purges.map((one) => Object.assign({}, one, { at: new Date(one.at) }));
    return { complete, purges: told };
  }

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
    /** @throws GatewayError `forbidden`, `bad-request`, `overloaded` */
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

const DIAGNOSIS = '/admin/diagnosis';

export const createAdminHandler =
  ({ login, admin, path }: { login: Login; admin: Admin; path: string }): RequestHandler =>
  async (request, response) => {
    const principal = await login(request, idOf(response));
    refuseDelegation(request.headers, '');
    const forged = path === DIAGNOSIS && forgedAct(request.headers);
    if (forged) throw new GatewayError('forbidden', `Nothing is told: ${forged}.`);
    // The own spelling of the path, whatever the request has.
    const told = await admin.tell(path + request.url.replace(/^[^?]*/, ''), principal);
    if (path === DIAGNOSIS) {
      response.setHeader('content-disposition', 'attachment; filename="diagnosis.json"');
    }
    sendPretty(response, told);
  };

function toldError(error: unknown): object {
  if (!(error instanceof GatewayError)) throw error;
  return { error: error.reason, message: error.message };
}

const WORDS = Object.entries(REASONS).flatMap(([outcome, words]) =>
  Object.entries(words).map(([word, said]: [string, string | readonly [number, string]]) => {
    const [status, meaning] = typeof said === 'string' ? [undefined, said] : said;
    const { [word]: remedy } = REMEDIES as Readonly<Partial<Record<string, string>>>;
    return { word, outcome, status, meaning, remedy };
  }),
);
