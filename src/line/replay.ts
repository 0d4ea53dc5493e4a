import type { Authenticator } from '../auth/authenticator.ts';
import type { QueryCache } from '../cache/cache.ts';
import type { KnownKey } from '../cache/query.ts';
import type { StoredAnswer } from '../cache/stored-answer.ts';
import type { Clock } from '../common/clock.ts';
import type { Principal } from '../common/principal.ts';
import type { CacheScope } from '../freshness/freshness-store.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { XmlaClient } from './client.ts';
import type { Asker, Claim, Handled, Known } from './memo.ts';
import type { Judge, Seen } from './ports.ts';
import type { SharedQuery } from './query.ts';
import { isTouchDue, type KnownSession } from './session-step.ts';
import { inSession } from './understand.ts';

type Stands = ReturnType<typeof createStands>;

/**
 * @returns whether login, session and roles are unchanged, and no judge objects; for this turn
 * @param isOld the entry is past its ttl, and the engine failed
 */
export const createStands =
  (parts: {
    readonly sessions: Pick<Sessions, 'held'>;
    readonly roleSets: Pick<RoleSets, 'heldName'>;
    readonly judges: Iterable<Judge>;
    readonly clock: Pick<Clock, 'wall'>;
  }) =>
  (
    head: Omit<Asker, 'project'>,
    scopes: readonly CacheScope[],
    { roles, session: before }: Claim,
    id: string | undefined,
    isOld = false,
  ): boolean => {
    if (!head.login.countsForHits()) return false;
    for (const judge of parts.judges) if (judge(scopes, isOld) !== undefined) return false;
    const { name } = head.login.principal;
    if (roles !== undefined && parts.roleSets.heldName(name) !== roles) return false;
    if (before === undefined || id === undefined) return before === id;
    const found = parts.sessions.held({ endpoint: head.endpoint, id });
    if (found?.kind !== 'known') return false;
    const { principal, dirty, profile, catalog, replica } = found.record;
    if (principal !== head.user || dirty) return false;
    if (profile !== before.profile || catalog !== before.catalog) return false;
    const { session_idle: idle } = head.settings;
    const isDue = isTouchDue(found.record, idle, parts.clock.wall());
    return !isDue || isOld || head.engine.isAway(replica);
  };

type Brought = Readonly<{ answer: StoredAnswer | undefined }>;

/** @returns what a query is asked behind a failure of the engine, however long that took */
export function createIfError(parts: {
  readonly stands: Stands;
  readonly sessions: Pick<Sessions, 'find'>;
  readonly roleSets: Pick<RoleSets, 'nameFor'>;
  readonly authenticator: Pick<Authenticator, 'remembered'> & {
    /** Undefined where the engine checks logins. */
    readonly proofOf?: (user: Principal) => unknown;
  };
}) {
  const { authenticator } = parts;
  return (handled: Handled, query: SharedQuery, session: KnownSession | undefined) => {
    const { principal, destination, request } = handled;
    const { share, roles, scopes, staleIfError } = query;
    const claim = { roles, session: session?.record };
    const proof = authenticator.proofOf?.(principal);
    const isRight = () => proof !== undefined && authenticator.proofOf?.(principal) === proof;
    /** It counted when the request came, which may have been long ago. */
    const before = { principal, counts: isRight, countsForHits: isRight };
    return async () => {
      if (session !== undefined) await parts.sessions.find(session.name);
      const isSame = share !== 'roles' || (await parts.roleSets.nameFor(principal.name)) === roles;
      const login = authenticator.remembered(request.headers.authorization ?? '') ?? before;
      return () => {
        if (!isSame || login.principal.name !== principal.name) return 0;
        const head = { ...destination, login };
        return parts.stands(head, scopes, claim, session?.name.id, true) ? staleIfError : 0;
      };
    };
  };
}

/** @returns the key of a request that stands; for this turn */
export const createKeyOf =
  (stands: Stands) =>
  ({ head, answer, sessionId }: Known, isOld?: boolean): KnownKey | undefined => {
    if (answer === undefined) return undefined;
    const { key } = answer;
    return stands(head, key.captured.scopes, answer, sessionId, isOld) ? key : undefined;
  };

export function createReplay(parts: {
  readonly stands: Stands;
  readonly cache: Pick<QueryCache, 'recall' | 'bring' | 'textOf' | 'hasTier2'>;
  readonly authenticator: Pick<Authenticator, 'checkBehind'>;
  readonly seen: readonly Pick<Seen, 'ending'>[];
}) {
  const { cache, authenticator, seen } = parts;
  const keyOf = createKeyOf(parts.stands);

  /** @param tier2 what it brought; not asked, it may have a later answer */
  function recallOld(known: Known, tier2: Brought | undefined, isFailed: boolean) {
    const { answer, head } = known;
    if (!answer?.staleIfError || (tier2 === undefined && cache.hasTier2)) return undefined;
    const isAway = isFailed || head.engine.isAway(answer.session?.replica);
    const key = isAway ? keyOf(known, true) : undefined;
    return key && cache.recall(key, tier2?.answer, answer.staleIfError);
  }

  /**
   * Returns false where memory has no answer, and Redis brought none.
   * @param isFailed the engine failed this request
   */
  function atOnce(
    known: Known,
    client: XmlaClient,
    body: Buffer,
    tier2?: Brought,
    isFailed = false,
  ): boolean {
    const key = keyOf(known);
    const recalled = (key && cache.recall(key, tier2?.answer)) ?? recallOld(known, tier2, isFailed);
    if (recalled === undefined) return false;
    const { login, project } = known.head;
    client.facts.principal = login.principal.name;
    client.owner = login.principal.owner;
    client.facts.project = project ?? '';
    client.asks(known.asked);
    const { answer: stored, source, ttl, age } = recalled;
    const name = known.answer?.key.key ?? '';
    const text = (compressed: boolean) => cache.textOf(name, stored, compressed);
    const { sessionId } = known;
    client.replay(stored, { outcome: { kind: 'hit', detail: source }, ttl, age, sessionId, text });
    if (!login.counts()) authenticator.checkBehind(client.request.headers.authorization ?? '');
    else if (recalled.ending) {
      const { authorization = '' } = client.request.headers;
      const asked = inSession(known.asked, sessionId);
      const destination = { addressee: { project, query: asked.parts?.query ?? [] } };
      const { requestedAt } = stored;
      const of = { key: name, login, authorization, session: known.answer?.session, requestedAt };
      for (const one of seen) one.ending({ asked, body, destination, ...of });
    }
    return true;
  }

  async function fetched(
    known: Known,
    client: XmlaClient,
    body: Buffer,
    isFailed = false,
  ): Promise<boolean> {
    const key = keyOf(known, isFailed);
    const answer = key && (await cache.bring(key, body.length));
    if (answer === undefined && !isFailed) return false;
    return !client.isGone && atOnce(known, client, body, { answer }, isFailed);
  }

  return { atOnce, fetched };
}
