import { GatewayError } from '../common/errors.ts';
import type { Classification, ExplainXmla } from '../http/admin.ts';
import { refuseDelegation } from '../http/request-checks.ts';
import type { KnownNames } from '../cache/projects.ts';
import type { QueryCache } from '../cache/cache.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import { destinationOf, type EngineOf, type QueryOf } from './query.ts';
import { judgeSession, type ContextOf } from './session-step.ts';
import {
  projectsNamed,
  refuseOtherIdentity,
  understand,
  withTooManyNames,
  type UnderstoodRequest,
} from './understand.ts';

/**
 * Explains what would become of a request by the steps of the handler, less those that change a session, ask an engine
 * or answer.
 */
export function createExplanation(options: {
  engineOf: EngineOf;
  cache: Pick<QueryCache, 'explain'>;
  names: Pick<KnownNames, 'wouldAdmit'>;
  queryOf: QueryOf;
  contextOf: ContextOf;
}): ExplainXmla {
  const { names, queryOf, contextOf, cache } = options;

  return async function explain({ headers, body, project, search, principal }) {
    refuseDelegation(headers, search);
    const user = principal.name;
    const to = { project, search, user, authorization: () => undefined };
    const destination = destinationOf(options.engineOf(project), to);
    let asked: UnderstoodRequest;
    try {
      asked = await understand(headers, body, destination.traits);
      await refuseOtherIdentity(asked, body, destination.settings.delegation);
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      return { classification: { decision: 'refused', reason: error.reason, why: error.message } };
    }
    if (!names.wouldAdmit(user, projectsNamed(asked, project))) asked = withTooManyNames(asked);
    const context = contextOf(asked, destination, principal);
    const sessions = { ...context.sessions, find: context.sessions.peek };
    const step = await judgeSession(asked, { ...context, sessions });
    if (step.kind === 'refuse') {
      return { classification: { decision: 'refused', reason: 'unknown-session' } };
    }
    const common = described(asked);
    const session = step.kind === 'clean' ? step : undefined;
    const reason = step.kind === 'pass' ? step.reason : asked.bypass;
    const source = { asked, destination, principal, body, session, fresh: false };
    const query = reason ?? (await queryOf(source));
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

function described({ request, subject, why }: UnderstoodRequest): Omit<Classification, 'decision'> {
  return {
    method: request?.method,
    ...(subject !== '' && { subject }),
    ...(why !== '' && { why }),
    ...(request !== undefined && { catalogs: namedCatalogs(request).catalogs }),
  };
}
