import type { Principal } from '../auth/authenticator.ts';
import { GatewayError } from '../errors.ts';
import { refuseDelegation } from '../http/request-checks.ts';
import type { Classification, ExplainXmla } from '../http/admin.ts';
import type { KnownNames } from '../query-cache/known-names.ts';
import type { QueryCache } from '../query-cache/query-cache.ts';
import type { BypassReason } from '../reasons.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import { projectsNamed, readAsked, withTooManyNames, type Asked } from './asked.ts';
import { destinationOf, type Destination, type EngineOf } from './destination.ts';
import { refuseOtherIdentity } from './other-identity.ts';
import type { createQueryOf } from './query-of.ts';
import { judgeSession, type SessionContext, type SessionVerdict } from './session-step.ts';

/**
 * Explains what would become of a request by the steps of the line itself, less those that change a session, ask
 * an engine or answer.
 */
export function createExplanation(options: {
  engineOf: EngineOf;
  cache: Pick<QueryCache, 'explain'>;
  names: Pick<KnownNames, 'wouldAdmit'>;
  queryOf: ReturnType<typeof createQueryOf>;
  sessionContext: (asked: Asked, destination: Destination, principal: Principal) => SessionContext;
}): ExplainXmla {
  const { sessionContext, queryOf } = options;

  return async function explain({ headers, body, project, search, principal }) {
    refuseDelegation(headers, search);
    const destination = destinationOf(options.engineOf, {
      project,
      search,
      user: principal.name,
      authorization: () => undefined,
    });
    let asked: Asked;
    try {
      asked = await readAsked(headers, body, destination.traits);
      await refuseOtherIdentity(asked, body, destination);
    } catch (error) {
      return { classification: refusal(error) };
    }
    if (!options.names.wouldAdmit(principal.name, projectsNamed(asked, project))) {
      asked = withTooManyNames(asked);
    }
    const common = described(asked);
    const context = sessionContext(asked, destination, principal);
    const sessions = { ...context.sessions, find: context.sessions.peek };
    const verdict = await judgeSession(asked, { ...context, sessions });
    if (verdict.kind === 'unclear' && verdict.refused) return UNKNOWN_SESSION;
    if (verdict.kind === 'one' && verdict.plan.kind === 'refuse') return UNKNOWN_SESSION;
    const own = cleanSession(verdict);
    const reason = ofSession(verdict, asked.bypass) ?? asked.bypass;
    if (reason !== undefined) {
      return { classification: { ...common, decision: 'bypass', reason } };
    }
    const query = await queryOf(asked, destination, principal, body, own, false);
    if (typeof query === 'string') {
      return { classification: { ...common, decision: 'bypass', reason: query } };
    }
    const { ttl, share } = query;
    return {
      classification: { ...common, decision: 'cacheable', share, ttl },
      cache: await options.cache.explain(query),
    };
  };
}

const UNKNOWN_SESSION = {
  classification: { decision: 'refused', reason: 'unknown-session' },
} as const;

function refusal(error: unknown): Classification {
  if (!(error instanceof GatewayError)) throw error;
  return { decision: 'refused', reason: error.reason, why: error.message };
}

function described({ request, subject, why }: Asked): Omit<Classification, 'decision'> {
  return {
    method: request?.method,
    ...(subject !== '' && { subject }),
    ...(why !== '' && { why }),
    ...(request !== undefined && { catalogs: namedCatalogs(request).catalogs }),
  };
}

function cleanSession(verdict: SessionVerdict) {
  if (verdict.kind !== 'one' || verdict.plan.kind !== 'clean') return undefined;
  return { name: verdict.name, record: verdict.plan.record };
}

/** As the line says it, see `enterSession`. */
function ofSession(verdict: SessionVerdict, bypass: BypassReason | undefined) {
  if (verdict.kind === 'begins' || verdict.kind === 'unclear') return bypass ?? 'session';
  return verdict.kind === 'one' && verdict.plan.kind === 'pass' ? verdict.plan.reason : undefined;
}
