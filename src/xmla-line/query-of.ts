import type { Principal } from '../auth/authenticator.ts';
import type { CacheShare } from '../config/config.ts';
import { sortedQuery } from '../engine/engine-target.ts';
import type { EngineAddressee } from '../engine/engine.ts';
import type { KnownNames } from '../query-cache/known-names.ts';
import type { QueryPolicy } from '../query-cache/project-policy.ts';
import type { Query } from '../query-cache/query.ts';
import { entryScopes } from '../query-cache/purge/scopes.ts';
import type { BypassReason } from '../reasons.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { SessionRecord } from '../sessions/session-store.ts';
import type { SessionName, Sessions } from '../sessions/sessions.ts';
import type { NamedCubes } from '../xmla/request/named-objects.ts';
import type { XmlaRequest } from '../xmla/request/xmla-request.ts';
import { projectsNamed, type Asked } from './asked.ts';
import { noteBegun } from './begun-session.ts';
import type { Destination } from './destination.ts';

/** What the configuration says of a query that names these projects and cubes. */
export type PolicyOf = (
  projects: readonly string[],
  spans: boolean,
  cubes: NamedCubes,
) => QueryPolicy;

/** A session of the principal's own in which nothing happened that answers could depend on. */
export interface CleanSession {
  readonly name: SessionName;
  readonly record: SessionRecord;
}

/** A query, and by whose answers it may be answered. */
export type PlacedQuery = Query & { readonly share: CacheShare };

/** Makes queries for the cache of what was understood, or says why the configuration forbids that. */
export function createQueryOf(options: {
  policyOf: PolicyOf;
  roleSets: Pick<RoleSets, 'nameFor'>;
  sessions: Sessions;
  names: Pick<KnownNames, 'answered'>;
  /** Whether users may see answers that the engine might have refused them (`cache.engine_permissions_ignored`). */
  permissionsIgnored: boolean;
}): (
  asked: Asked,
  destination: Destination,
  principal: Principal,
  body: Buffer,
  session: CleanSession | undefined,
  fresh: boolean,
) => Promise<PlacedQuery | BypassReason> {
  const { sessions } = options;

  return async function queryOf(asked, destination, principal, body, own, fresh) {
    const { reading, request, forwarded, named } = asked;
    const { engine, traits, addressee, settings } = destination;
    if (request === undefined || forwarded === undefined || named === undefined) {
      return 'unknown-shape';
    }
    const { project } = addressee;
    const { spansCatalogs, qualified } = named.catalogs;
    const inRequest = projectsNamed(asked, project);
    // The engine works in the session's catalog where the request names none.
    const ofSession = [own?.record.catalog ?? []].flat();
    const projects = [...inRequest, ...ofSession];
    // A project in the path narrows the answer only where the engine is told of it.
    const told = engine.tellsProject && project !== undefined && request.method === 'Execute';
    const spans = qualified || (spansCatalogs && !told);
    const policy = options.policyOf(projects, spans, named.cubes);
    if (policy.cache === 'off') return 'cache-off';
    // A project may be shared because its own engine is asked with one login for all; this may be another engine.
    const dependsOnUser = settings.login === 'forward' && !options.permissionsIgnored;
    const share = dependsOnUser ? 'user' : policy.share;
    const query = sortedQuery(addressee.query);
    let replica: string | undefined;
    return {
      parts: {
        engine: engine.id,
        project: project ?? null,
        query,
        identity: await identity(share, principal),
        userAgentClass: forwarded['user-agent'] ?? null,
        accept: forwarded.accept ?? null,
        contentType: keyedContentType(forwarded['content-type'], reading),
        session: own === undefined ? null : sessionPart(request, forwarded['x-as-sessionid'], own),
        request,
      },
      scopes: entryScopes(projects, spans),
      ttl: policy.ttl,
      share,
      project: project ?? '',
      engineTraits: traits,
      session: own && {
        id: own.name.id,
        replica: own.record.replica,
        confirm: () => sessions.confirm(own.name, own.record),
      },
      fresh,
      answered: () => options.names.answered(inRequest),
      began: (id, before) =>
        noteBegun(sessions, destination, {
          id,
          before,
          principal: principal.name,
          request,
          replica,
          leftState: false,
        }),
      async ask(signal, unwanted) {
        if (own !== undefined) sessions.forwarded(own.name, own.record);
        const to: EngineAddressee = { ...addressee, query, replica: own?.record.replica };
        const answer = await engine.ask(to, forwarded, body, signal, unwanted);
        replica = answer.replica;
        return answer;
      },
    };
  };

  /** Whose answers a query may be given (design: `cache.share`). */
  async function identity(share: CacheShare, { name }: Principal): Promise<string> {
    if (share === 'everyone') return 'everyone';
    const shared = share === 'roles' ? await options.roleSets.nameFor(name) : undefined;
    return shared ?? `user:${name}`;
  }
}

/**
 * The Content-Type with the encoding of a body that is not UTF-8: where no charset names it, only the body shows it,
 * and engines may answer in the encoding in which they were asked. And with whether the body declares it: where it
 * does not, an engine that goes by that alone reads another text.
 */
function keyedContentType(contentType: string, reading: Asked['reading']): string {
  if (reading.kind !== 'understood' || reading.encoding === 'utf-8') return contentType;
  return `${contentType} (${reading.encoding}${reading.declared ? ', declared' : ''})`;
}

function sessionPart(
  { session }: XmlaRequest,
  byHeader: string | undefined,
  { record }: CleanSession,
): string {
  const understand = session.kind === 'in' ? session.understand : null;
  return JSON.stringify([record.profile, record.catalog, understand, byHeader !== undefined]);
}
