import type { Authenticator } from '../auth/authenticator.ts';
import type { QueryCache } from '../cache/cache.ts';
import type { KnownKey } from '../cache/query.ts';
import type { StoredAnswer } from '../cache/stored-answer.ts';
import type { Clock } from '../common/clock.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { XmlaClient } from './client.ts';
import type { Known } from './memo.ts';
import type { Judge, Seen } from './ports.ts';
import { isTouchDue } from './session-step.ts';
import { inSession } from './understand.ts';

/** @returns the key of a request whose login, session and roles are unchanged; for this turn */
export const createKeyOf =
  (parts: {
    readonly sessions: Pick<Sessions, 'held'>;
    readonly roleSets: Pick<RoleSets, 'heldName'>;
    readonly judges: Iterable<Judge>;
    readonly clock: Pick<Clock, 'wall'>;
  }) =>
  ({ head, answer, sessionId: id }: Known): KnownKey | undefined => {
    if (answer === undefined || !head.login.countsForHits()) return undefined;
    const { key, roles, session: before } = answer;
    for (const judge of parts.judges)
      if (judge(key.captured.scopes) !== undefined) return undefined;
    const { name } = head.login.principal;
    if (roles !== undefined && parts.roleSets.heldName(name) !== roles) return undefined;
    if (before === undefined || id === undefined) return before === id ? key : undefined;
    const found = parts.sessions.held({ endpoint: head.endpoint, id });
    if (found?.kind !== 'known') return undefined;
    const { principal, dirty, profile, catalog } = found.record;
    if (principal !== head.user || dirty) return undefined;
    if (profile !== before.profile || catalog !== before.catalog) return undefined;
    const { session_idle: idle } = head.settings;
    return isTouchDue(found.record, idle, parts.clock.wall()) ? undefined : key;
  };

export type Replay = ReturnType<typeof createReplay>;

export function createReplay(parts: {
  readonly keyOf: ReturnType<typeof createKeyOf>;
  readonly cache: Pick<QueryCache, 'recall' | 'bring' | 'textOf'>;
  readonly authenticator: Pick<Authenticator, 'checkBehind'>;
  readonly seen: readonly Pick<Seen, 'ending'>[];
}) {
  const { keyOf, cache, authenticator, seen } = parts;

  /** Returns false where memory has no answer, and Redis brought none. */
  function atOnce(known: Known, client: XmlaClient, body: Buffer, brought?: StoredAnswer): boolean {
    const key = keyOf(known);
    const recalled = key && cache.recall(key, brought);
    if (key === undefined || recalled === undefined) return false;
    const { login, project = '' } = known.head;
    client.facts.principal = login.principal.name;
    client.owner = login.principal.owner;
    client.facts.project = project;
    client.asks(known.asked);
    const { answer: stored, source, ttl, age } = recalled;
    const text = (compressed: boolean) => cache.textOf(key.key, stored, compressed);
    const { sessionId } = known;
    client.replay(stored, { outcome: { kind: 'hit', detail: source }, ttl, age, sessionId, text });
    if (!login.counts()) authenticator.checkBehind(client.request.headers.authorization ?? '');
    else if (recalled.ending) tellEnding(known, client, body, key.key, stored);
    return true;
  }

  function tellEnding(
    { head, asked: learnt, sessionId, answer }: Known,
    { request }: XmlaClient,
    body: Buffer,
    key: string,
    { requestedAt }: StoredAnswer,
  ): void {
    const { login, project } = head;
    const { authorization = '' } = request.headers;
    const asked = inSession(learnt, sessionId);
    const destination = { addressee: { project, query: asked.parts?.query ?? [] } };
    const of = { key, login, authorization, session: answer?.session, requestedAt };
    for (const one of seen) one.ending({ asked, body, destination, ...of });
  }

  async function fetched(known: Known, client: XmlaClient, body: Buffer): Promise<boolean> {
    const key = keyOf(known);
    const brought = key && (await cache.bring(key, body.length));
    return brought !== undefined && !client.isGone && atOnce(known, client, body, brought);
  }

  return { atOnce, fetched };
}
