import type { QueryCache } from '../cache/cache.ts';
import type { KnownNames } from '../cache/projects.ts';
import { GatewayError } from '../common/errors.ts';
import type { ExplainXmla } from '../http/admin.ts';
import { refuseDelegation } from '../http/request-head.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import type { QueryOf } from './query.ts';
import { judge, type PurgeOptions } from './session-step.ts';
import { destinationOf, type EngineOf, understand } from './understand.ts';

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
  const judging = { ...options, find: sessions.peek, admit: names.wouldAdmit };

  return async function explain({ headers, body, project, search, principal }) {
    refuseDelegation(headers, search);
    const user = principal.name;
    const destination = destinationOf(options.engineOf(project), { project, search }, user);
    let judgement: Awaited<ReturnType<typeof judge>>;
    try {
      const read = await understand(headers, body, destination);
      judgement = await judge(read, destination, principal, judging);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return { classification: { decision: 'refused', reason: error.reason, why: error.message } };
    }
    const { asked, judged: step } = judgement;
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
