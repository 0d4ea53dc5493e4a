import type { QueryCache } from '../cache/cache.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import type { GatewayReason } from '../common/reasons.ts';
import type { AdminQuestion, TellAbout } from '../http/admin-act.ts';
import { circumstancesOf } from './circumstances.ts';
import type { QueryOf } from './query.ts';
import type { Examine } from './session-step.ts';
import { destinationOf, type EngineOf, understand } from './understand.ts';

export type Look = ReturnType<typeof createLook>;
/**
 * Walks those steps of the handler that change, ask and answer nothing.
 * @param parts.examine keeps no name
 */
export function createLook(parts: {
  readonly engineOf: EngineOf;
  readonly examine: Examine;
  readonly queryOf: QueryOf;
}) {
  const { engineOf, examine, queryOf } = parts;

  async function look({ headers, body, project, principal, ...question }: AdminQuestion) {
    const address = { project, search: '' };
    const engine = engineOf(project);
    const destination = destinationOf(engine, address, principal, question.authorization);
    const read = await understand(circumstancesOf(headers, destination), body);
    const { asked, step } = await examine(read, destination, principal);
    if (step === 'refuse') return refused('unknown-session');
    const { request, subject } = asked;
    const facts = { why: asked.why };
    const of = { destination, principal, body, session: step.known };
    const query =
      step.reason ?? asked.bypass ?? (await queryOf({ asked, ...of, fresh: false, facts }));
    const isBypassed = typeof query === 'string';
    const classification = {
      decision: isBypassed ? 'bypass' : 'cacheable',
      reason: isBypassed ? query : undefined,
      why: facts.why || undefined,
      method: request?.method,
      subject: subject || undefined,
      catalogs: asked.named?.catalogs.catalogs,
    };
    if (isBypassed) return { classification, query: undefined };
    const { ttl, share } = query;
    return { classification: { ...classification, share, ttl_ms: Math.round(ttl) }, query };
  }

  return (question: AdminQuestion) =>
    look(question).catch((error: unknown) => {
      if (!(error instanceof GatewayError)) throw error;
      return refused(error.reason, error.message);
    });
}

const refused = (reason: GatewayReason, why?: string) => ({
  classification: { decision: 'refused', reason, why },
  query: undefined,
});

export function createExplanation(parts: {
  readonly cache: Pick<QueryCache, 'explain'>;
  readonly look: Look;
  readonly emit: Emit;
}): TellAbout {
  const { cache, look, emit } = parts;
  return async (question) => {
    const { id, administrator, principal, project = '' } = question;
    const { classification, query } = await look(question);
    const explained = query && (await cache.explain(query));
    emit({ type: 'explained', id, principal: administrator.name, user: principal.name, project });
    return { classification, cache: explained };
  };
}
