import type { EngineTraits } from '../common/engine-kinds.ts';
import type { BypassReason } from '../common/reasons.ts';
import { isExtended } from './digests.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { FoundSession } from './sessions.ts';

export interface SessionQuestion {
  readonly kind: 'in' | 'end';
  readonly principal: string;
  /** Why it is passed through whatever its session is. */
  readonly bypass: BypassReason | undefined;
  readonly leavesState: boolean;
  readonly catalog: string | undefined;
}

export interface SessionPlan {
  /** Why it is passed through; undefined when the session is the principal's own, and clean. */
  readonly reason: BypassReason | undefined;
  /** Step before it reaches the engine. */
  readonly before: 'nothing' | 'dirty' | 'end' | 'take-catalog';
  readonly record: SessionRecord | undefined;
}

/** Says what to do and does nothing. `refuse` is answered with the Fault for unknown sessions. */
export function planSession(
  question: SessionQuestion,
  found: FoundSession,
  engine: EngineTraits,
): SessionPlan | 'refuse' {
  const { kind, principal, bypass, leavesState } = question;
  const before = kind === 'end' ? 'end' : leavesState ? 'dirty' : 'nothing';
  // A request in another catalog may move the session there, for all that comes after.
  const catalog = engine.keepsProperties ? question.catalog : undefined;
  const changes = (moves: boolean) => (moves && before === 'nothing' ? 'dirty' : before);
  if (found.kind === 'unavailable') {
    // Other gateways may take it for clean where it was.
    const { last } = found;
    const wasOwn = last?.principal === principal;
    if (last !== undefined && !wasOwn && isOwnedByOther(last, engine)) return 'refuse';
    const record = undefined;
    if (kind === 'end') return { reason: 'session', before: wasOwn ? 'end' : 'nothing', record };
    const moves = catalog !== undefined && !(wasOwn && last.catalog === catalog);
    return { reason: bypass ?? 'session-unavailable', before: changes(moves), record };
  }
  const record = found.kind === 'known' ? found.record : undefined;
  if (record?.principal !== principal) {
    if (isOwnedByOther(record, engine)) return 'refuse';
    const mayBeOwn = found.kind === 'unknown' && found.otherwise?.principal === principal;
    // A user whom the engine refuses to end a session must not make it forgotten.
    const isRefused = kind === 'end' && engine.checksSessionOwner && !mayBeOwn;
    // The store may have lost a session that another gateway still takes for clean.
    const isLost = found.kind === 'unknown' && found.otherwise === undefined;
    const moves = (isLost || mayBeOwn) && catalog !== undefined;
    const first = isRefused ? 'nothing' : changes(moves);
    return { reason: 'unknown-session', before: first, record };
  }
  if (kind === 'end') return { reason: 'session', before, record };
  const moves = catalog !== undefined && catalog !== record.catalog;
  if (record.dirty || leavesState) {
    // Also of a dirty one, of which others may still have to learn.
    return { reason: bypass ?? 'dirty-session', before: changes(moves), record };
  }
  // Where the catalog came later than the session, one that names none may have come before it or
  // behind it.
  const dependsOnOrder = moves || (question.catalog === undefined && isExtended(record.profile));
  // The first catalog is noted. A second one leaves a session of which it is not known where it is.
  const next = record.catalog === null ? 'take-catalog' : 'dirty';
  return {
    reason: bypass ?? (dependsOnOrder ? 'first-catalog' : undefined),
    before: moves ? next : 'nothing',
    record,
  };
}

/** A session that another user left something in must not serve, unless the engine sees to it. */
function isOwnedByOther(record: SessionRecord | undefined, engine: EngineTraits): boolean {
  const holdsState = record?.dirty === true && !engine.checksSessionOwner;
  return engine.strangeSessions === 'refuse' || holdsState;
}
