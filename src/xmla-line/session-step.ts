import type { EngineTraits } from '../engine-kinds.ts';
import { GatewayError } from '../errors.ts';
import type { BypassReason } from '../reasons.ts';
import { extendProfile } from '../sessions/profile.ts';
import { planSession, type SessionPlan } from '../sessions/session-plan.ts';
import { lastRecord } from '../sessions/found-session.ts';
import type { SessionRecord } from '../sessions/session-store.ts';
import type { FoundSession, SessionName, Sessions } from '../sessions/sessions.ts';
import { foldName } from '../xmla/fold-name.ts';
import type { Asked } from './asked.ts';

/** What the sessions that a request names mean for it. Nothing has been done yet. */
export type SessionVerdict =
  | { readonly kind: 'none' }
  | { readonly kind: 'begins' }
  /** It cannot be told for certain in which sessions it runs. */
  | {
      readonly kind: 'unclear';
      readonly names: readonly SessionName[] | 'all';
      readonly refused: boolean;
      readonly replica: string | undefined;
    }
  | {
      readonly kind: 'one';
      readonly name: SessionName;
      readonly plan: SessionPlan;
      readonly replica: string | undefined;
    };

/** What the line goes on with. */
export type SessionStep =
  | { readonly kind: 'none' }
  | { readonly kind: 'clean'; readonly name: SessionName; readonly record: SessionRecord }
  | {
      readonly kind: 'pass';
      readonly reason: BypassReason;
      /** The session that it runs in, if it is known. */
      readonly known?: { readonly name: SessionName; readonly record: SessionRecord };
      readonly begins: boolean;
      /** The replica of the engine where its sessions live; undefined when that is not known. */
      readonly replica: string | undefined;
    };

/** The code of eMondrian for a session that it does not know; clients begin a new one when they see it. */
const UNKNOWN_SESSION = '3238789130';

export interface SessionContext {
  readonly sessions: Sessions;
  readonly place: string;
  readonly principal: string;
  readonly engine: EngineTraits;
  /** Whether what the request changes is purged, unless the engine did nothing. */
  readonly purges: boolean;
}

/** Looks the sessions of a request up and decides, without changing anything. */
export async function judgeSession(asked: Asked, context: SessionContext): Promise<SessionVerdict> {
  const { sessions, place, principal, engine } = context;
  const { session, sessionIds } = asked;
  if (sessionIds === 'unknown')
    return { kind: 'unclear', names: 'all', refused: false, replica: undefined };
  const names = sessionIds.map((id) => ({ place, id }));
  const [name] = names;
  if (name === undefined) {
    if (session.kind === 'begin') return { kind: 'begins' };
    // A session without an id: what an engine makes of it is not known.
    return session.kind === 'none' && !asked.sessionToken
      ? { kind: 'none' }
      : { kind: 'unclear', names, refused: false, replica: undefined };
  }
  const isOne = names.length === 1 && (session.kind === 'in' || session.kind === 'end');
  if (!isOne) {
    const found = await Promise.all(names.map((one) => sessions.find(one)));
    const question = { kind: 'in', principal, bypass: 'session', ...NO_STATE } as const;
    const plans = found.map((one) => planSession(question, one, engine));
    const refused = plans.some(({ kind }) => kind === 'refuse');
    return { kind: 'unclear', names, refused, replica: replicaOf(found) };
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
        (asked.leavesState && !isOnlyPurged(asked, context)),
      catalog,
    },
    found,
    engine,
  );
  return { kind: 'one', name, plan, replica: replicaOf([found]) };
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
  asked: Asked,
  verdict: SessionVerdict,
  { sessions }: SessionContext,
): Promise<SessionStep> {
  switch (verdict.kind) {
    case 'none':
      return verdict;
    case 'begins':
      return {
        kind: 'pass',
        reason: asked.bypass ?? 'session',
        begins: true,
        replica: undefined,
      };
    case 'unclear': {
      const { names, refused, replica } = verdict;
      if (refused) throw unknownSession();
      if (!(await (names === 'all' ? sessions.dirtyAll() : sessions.dirty(names)))) {
        throw sessionUnavailable();
      }
      return { kind: 'pass', reason: asked.bypass ?? 'session', begins: false, replica };
    }
    case 'one': {
      const { name, plan, replica } = verdict;
      if (plan.kind === 'refuse') throw unknownSession();
      if (plan.kind === 'clean') return { kind: 'clean', name, record: plan.record };
      const { reason, record } = plan;
      await prepare(asked, name, plan, sessions);
      return {
        kind: 'pass',
        reason,
        begins: false,
        replica,
        ...(record && { known: { name, record } }),
      };
    }
  }
}

async function prepare(
  asked: Asked,
  name: SessionName,
  { before, record }: Extract<SessionPlan, { kind: 'pass' }>,
  sessions: Sessions,
): Promise<void> {
  switch (before) {
    case 'nothing':
      return;
    case 'end':
      return sessions.end(name);
    case 'dirty':
      if (!(await sessions.dirty([name]))) throw sessionUnavailable();
      return;
    case 'take-catalog': {
      const { catalog } = catalogOf(asked);
      if (record === undefined || catalog === undefined) return;
      const profile = extendProfile(record.profile, catalog);
      const found = await sessions.takeCatalog(name, record, { catalog, profile });
      if (found.kind === 'unavailable') throw sessionUnavailable();
    }
  }
}

const NO_STATE = { leavesState: false, catalog: undefined } as const;

/** A statement that is purged after needs no mark, unless its session sees more than it changed for all. */
function isOnlyPurged({ change, request }: Asked, { purges }: SessionContext): boolean {
  if (!purges || change === undefined || change.leavesState) return false;
  return request !== undefined && request.unexpected === undefined && !request.security;
}

/**
 * The catalog that a request names by the property, and whether every engine reads it so. One that may not be kept is
 * none, and leaves open where its session is from then on.
 */
function catalogOf({ request, unkept }: Asked): { catalog: string | undefined; certain: boolean } {
  if (unkept !== undefined) return { catalog: undefined, certain: false };
  const named = (request?.properties ?? []).filter(({ name }) => foldName(name) === 'catalog');
  const catalog = named.find(({ name, value }) => name === 'Catalog' && value !== '')?.value;
  return { catalog, certain: named.every(({ name }) => name === 'Catalog') && named.length < 2 };
}

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
