import { GatewayError } from '../common/errors.ts';
import type { GatewayReason } from '../common/reasons.ts';
import type { ExplainQuestion, ExplainXmla } from '../http/admin.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import type { LineOptions } from './options.ts';
import type { QueryOf } from './query.ts';
import { judge } from './session-step.ts';
import { destinationOf, understand } from './understand.ts';

/**
 * Explains what would become of a request by the steps of the handler, less those that change a session, ask an engine
 * or answer.
 */
export function createExplanation(options: LineOptions, queryOf: QueryOf): ExplainXmla {
  const { names, cache, sessions } = options;
  const looking = {
    ...options,
    sessions: { ...sessions, find: sessions.peek },
    names: { ...names, admit: names.wouldAdmit },
  };

  async function explain({ headers, body, project, principal }: ExplainQuestion) {
    const user = principal.name;
    const destination = destinationOf(options.engineOf(project), { project, search: '' }, user);
    const read = await understand(headers, body, destination);
    const { asked, judged: step } = await judge(read, destination, principal, looking);
    if (step === 'refuse') return { classification: refusedFor('unknown-session') };
    const { request, subject, why } = asked;
    const source = { asked, destination, principal, body, session: step.known, fresh: false };
    const query = step.reason ?? asked.bypass ?? (await queryOf(source));
    const isBypassed = typeof query === 'string';
    const classification = {
      decision: isBypassed ? 'bypass' : 'cacheable',
      reason: isBypassed ? query : undefined,
      why: why || undefined,
      method: request?.method,
      subject: subject || undefined,
      catalogs: request && namedCatalogs(request).catalogs,
    };
    if (isBypassed) return { classification };
    const { ttl, share } = query;
    return {
      classification: { ...classification, share, ttl_ms: Math.round(ttl) },
      cache: await cache.explain(query),
    };
  }

  return (question) =>
    explain(question).catch((error: unknown) => {
      if (!(error instanceof GatewayError)) throw error;
      // The XMLA request would fail, not the call for its explanation.
      return { classification: refusedFor(error.reason, error.message) };
    });
}

const refusedFor = (reason: GatewayReason, why?: string) => ({ decision: 'refused', reason, why });
