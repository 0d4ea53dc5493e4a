import type { EngineTraits } from '../common/engine-kinds.ts';
import type { BypassReason } from '../common/reasons.ts';
import { isExtended } from './digests.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { FoundSession } from './sessions.ts';

export interface SessionQuestion {
  readonly kind: 'in' | 'end';
  readonly principal: string;
  readonly bypass: BypassReason | undefined;
  readonly leavesState: boolean;
  readonly catalog: string | undefined;
  /** Its answer is the same in each catalog. */
  readonly everywhere: boolean;
}

export interface SessionPlan {
  /** Reason to pass; undefined in a clean session of the principal. */
  readonly reason: BypassReason | undefined;
  readonly before: 'nothing' | 'dirty' | 'end' | 'take-catalog';
  readonly record: SessionRecord | undefined;
}

/** Plans only. `refuse` is answered with the Fault for unknown sessions. */
export function planSession(
  question: SessionQuestion,
  found: FoundSession,
  engine: EngineTraits,
): SessionPlan | 'refuse' {
  const { kind, principal, bypass, leavesState } = question;
  const before = kind === 'end' ? 'end' : leavesState ? 'dirty' : 'nothing';
  // It may move the session to another catalog, for all later requests.
  const catalog = engine.keepsProperties ? question.catalog : undefined;
  const changes = (moves: boolean) => (moves && before === 'nothing' ? 'dirty' : before);
  if (found.kind === 'unavailable') {
    // Other gateways may take it for clean in its old catalog.
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
    // A user who may not end the session must not make it forgotten.
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
    // Also for a dirty one, of which others may have to learn.
    return { reason: bypass ?? 'dirty-session', before: changes(moves), record };
  }
  // If the catalog came later, a request without one may have come before or behind it.
  const isInherited = question.catalog === undefined && !question.everywhere;
  const dependsOnOrder = moves || (isInherited && isExtended(record.profile));
  // The first catalog is noted; after a second one it is not known where the session is.
  const next = record.catalog === null ? 'take-catalog' : 'dirty';
  return {
    reason: bypass ?? (dependsOnOrder ? 'first-catalog' : undefined),
    before: moves ? next : 'nothing',
    record,
  };
}

/** A session with state of another user must not serve, unless the engine sees to it. */
function isOwnedByOther(record: SessionRecord | undefined, engine: EngineTraits): boolean {
  const holdsState = record?.dirty === true && !engine.checksSessionOwner;
  return engine.strangeSessions === 'refuse' || holdsState;
}
