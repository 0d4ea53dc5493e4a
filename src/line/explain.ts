import { GatewayError } from '../common/errors.ts';
import type { BypassReason, GatewayReason } from '../common/reasons.ts';
import type { AdminQuestion, ExplainXmla } from '../http/admin.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import type { LineOptions } from './options.ts';
import type { QueryOf, SharedQuery } from './query.ts';
import { judge } from './session-step.ts';
import { destinationOf, understand } from './understand.ts';

/** What would become of a request. */
interface Looked {
  /** For JSON. */
  readonly classification: {
    readonly decision: 'cacheable' | 'bypass' | 'refused';
    readonly reason?: BypassReason | GatewayReason | undefined;
  };
  /** Undefined unless it is cacheable. */
  readonly query: SharedQuery | undefined;
  /** Of what is asked; '' where that was not understood. */
  readonly digest: string;
}

export type Look = ReturnType<typeof createLook>;
/** Goes the steps of the handler, less those that change a session, ask an engine or answer. */
export function createLook(options: LineOptions, queryOf: QueryOf) {
  const { names, sessions } = options;
  const looking = {
    ...options,
    sessions: { ...sessions, find: sessions.peek },
    names: { ...names, admit: names.wouldAdmit },
  };

  async function look({ headers, body, project, principal, ...question }: AdminQuestion) {
    const address = { project, search: '' };
    const engine = options.engineOf(project);
    const destination = destinationOf(engine, address, principal.name, question.authorization);
    const read = await understand(headers, body, destination);
    const { asked, judged: step } = await judge(read, destination, principal, looking);
    if (step === 'refuse') return refused('unknown-session');
    const { request, subject, why, parts } = asked;
    const source = { asked, destination, principal, body, session: step.known, fresh: false };
    const query = step.reason ?? asked.bypass ?? (await queryOf(source));
    const isBypassed = typeof query === 'string';
    const classification = {
      decision: isBypassed ? ('bypass' as const) : ('cacheable' as const),
      reason: isBypassed ? query : undefined,
      why: why || undefined,
      method: request?.method,
      subject: subject || undefined,
      catalogs: request && namedCatalogs(request).catalogs,
    };
    const digest = parts?.digest ?? '';
    if (isBypassed) return { classification, query: undefined, digest };
    const { ttl, share } = query;
    return {
      classification: { ...classification, share, ttl_ms: Math.round(ttl) },
      query,
      digest,
    };
  }

  return (question: AdminQuestion): Promise<Looked> =>
    look(question).catch((error: unknown) => {
      if (!(error instanceof GatewayError)) throw error;
      // The XMLA request would fail, not the call that asks what would become of it.
      return refused(error.reason, error.message);
    });
}

const refused = (reason: GatewayReason, why?: string): Looked => ({
  classification: { decision: 'refused', reason, ...(why !== undefined && { why }) },
  query: undefined,
  digest: '',
});

/** Explains what would become of a request. */
export function createExplanation({ cache }: Pick<LineOptions, 'cache'>, look: Look): ExplainXmla {
  return async (question) => {
    const { classification, query } = await look(question);
    return query === undefined
      ? { classification }
      : { classification, cache: await cache.explain(query) };
  };
}
