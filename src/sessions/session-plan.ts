import type { EngineTraits } from '../common/engine-kinds.ts';
import type { BypassReason } from '../common/reasons.ts';
import { isExtended } from './digests.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { FoundSession } from './sessions.ts';

/** What a request means for the one session that it names. */
export interface SessionQuestion {
  readonly kind: 'in' | 'end';
  readonly principal: string;
  /** Why it is passed through whatever its session is; undefined when it may be looked up. */
  readonly bypass: BypassReason | undefined;
  /** Whether it may leave something behind in the session. */
  readonly leavesState: boolean;
  /** The catalog that it names for itself. */
  readonly catalog: string | undefined;
}

/** What is to be done with a request of a session, and what must happen before it reaches the engine. */
export interface SessionPlan {
  /** Why it is passed through; undefined when the session is the principal's own, and clean: then it may be looked up. */
  readonly reason: BypassReason | undefined;
  readonly before: 'nothing' | 'dirty' | 'end' | 'take-catalog';
  readonly record: SessionRecord | undefined;
}

/**
 * Decides by what is known of the session and of the engine. Pure: says what to do and does nothing.
 * @returns `refuse` for what is answered with the Fault for unknown sessions
 */
export function planSession(
  question: SessionQuestion,
  found: FoundSession,
  engine: EngineTraits,
): SessionPlan | 'refuse' {
  const { kind, principal, bypass, leavesState } = question;
  const before = kind === 'end' ? 'end' : leavesState ? 'dirty' : 'nothing';
  if (found.kind === 'unavailable') {
    // Other gateways may take it for clean where it was: what may move it is a change like any other.
    const { last } = found;
    const wasOwn = last?.principal === principal;
    if (last !== undefined && !wasOwn && isOwnedByOther(last, engine)) return 'refuse';
    const record = undefined;
    if (kind === 'end') return { reason: 'session', before: wasOwn ? 'end' : 'nothing', record };
    const moves = before === 'nothing' && mayMove(question, last, engine);
    const reason = bypass ?? 'session-unavailable';
    return { reason, before: moves ? 'dirty' : before, record };
  }
  const record = found.kind === 'known' ? found.record : undefined;
  if (record?.principal !== principal) {
    if (isOwnedByOther(record, engine)) return 'refuse';
    const first = beforeUnknown(question, before, found, engine);
    return { reason: 'unknown-session', before: first, record };
  }
  if (kind === 'end') return { reason: 'session', before, record };
  const moves = movesCatalog(question, record, engine);
  if (record.dirty || before === 'dirty') {
    // Also of a dirty one: the gateway that made it so may still wait for others to learn of it.
    const again = moves === 'nothing' ? before : 'dirty';
    return { reason: bypass ?? 'dirty-session', before: again, record };
  }
  const isOrdered = moves === 'nothing' && !dependsOnOrder(question, record);
  return { reason: bypass ?? (isOrdered ? undefined : 'first-catalog'), before: moves, record };
}

/** What one user left in a session must not serve another, unless the engine sees to that. */
function isOwnedByOther(record: SessionRecord | undefined, engine: EngineTraits): boolean {
  const holdsState = record?.dirty === true && !engine.checksSessionOwner;
  return engine.strangeSessions === 'refuse' || holdsState;
}

/**
 * Where the catalog came later than the session, a request that names none may have reached the engine before the
 * one that did, or behind it.
 */
function dependsOnOrder({ catalog }: SessionQuestion, record: SessionRecord): boolean {
  return catalog === undefined && isExtended(record.profile);
}

/** A user whom the engine refuses to end a session must not make it forgotten. What may move one, by another spelling, is a change. */
function beforeUnknown(
  { principal, catalog }: SessionQuestion,
  before: 'nothing' | 'dirty' | 'end',
  found: FoundSession,
  { checksSessionOwner, keepsProperties }: EngineTraits,
): 'nothing' | 'dirty' | 'end' {
  const mayBeOwn = found.kind === 'unknown' && found.otherwise?.principal === principal;
  if (before === 'end' && checksSessionOwner && !mayBeOwn) return 'nothing';
  const moves = mayBeOwn && keepsProperties && catalog !== undefined;
  return before === 'nothing' && moves ? 'dirty' : before;
}

/** Where the store is away. In the catalog where the user's own session was last, a request moves nothing. */
function mayMove(
  { principal, catalog }: SessionQuestion,
  last: SessionRecord | undefined,
  { keepsProperties }: EngineTraits,
): boolean {
  if (!keepsProperties || catalog === undefined) return false;
  return last?.principal !== principal || last.catalog !== catalog;
}

/**
 * A request that names another catalog than the session works in may move it there, for all that comes after. The
 * first one named is noted. A second one leaves a session of which it is not known where it is.
 */
function movesCatalog(
  { catalog }: SessionQuestion,
  record: SessionRecord,
  { keepsProperties }: EngineTraits,
): 'nothing' | 'take-catalog' | 'dirty' {
  if (!keepsProperties || catalog === undefined || catalog === record.catalog) return 'nothing';
  return record.catalog === null ? 'take-catalog' : 'dirty';
}
