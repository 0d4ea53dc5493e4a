import type { EngineTraits } from '../common/engine-kinds.ts';
import type { BypassReason } from '../common/reasons.ts';
import { isExtended } from './profile.ts';
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
export type SessionPlan =
  /** The session is the principal's own, and clean: the request may be looked up. */
  | { readonly kind: 'clean'; readonly record: SessionRecord }
  | {
      readonly kind: 'pass';
      readonly reason: BypassReason;
      readonly before: 'nothing' | 'dirty' | 'end' | 'take-catalog';
      readonly record: SessionRecord | undefined;
    }
  /** Answered with the Fault for unknown sessions. */
  | { readonly kind: 'refuse' };

/** Decides by what is known of the session and of the engine. Pure: says what to do and does nothing. */
export function planSession(
  question: SessionQuestion,
  found: FoundSession,
  engine: EngineTraits,
): SessionPlan {
  const record = found.kind === 'known' ? found.record : undefined;
  const isOwn = record?.principal === question.principal;
  const { bypass } = question;
  const before = question.kind === 'end' ? 'end' : question.leavesState ? 'dirty' : 'nothing';
  if (found.kind === 'unavailable') {
    // Other gateways may take it for clean where it was: what may move it is a change like any other.
    const { last } = found;
    const wasOwn = last?.principal === question.principal;
    if (last !== undefined && !wasOwn && isOwnedByOther(last, engine)) {
      return { kind: 'refuse' };
    }
    const pass = { kind: 'pass', record } as const;
    if (question.kind === 'end') {
      return { ...pass, reason: 'session', before: wasOwn ? 'end' : 'nothing' };
    }
    const moves = before === 'nothing' && mayMove(question, last, engine);
    const reason = bypass ?? 'session-unavailable';
    return { ...pass, reason, before: moves ? 'dirty' : before };
  }
  if (record === undefined || !isOwn) {
    if (isOwnedByOther(record, engine)) return { kind: 'refuse' };
    return {
      kind: 'pass',
      reason: 'unknown-session',
      before: beforeUnknown(question, before, found, engine),
      record,
    };
  }
  if (question.kind === 'end') return { kind: 'pass', reason: 'session', before, record };
  const moves = movesCatalog(question, record, engine);
  if (record.dirty || before === 'dirty') {
    // Also of a dirty one: the gateway that made it so may still wait for others to learn of it.
    const again = before === 'nothing' && moves !== 'no' ? 'dirty' : before;
    return { kind: 'pass', reason: bypass ?? 'dirty-session', before: again, record };
  }
  if (moves !== 'no') {
    return { kind: 'pass', reason: bypass ?? 'first-catalog', before: moves, record };
  }
  if (bypass !== undefined) return { kind: 'pass', reason: bypass, before, record };
  if (dependsOnOrder(question, record)) {
    return { kind: 'pass', reason: 'first-catalog', before, record };
  }
  return { kind: 'clean', record };
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
  const otherwise = found.kind === 'unknown' ? found.otherwise : undefined;
  const mayBeOwn = otherwise?.principal === principal;
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
): 'no' | 'take-catalog' | 'dirty' {
  if (!keepsProperties || catalog === undefined || catalog === record.catalog) return 'no';
  return record.catalog === null ? 'take-catalog' : 'dirty';
}
