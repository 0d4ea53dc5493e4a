import { tellSessions } from '../cache/answer-sessions.ts';
import type { Query } from '../cache/query.ts';
import { GatewayError } from '../common/errors.ts';
import type { Invalidate, Stale } from '../common/events.ts';
import type { Principal } from '../common/principal.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { AnswerWatch } from '../engine/http-engine.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { watchAnswer } from '../xmla/answer/watch-answer.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import type { XmlaClient } from './client.ts';
import type { Seen } from './ports.ts';
import { noteBegun, type SessionStep } from './session-step.ts';
import type { Destination, UnderstoodRequest } from './understand.ts';

interface Passing {
  readonly client: XmlaClient;
  readonly principal: Principal;
  readonly destination: Destination;
  readonly asked?: UnderstoodRequest;
  readonly body?: Buffer;
  readonly step?: SessionStep;
  /** Its changes are purged, unless the engine did nothing. */
  readonly purges?: boolean;
}

export function createPass(parts: {
  readonly sessions: Pick<Sessions, 'begin' | 'dirty' | 'forwarded'>;
  readonly invalidate: Invalidate;
  readonly seen: readonly Pick<Seen, 'beginning'>[];
}) {
  const { sessions, invalidate, seen } = parts;

  /** @throws GatewayError `purge-failed`: not every user sees the change yet */
  async function drop(passing: Passing, state: 'after' | 'unknown'): Promise<void> {
    const { principal, client, asked } = passing;
    const why = asked?.change?.why ?? `${asked?.bypass}: ${asked?.why}`;
    const by = { cause: 'statement', call: client.facts.id, why } as const;
    const drops = staleAfter(passing).map((one) => invalidate(one, principal.name, state, by));
    const cleared = await Promise.all(drops);
    if (!cleared.includes(false)) return;
    throw new GatewayError(
      'purge-failed',
      'The engine was sent the statement, but Redis did not confirm that the caches were purged of what it may have changed. That stays owed and is done when Redis answers.',
      { retryAfter: 5 },
    );
  }

  return async function pass(passing: Passing, reason: BypassReason): Promise<void> {
    const { asked, destination, client, body, step, purges } = passing;
    const { engine, addressee, user } = destination;
    const { known, begins = false } = step ?? {};
    const isKept = asked?.unkept === undefined;
    // A session stays with its replica, which must be known before it begins.
    const [id] = asked === undefined || asked.sessionIds === 'unknown' ? [] : asked.sessionIds;
    const isPlaced = begins || id !== undefined;
    const own = begins ? undefined : id;
    const replica = step?.replica ?? (isPlaced ? engine.replicaFor(own) : undefined);
    // A request that the engine refuses to another user keeps no session alive.
    if (known?.record.principal === user) sessions.forwarded(known.name, known.record);
    const watch = watchFor({
      began: begins
        ? async (begun, before) => {
            const profile = await noteBegun(sessions, destination, begun, before, {
              principal: user,
              asked: isKept ? asked : undefined,
              replica,
              // A request that begins a session can change it as well.
              leftState: asked?.leavesState !== false || !isKept,
            });
            if (profile === undefined || asked === undefined || body === undefined) return;
            for (const one of seen) one.beginning({ asked, body, destination }, profile);
          }
        : undefined,
      changed: purges === true ? (state) => drop(passing, state) : undefined,
      undoneByFault: asked?.change?.undoneByFault === true,
    });
    const outcome = { kind: 'bypass', detail: reason } as const;
    const label = asked?.projects[0];
    const to = { ...addressee, replica, again: mayBeSentAgain(passing), label };
    await engine.passThrough(to, client, outcome, body, watch);
  };
}

function mayBeSentAgain({ asked, client }: Passing): boolean {
  if (asked === undefined || client.request.method !== 'POST') return false;
  const { session, sessionIds, sessionToken, leavesState, change } = asked;
  const isInSession = session.kind !== 'none' || sessionIds.length > 0 || sessionToken;
  return !isInSession && !leavesState && change === undefined;
}

/** Catalogs in which a statement may have run; everything where none is named. */
function staleAfter({ asked, destination, step }: Passing): readonly Stale[] {
  const { engine, addressee } = destination;
  const { request, change } = asked ?? {};
  if (request === undefined || change === undefined || change.reach === 'everything') {
    return ['everything'];
  }
  const told = engine.tellsProject && addressee.project !== undefined;
  const { catalogs, spansCatalogs, qualified, excess } = namedCatalogs(request);
  const record = step?.known?.record;
  // A dirty session may have moved to another catalog than the one that was noted.
  const ofSession = record?.dirty === false ? record.catalog : null;
  const isOpen = spansCatalogs && !told && ofSession === null;
  if (isOpen || qualified || excess !== undefined) return ['everything'];
  const named = [addressee.project, ...catalogs, ofSession];
  return [...new Set(named)].flatMap((project) => (project ? [{ project }] : []));
}

/** A proxy before the engine may send these by itself (RFC 9110 §15.6.3 to §15.6.5). */
const OF_A_PROXY: ReadonlySet<number> = new Set([502, 503, 504]);

/**
 * Looks for the session that an answer begins, and waits for the purge of a change.
 * @param on.began called for each session before the client has the end of the answer
 * @param on.changed called once the change was done (`after`), or may be done or under way
 *   (`unknown`). What it throws is answered to the client
 * @param on.undoneByFault a Fault as the only answer means that nothing was done
 */
export function watchFor(on: {
  readonly began: Query['began'] | undefined;
  readonly changed: ((state: 'after' | 'unknown') => Promise<void>) | undefined;
  readonly undoneByFault: boolean;
}): AnswerWatch | undefined {
  const { began, changed, undoneByFault } = on;
  if (began === undefined && changed === undefined) return undefined;
  let tell: ReturnType<typeof tellSessions> | undefined;
  let reader: ReturnType<typeof watchAnswer> | undefined;
  let ofProxy = false;
  return {
    // The piece that completes a session id waits until `began` has resolved.
    holdsLast: changed !== undefined,
    head(head) {
      if (began && head.status === 200) tell = tellSessions(head, began);
      if (changed) reader = watchAnswer({ contentType: head.headers['content-type'] });
      ofProxy = OF_A_PROXY.has(head.status);
    },
    write(chunk) {
      reader?.write(chunk);
      return tell?.(chunk);
    },
    async end(outcome) {
      await tell?.();
      reader?.end();
      if (outcome === 'not-sent') return;
      const isUndone = outcome === 'whole' && undoneByFault && reader?.faultOnly === true;
      if (!isUndone) await changed?.(outcome === 'broken' || ofProxy ? 'unknown' : 'after');
    },
  };
}
