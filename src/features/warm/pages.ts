import { z } from 'zod';
import { GatewayError } from '../../common/errors.ts';
import { type AdminCall, projectWord } from '../../http/admin-act.ts';
import { page, readQuery } from '../../http/admin-page.ts';
import type { Pages } from '../feature.ts';
import type { WarmUp } from './warm-up.ts';

/** Tells of runs and candidates (`GET`), and begins a run with the login of its user (`POST`). */
export function warmPages(warmUp: Pick<WarmUp, 'begin' | 'tell'>): Pages {
  async function begin({ administrator, request, body }: AdminCall) {
    const { project } = readQuery(request, { project: projectWord.optional() });
    const { authorization } = request.headers;
    const queries = namedQueries(await body(LONGEST_LIST_BYTES));
    return warmUp.begin({ principal: administrator, authorization }, { project, queries });
  }
  return {
    admin: { '/admin/warm': page({}, warmUp.tell) },
    acts: { '/admin/warm': { refusal: 'Nothing was done', status: 202, act: begin } },
  };
}

const LONGEST_LIST_BYTES = 64 * 1024;
const NAMED = z.strictObject({ queries: z.array(z.string().regex(/^[\w-]{22}$/)).min(1) });

function namedQueries(body: Buffer): ReadonlySet<string> | undefined {
  if (body.length === 0) return undefined;
  try {
    return new Set(NAMED.parse(JSON.parse(body.toString())).queries);
  } catch {
    const rule = '{"queries":["…"]}, with one or more digests of GET /admin/statistics';
    throw new GatewayError('bad-request', `The body is refused: it may be missing, or ${rule}.`);
  }
}
