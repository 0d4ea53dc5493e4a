import type { Principal } from '../auth/authenticator.ts';
import type { Permissions } from '../auth/permissions.ts';
import type { EngineTraits } from '../common/engine-kinds.ts';
import { GatewayError } from '../common/errors.ts';
import type { BypassReason } from '../common/reasons.ts';
import { lastRecord } from '../sessions/found-session.ts';
import { extendProfile, sessionProfile } from '../sessions/profile.ts';
import { planSession, type SessionPlan } from '../sessions/session-plan.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { FoundSession, SessionName, Sessions } from '../sessions/sessions.ts';
import { foldName } from '../xmla/names.ts';
import type { Property, XmlaRequest } from '../xmla/request/xmla-request.ts';
import type { Destination } from './query.ts';
import type { UnderstoodRequest } from './understand.ts';

/** A session with what is known of it. */
export interface KnownSession {
  readonly name: SessionName;
  readonly record: SessionRecord;
}

/** What the sessions that a request names mean for it. Nothing has been done yet. */
export type SessionStep =
  | { readonly kind: 'none' }
  /** It runs in the principal's own session, on which nothing happened that its answer could depend on. */
  | ({ readonly kind: 'clean' } & KnownSession)
  /** It is answered with the Fault for unknown sessions. */
  | { readonly kind: 'refuse' }
  | {
      readonly kind: 'pass';
      readonly reason: BypassReason;
      /** What must be done before it reaches the engine, and to which sessions. */
      readonly before: Extract<SessionPlan, { kind: 'pass' }>['before'];
      readonly names: readonly SessionName[] | 'all';
      /** The session that it runs in, if it is known. */
      readonly known: KnownSession | undefined;
      /** Whether it asks for a new session. */
      readonly begins: boolean;
      /** The replica of the engine where its sessions live; undefined when that is not known. */
      readonly replica: string | undefined;
    };

export interface SessionContext {
  readonly sessions: Sessions;
  readonly place: string;
  readonly principal: string;
  readonly engine: EngineTraits;
  /** Whether what the request changes is purged, unless the engine did nothing. */
  readonly purges: boolean;
}

export type ContextOf = (
  asked: UnderstoodRequest,
  destination: Destination,
  principal: Principal,
) => SessionContext;

export function createContextOf(options: {
  permissions: Permissions;
  sessions: Sessions;
  /** Whether REFRESH CUBE purges. */
  purgeOnRefresh: boolean;
}): ContextOf {
  const { permissions, sessions, purgeOnRefresh } = options;
  return ({ change }, { place, traits }, principal) => {
    const mayPurge = change !== undefined && permissions.mayPurge(principal);
    const purges = mayPurge && (!change.refresh || purgeOnRefresh);
    return { sessions, place, principal: principal.name, engine: traits, purges };
  };
}

/** Of what runs in no session that is known. */
const STRANGE = { known: undefined, begins: false, replica: undefined } as const;

/** Looks the sessions of a request up and decides, without changing anything. */
export async function judgeSession(
  asked: UnderstoodRequest,
  context: SessionContext,
): Promise<SessionStep> {
  const { sessions, place, principal, engine } = context;
  const { session, sessionIds } = asked;
  const bypass = asked.bypass ?? 'session';
  /** It cannot be told for certain in which sessions it runs, so all of them become dirty. */
  const unclear = { kind: 'pass', reason: bypass, before: 'dirty', ...STRANGE } as const;
  if (sessionIds === 'unknown') return { ...unclear, names: 'all' };
  const names = sessionIds.map((id) => ({ place, id }));
  const [name] = names;
  if (name === undefined) {
    if (session.kind === 'begin') return { ...unclear, before: 'nothing', names, begins: true };
    // A session without an id: what an engine makes of it is not known.
    return session.kind === 'none' && !asked.sessionToken
      ? { kind: 'none' }
      : { ...unclear, names };
  }
  if (names.length > 1 || (session.kind !== 'in' && session.kind !== 'end')) {
    const found = await Promise.all(names.map((one) => sessions.find(one)));
    const question = {
      kind: 'in',
      principal,
      bypass,
      leavesState: false,
      catalog: undefined,
    } as const;
    const plans = found.map((one) => planSession(question, one, engine));
    if (plans.some(({ kind }) => kind === 'refuse')) return { kind: 'refuse' };
    return { ...unclear, names, replica: replicaOf(found) };
  }
  const { catalog, certain } = catalogOf(asked);
  const found = await sessions.find(name);
  const plan = planSession(
    {
      kind: session.kind,
      principal,
      bypass: asked.bypass ?? (asked.sessionToken ? 'session' : undefined),
      leavesState:
        asked.sessionToken ||
        (engine.keepsProperties && !certain) ||
        (asked.leavesState && !isOnlyPurged(asked, context.purges)),
      catalog,
    },
    found,
    engine,
  );
  if (plan.kind === 'refuse') return plan;
  if (plan.kind === 'clean') return { kind: 'clean', name, record: plan.record };
  const { reason, before, record } = plan;
  const known = record && { name, record };
  return { ...STRANGE, kind: 'pass', reason, before, names, known, replica: replicaOf([found]) };
}

/** The replica on which all of them live that are known; undefined where that is none or more than one. */
function replicaOf(found: readonly FoundSession[]): string | undefined {
  const replicas = new Set(found.flatMap((one) => lastRecord(one)?.replica ?? []));
  const [replica] = replicas;
  return replicas.size === 1 ? replica : undefined;
}

/**
 * Does what must be done before the request goes on.
 * @throws GatewayError `unknown-session`; `session-unavailable` when other gateways could not be told that a
 *   session changes
 */
export async function enterSession(
  asked: UnderstoodRequest,
  step: SessionStep,
  sessions: Sessions,
): Promise<void> {
  if (step.kind === 'refuse') throw unknownSession();
  if (step.kind !== 'pass') return;
  const { before, names, known } = step;
  if (before === 'dirty') {
    const done = names === 'all' ? sessions.dirtyAll() : sessions.dirty(names);
    if (!(await done)) throw sessionUnavailable();
  }
  const [name] = names === 'all' ? [] : names;
  if (before === 'end' && name !== undefined) await sessions.end(name);
  const { catalog } = catalogOf(asked);
  if (before !== 'take-catalog' || known === undefined || catalog === undefined) return;
  const profile = extendProfile(known.record.profile, catalog);
  const found = await sessions.takeCatalog(known.name, known.record, { catalog, profile });
  if (found.kind === 'unavailable') throw sessionUnavailable();
}

/** A session that the engine began with the answer to a request, asked for or by itself. */
export interface BegunSession {
  readonly id: string;
  /** Other ids that the same answer named before. */
  readonly before: readonly string[];
  readonly principal: string;
  /** Undefined where the request was not understood, or what it names may not be kept. */
  readonly request: XmlaRequest | undefined;
  readonly replica: string | undefined;
  /** Whether the request may have left something behind in it. */
  readonly leftState: boolean;
}

/** Notes it before its id reaches the client. Never rejects. */
export async function noteBegun(
  sessions: Sessions,
  { place, engine, traits }: Destination,
  { id, before, principal, request, replica, leftState }: BegunSession,
): Promise<void> {
  const kept = traits.keepsProperties ? request : undefined;
  await sessions.begin(
    { place, id },
    {
      principal,
      profile: kept === undefined ? '' : sessionProfile(kept.properties, kept.headers),
      catalog: kept?.properties.find(namesCatalog)?.value ?? null,
      replica: replica ?? engine.replicaFor(id),
      // Of two names of one session neither may stay clean when something is done under the other.
      dirty: leftState || before.length > 0,
    },
  );
  if (before.length > 0) await sessions.dirty(before.map((other) => ({ place, id: other })));
}

/** A statement that is purged after needs no mark, unless its session sees more than it changed for all. */
function isOnlyPurged({ change, request }: UnderstoodRequest, purges: boolean): boolean {
  if (!purges || change === undefined || change.leavesState) return false;
  return request !== undefined && request.unexpected === undefined && !request.security;
}

/**
 * The catalog that a request names by the property, and whether every engine reads it so. One that may not be kept is
 * none, and leaves open where its session is from then on.
 */
function catalogOf({ request, unkept }: UnderstoodRequest): {
  catalog: string | undefined;
  certain: boolean;
} {
  if (unkept !== undefined) return { catalog: undefined, certain: false };
  const named = (request?.properties ?? []).filter(({ name }) => foldName(name) === 'catalog');
  const catalog = named.find(namesCatalog)?.value;
  return { catalog, certain: named.every(({ name }) => name === 'Catalog') && named.length < 2 };
}

function namesCatalog({ name, value }: Property): boolean {
  return name === 'Catalog' && value !== '';
}

/** The code of eMondrian for a session that it does not know; clients begin a new one when they see it. */
const UNKNOWN_SESSION = '3238789130';

function unknownSession(): GatewayError {
  return new GatewayError(
    'unknown-session',
    'The session is not known here, or another user began it. Begin a new one.',
    { faultCode: UNKNOWN_SESSION },
  );
}

function sessionUnavailable(): GatewayError {
  return new GatewayError(
    'session-unavailable',
    'The statement was not sent to the engine: it may change its session, and Redis cannot be reached to tell the other gateways. Try again.',
    { retryAfter: 5 },
  );
}
