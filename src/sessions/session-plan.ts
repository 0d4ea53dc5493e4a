import type { EngineTraits } from '../engine-kinds.ts';
import type { BypassReason } from '../reasons.ts';
import { isExtended } from './profile.ts';
import type { SessionRecord } from './session-store.ts';
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

/**
 * What is to be done with a request of a session, and what must happen before it reaches the engine. `suspect`: it
 * is made dirty as well as can be, and the request does not wait for that.
 */
export type SessionPlan =
  /** The session is the principal's own, and clean: the request may be looked up. */
  | { readonly kind: 'clean'; readonly record: SessionRecord }
  | {
      readonly kind: 'pass';
      readonly reason: BypassReason;
      readonly before: 'nothing' | 'dirty' | 'dirty-all' | 'suspect' | 'end' | 'take-catalog';
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
    // What names a catalog goes on: a query must not fail for it. Here the session counts as dirty from now on.
    const mayMove = engine.keepsProperties && question.catalog !== undefined;
    if (before === 'nothing' && mayMove) {
      return { kind: 'pass', reason: bypass ?? 'session-unavailable', before: 'suspect', record };
    }
    const reason = question.kind === 'end' ? 'session' : (bypass ?? 'session-unavailable');
    return { kind: 'pass', reason, before, record };
  }
  if (record === undefined || !isOwn) {
    // What somebody left in a session must not serve another, unless the engine sees to that.
    const holdsState = record?.dirty === true && !engine.checksSessionOwner;
    if (engine.strangeSessions === 'refuse' || holdsState) return { kind: 'refuse' };
    return {
      kind: 'pass',
      reason: 'unknown-session',
      before: engine.checksSessionOwner ? beforeStrange(before, record) : before,
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

/**
 * Before an engine that keeps state in sessions and checks their owners by itself. Whom it refuses to end a session
 * must not make it forgotten here. And it may read an id that is spelt otherwise as that of a session that is known.
 */
function beforeStrange(
  before: 'nothing' | 'dirty' | 'end',
  record: SessionRecord | undefined,
): 'nothing' | 'dirty' | 'dirty-all' {
  if (before === 'end') return 'nothing';
  return before === 'dirty' && record === undefined ? 'dirty-all' : before;
}

/**
 * Where the catalog came later than the session, a request that names none may have reached the engine before the
 * one that did, or behind it.
 */
function dependsOnOrder({ catalog }: SessionQuestion, record: SessionRecord): boolean {
  return catalog === undefined && isExtended(record.profile);
}

/**
 * A request that names another catalog than the session works in may move it there, for all that comes after. The
 * first one named is noted. Who names a second one leaves a session of which nobody knows where it is.
 */
function movesCatalog(
  { catalog }: SessionQuestion,
  record: SessionRecord,
  { keepsProperties }: EngineTraits,
): 'no' | 'take-catalog' | 'dirty' {
  if (!keepsProperties || catalog === undefined || catalog === record.catalog) return 'no';
  return record.catalog === null ? 'take-catalog' : 'dirty';
}
