import { entryScopes, type KnownNames, type projectPolicy } from '../cache/projects.ts';
import type { Query } from '../cache/query.ts';
import { listOf } from '../common/list-of.ts';
import type { Principal } from '../common/principal.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { AuthConfig } from '../auth/config.ts';
import type { CacheConfig, CacheShare } from '../cache/config.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { foldName } from '../xmla/names.ts';
import { propertiesAskedFor } from '../xmla/request/property-policy.ts';
import type { XmlaClient } from './client.ts';
import type { Judge, Seen } from './ports.ts';
import { type KnownSession, noteBegun } from './session-step.ts';
import type { Destination, UnderstoodRequest } from './understand.ts';

export interface SharedQuery extends Query {
  readonly share: CacheShare;
  /** Name of the role set that shares it; undefined where not shared by roles. */
  readonly roles: string | undefined;
  /** How long past its ttl an entry may answer it, if the line says so (ms). */
  readonly staleIfError: number;
}

interface QuerySource {
  readonly asked: UnderstoodRequest;
  readonly destination: Destination;
  readonly principal: Principal;
  readonly body: Buffer;
  readonly session: KnownSession | undefined;
  readonly fresh: boolean;
  readonly facts?: { why: string };
  readonly client?: Pick<XmlaClient, 'waits' | 'engineStep' | 'facts'>;
}

export type QueryOf = ReturnType<typeof createQueryOf>;

export function createQueryOf(parts: {
  readonly sessions: Pick<Sessions, 'begin' | 'confirm' | 'dirty' | 'forwarded'>;
  readonly names: Pick<KnownNames, 'answered'>;
  readonly config: {
    readonly auth: Pick<AuthConfig, 'provider'>;
    readonly cache: Pick<CacheConfig, 'engine_permissions_ignored'>;
  };
  readonly policyOf: ReturnType<typeof projectPolicy>;
  readonly roleSets: Pick<RoleSets, 'nameFor'>;
  readonly judges: Iterable<Judge>;
  readonly seen: readonly Pick<Seen, 'beginning'>[];
}) {
  const { sessions, names, config, judges, seen } = parts;
  const { provider } = config.auth;
  /** Kind of user in the key: a name of the users file is not that of the engine. */
  const ofUser = provider === 'file' ? 'user' : `${provider}-user`;

  return async function queryOf(source: QuerySource): Promise<SharedQuery | BypassReason> {
    const { asked, destination, principal, body, session, fresh, client } = source;
    const { request, parts: keyParts, forwarded, named, projects: inRequest } = asked;
    const { engine, traits, addressee, settings, user } = destination;
    if (!request || !keyParts || !forwarded || !named) return 'unknown-shape';
    const { project } = addressee;
    const { spansCatalogs, qualified } = named.catalogs;
    // The engine works in the session's catalog where the request names none.
    const projects = [...inRequest, ...[session?.record.catalog ?? []].flat()];
    // A project in the path narrows the answer only where the engine is told of it.
    const told = engine.tellsProject && project !== undefined && request.method === 'Execute';
    const spans = qualified || (spansCatalogs && !told);
    const policy = parts.policyOf(projects, spans, named.cubes);
    if (policy.cache === 'off') return 'cache-off';
    const unknown = asked.functions.filter((name) => !policy.functions.has(foldName(name)));
    if (unknown.length > 0) {
      const facts = client?.facts ?? source.facts;
      if (facts) facts.why = `nothing is known of ${listOf(unknown)}`;
      return 'unknown-function';
    }
    const scopes = entryScopes(projects, spans);
    for (const judge of judges) {
      const judged = judge(scopes);
      if (judged !== undefined) return judged;
    }
    // A shared project may rely on one engine login for all; this engine may be another.
    const dependsOnUser = settings.login === 'forward' && !config.cache.engine_permissions_ignored;
    const share = dependsOnUser ? 'user' : policy.share;
    const roles = share === 'roles' ? await parts.roleSets.nameFor(principal.name) : undefined;
    let replica: string | undefined;
    return {
      parts: {
        asked: keyParts,
        identity: share === 'everyone' ? share : (roles ?? `${ofUser}:${user}`),
        session: session === undefined ? null : sessionPart(asked, session),
      },
      scopes,
      properties: propertiesAskedFor(request),
      ttl: policy.ttl,
      timeoutMs: settings.timeout,
      staleIfError: policy.stale_if_error,
      share,
      roles,
      project: inRequest[0] ?? '',
      engineTraits: traits,
      session: session && {
        id: session.name.id,
        replica: session.record.replica,
        confirm: () => sessions.confirm(session.name, session.record),
      },
      fresh,
      isAway: () => engine.isAway(session?.record.replica),
      answered: () => names.answered(inRequest),
      async began(id, before) {
        const facts = { principal: user, asked, replica, leftState: false };
        const profile = await noteBegun(sessions, destination, id, before, facts);
        if (profile !== undefined) for (const one of seen) one.beginning(source, profile);
      },
      async ask(signal, unwanted) {
        if (session !== undefined) sessions.forwarded(session.name, session.record);
        const { replica: only } = session?.record ?? {};
        // A query only reads.
        const again = asked.sessionIds.length === 0 && asked.session.kind === 'none';
        const { query } = keyParts;
        const to = { ...addressee, query, replica: only, again, label: inRequest[0] };
        // Shapes no answer, so it is not in the key.
        const headers = { ...forwarded, traceparent: client?.facts.trace || undefined };
        const answer = await engine.ask(to, headers, body, signal, unwanted, client);
        replica = answer.replica;
        return answer;
      },
    };
  };
}

function sessionPart({ request, forwarded }: UnderstoodRequest, { record }: KnownSession): string {
  const understand = request?.session.kind === 'in' ? request.session.understand : null;
  const byHeader = forwarded?.['x-as-sessionid'] !== undefined;
  return JSON.stringify([record.profile, record.catalog, understand, byHeader]);
}
