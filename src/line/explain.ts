import type { QueryCache } from '../cache/cache.ts';
import type { KnownNames } from '../cache/projects.ts';
import { GatewayError } from '../common/errors.ts';
import type { ExplainXmla } from '../http/admin.ts';
import { refuseDelegation } from '../http/request-head.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import type { QueryOf } from './query.ts';
import { isPurgedAfter, judgeSession, type PurgeOptions } from './session-step.ts';
import {
  destinationOf,
  type EngineOf,
  projectsNamed,
  refuseOtherIdentity,
  understand,
  type UnderstoodRequest,
  withTooManyNames,
} from './understand.ts';

/**
 * Explains what would become of a request by the steps of the handler, less those that change a session, ask an engine
 * or answer.
 */
export function createExplanation(
  options: PurgeOptions & {
    engineOf: EngineOf;
    cache: Pick<QueryCache, 'explain'>;
    names: Pick<KnownNames, 'wouldAdmit'>;
    sessions: Sessions;
    queryOf: QueryOf;
  },
): ExplainXmla {
  const { names, queryOf, cache, sessions } = options;

  return async function explain({ headers, body, project, search, principal }) {
    refuseDelegation(headers, search);
    const user = principal.name;
    const destination = destinationOf(options.engineOf(project), { project, search }, user);
    let asked: UnderstoodRequest;
    try {
      asked = await understand(headers, body, destination);
      refuseOtherIdentity(asked);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return { classification: { decision: 'refused', reason: error.reason, why: error.message } };
    }
    if (!names.wouldAdmit(user, projectsNamed(asked, project))) asked = withTooManyNames(asked);
    const purges = isPurgedAfter(asked, principal, options);
    const finding = { sessions: { find: sessions.peek }, purges };
    const step = await judgeSession(asked, destination, principal, finding);
    if (step === 'refuse') {
      return { classification: { decision: 'refused', reason: 'unknown-session' } };
    }
    const { request, subject, why } = asked;
    const common = {
      method: request?.method,
      ...(subject !== '' && { subject }),
      ...(why !== '' && { why }),
      ...(request !== undefined && { catalogs: namedCatalogs(request).catalogs }),
    };
    const source = { asked, destination, principal, body, session: step.known, fresh: false };
    const query = step.reason ?? asked.bypass ?? (await queryOf(source));
    if (typeof query === 'string') {
      return { classification: { ...common, decision: 'bypass', reason: query } };
    }
    const { ttl, share } = query;
    return {
      classification: { ...common, decision: 'cacheable', share, ttl },
      cache: await cache.explain(query),
    };
  };
}
