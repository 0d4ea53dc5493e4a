import type { Principal } from '../auth/authenticator.ts';
import type { Clock } from '../common/clock.ts';
import type { CacheShare, Config, EngineConfig } from '../config/config.ts';
import { engineTraits, type EngineTraits } from '../common/engine-kinds.ts';
import { sortedQuery } from '../engine/engine-target.ts';
import type { Engine, EngineAddressee } from '../engine/engine.ts';
import { forwardedQuery } from '../proxy/forwarded.ts';
import { type KnownNames, type QueryPolicy, entryScopes, projectScope } from '../cache/projects.ts';
import type { Query } from '../cache/query.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { NamedCubes } from '../xmla/request/named-objects.ts';
import type { XmlaRequest } from '../xmla/request/xmla-request.ts';
import type { RequestFacts } from './client.ts';
import { noteBegun, type KnownSession } from './session-step.ts';
import { projectsNamed, type UnderstoodRequest } from './understand.ts';

/** The engine of a project, and what its configuration says beside its address. */
export interface ChosenEngine {
  readonly engine: Engine;
  readonly settings: Pick<EngineConfig, 'kind' | 'login' | 'delegation' | 'session_idle'>;
}

export type EngineOf = (project: string | undefined) => ChosenEngine;

/** Where a request goes, and in whose name. */
export interface Destination extends ChosenEngine {
  readonly traits: EngineTraits;
  readonly addressee: EngineAddressee;
  /** Where a session lives: one engine, and one project where the engine is told of it. */
  readonly place: string;
}

export function destinationOf(
  { engine, settings }: ChosenEngine,
  to: {
    readonly project: string | undefined;
    readonly search: string;
    readonly user: string;
    /** Asked where the engine gets the login of the client. */
    readonly authorization: () => string | undefined;
  },
): Destination {
  const { project, search, user } = to;
  const query = search === '' ? [] : forwardedQuery(search);
  const authorization = settings.login === 'forward' ? to.authorization() : undefined;
  // In the spelling in which purges name it: an engine may take two spellings for one project.
  const told = engine.tellsProject && project !== undefined ? projectScope(project) : null;
  return {
    engine,
    settings,
    traits: traitsOf(settings),
    addressee: { project, query, user, authorization, replica: undefined },
    place: JSON.stringify([engine.id, told]),
  };
}

/** An engine that gets one login for all users cannot tell whose a session is: then the gateway must. */
function traitsOf({ kind, login }: ChosenEngine['settings']): EngineTraits {
  const traits = engineTraits(kind);
  if (login === 'forward' || !traits.checksSessionOwner) return traits;
  return { ...traits, checksSessionOwner: false, strangeSessions: 'refuse' };
}

/** What the configuration says of a query that names these projects and cubes. */
export type PolicyOf = (
  projects: readonly string[],
  spans: boolean,
  cubes: NamedCubes,
) => QueryPolicy;

/** A query, and by whose answers it may be answered. */
export type SharedQuery = Query & { readonly share: CacheShare };

/** What a query is made of. */
export interface QuerySource {
  readonly asked: UnderstoodRequest;
  readonly destination: Destination;
  readonly principal: Principal;
  readonly body: Buffer;
  /** The principal's own, clean; undefined without a session. */
  readonly session: KnownSession | undefined;
  /** Whether the client wants a fresh answer. */
  readonly fresh: boolean;
  /** Told what the engine took; undefined where it is not asked. */
  readonly facts?: RequestFacts;
}

export type QueryOf = (source: QuerySource) => Promise<SharedQuery | BypassReason>;

/** Makes queries for the cache of what was understood, or says why the configuration forbids that. */
export function createQueryOf(options: {
  policyOf: PolicyOf;
  roleSets: Pick<RoleSets, 'nameFor'>;
  sessions: Sessions;
  names: Pick<KnownNames, 'answered'>;
  /** Whether users may see answers that the engine might have refused them (`cache.engine_permissions_ignored`). */
  permissionsIgnored: boolean;
  /** Who knows the users (`auth.provider`). */
  provider: Provider;
  clock: Pick<Clock, 'now'>;
}): QueryOf {
  const { sessions, names, clock } = options;

  return async function queryOf({ asked, destination, principal, body, session, fresh, facts }) {
    const { reading, request, forwarded, named } = asked;
    const { engine, traits, addressee, settings } = destination;
    if (request === undefined || forwarded === undefined || named === undefined) {
      return 'unknown-shape';
    }
    const { project } = addressee;
    const { spansCatalogs, qualified } = named.catalogs;
    const inRequest = projectsNamed(asked, project);
    // The engine works in the session's catalog where the request names none.
    const projects = [...inRequest, ...[session?.record.catalog ?? []].flat()];
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
        session:
          session === undefined ? null : sessionPart(request, forwarded['x-as-sessionid'], session),
        request,
      },
      scopes: entryScopes(projects, spans),
      ttl: policy.ttl,
      share,
      project: project ?? '',
      engineTraits: traits,
      session: session && {
        id: session.name.id,
        replica: session.record.replica,
        confirm: () => sessions.confirm(session.name, session.record),
      },
      fresh,
      answered: () => names.answered(inRequest),
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
        if (session !== undefined) sessions.forwarded(session.name, session.record);
        const to: EngineAddressee = { ...addressee, query, replica: session?.record.replica };
        const since = clock.now();
        const answer = await engine.ask(to, forwarded, body, signal, unwanted);
        replica = answer.replica;
        if (facts !== undefined) {
          const began = answer.began.now;
          facts.engine = { waited: began - since, began, first: clock.now() - began };
        }
        return answer;
      },
    };
  };

  /** Whose answers a query may be given, as the key says that (`cache.share`). */
  async function identity(share: CacheShare, { name }: Principal): Promise<string> {
    if (share === 'everyone') return 'everyone';
    const shared = share === 'roles' ? await options.roleSets.nameFor(name) : undefined;
    return shared ?? ownIdentity(options.provider, name);
  }
}

type Provider = Config['auth']['provider'];

/** The identity of answers that are shared with no other user: a name of the users file is not that of the engine. */
export function ownIdentity(provider: Provider, name: string): string {
  return provider === 'file' ? `user:${name}` : `${provider}-user:${name}`;
}

/**
 * The Content-Type with the encoding of a body that is not UTF-8: where no charset names it, only the body shows it,
 * and engines may answer in the encoding in which they were asked. And with whether the body declares it: where it
 * does not, an engine that goes by that alone reads another text.
 */
function keyedContentType(contentType: string, reading: UnderstoodRequest['reading']): string {
  if (reading.kind !== 'understood' || reading.encoding === 'utf-8') return contentType;
  return `${contentType} (${reading.encoding}${reading.declared ? ', declared' : ''})`;
}

function sessionPart(
  { session }: XmlaRequest,
  byHeader: string | undefined,
  { record }: KnownSession,
): string {
  const understand = session.kind === 'in' ? session.understand : null;
  return JSON.stringify([record.profile, record.catalog, understand, byHeader !== undefined]);
}
