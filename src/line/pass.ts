import type { Principal } from '../auth/authenticator.ts';
import type { AnswerWatch } from '../engine/engine.ts';
import { GatewayError } from '../common/errors.ts';
import type { Invalidate, Stale } from '../common/invalidation.ts';
import { tellSessions } from '../cache/answer-sessions.ts';
import type { AnswerHead } from '../cache/query.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { watchAnswer } from '../xmla/answer/watch-answer.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import type { XmlaClient } from './client.ts';
import type { Destination } from './query.ts';
import { noteBegun, type KnownSession, type SessionStep } from './session-step.ts';
import type { UnderstoodRequest } from './understand.ts';

/** One request that goes to the engine and past the cache. */
export interface Passing {
  readonly client: XmlaClient;
  readonly principal: Principal;
  readonly destination: Destination;
  /** Undefined for a request without a body, other than a POST. */
  readonly asked?: UnderstoodRequest;
  readonly body?: Buffer;
  /** What its sessions mean for it; undefined where it was not asked for them. */
  readonly step?: SessionStep;
  /** Whether what it changes is purged, unless the engine did nothing. */
  readonly purges?: boolean;
}

export type Pass = (passing: Passing, reason: BypassReason) => Promise<void>;

/** Passes requests through, and sees to what their answers mean for sessions and cache. */
export function createPass(options: { sessions: Sessions; invalidate: Invalidate }): Pass {
  const { sessions } = options;

  return async function pass(passing, reason) {
    const { asked, destination, principal, client, step } = passing;
    const { engine, addressee } = destination;
    const isKept = asked?.unkept === undefined;
    const known = knownSession(step);
    const begins = mayBegin(passing);
    const where = step?.kind === 'pass' ? step.replica : undefined;
    const replica = known?.record.replica ?? where ?? replicaFor(passing, begins);
    // What the engine refuses another user keeps no session alive.
    if (known?.record.principal === principal.name) sessions.forwarded(known.name, known.record);
    const watches: AnswerWatch[] = [];
    if (begins) {
      const begun = {
        principal: principal.name,
        request: isKept ? asked?.request : undefined,
        replica,
        // What begins a session can change it as well.
        leftState: asked?.leavesState !== false || !isKept,
      };
      watches.push(
        watchForSession((id, before) => noteBegun(sessions, destination, { id, before, ...begun })),
      );
    }
    if (passing.purges === true) {
      const undoneByFault = asked?.change?.undoneByFault === true;
      watches.push(watchForSuccess(undoneByFault, (state) => drop(passing, state)));
    }
    const to = client.passingThrough({ kind: 'bypass', detail: reason });
    await engine.passThrough({ ...addressee, replica }, to, passing.body, together(watches));
  };

  /** @throws GatewayError `purge-failed`: the client must not take a change for seen by all that is not */
  async function drop(
    { asked, destination, principal, step }: Passing,
    state: 'after' | 'unknown',
  ): Promise<void> {
    const stale = staleAfter(asked, destination, knownSession(step)?.record);
    const cleared = await Promise.all(
      stale.map((one) => options.invalidate(one, principal.name, state, 'statement')),
    );
    if (!cleared.includes(false)) return;
    throw new GatewayError(
      'purge-failed',
      'The engine was sent the statement, but Redis did not confirm that the caches were purged of what it may have changed. That stays owed and is done when Redis answers.',
      { retryAfter: 5 },
    );
  }
}

/** What a statement made stale: the catalogs in which it may have run; where none is named, everything. */
function staleAfter(
  asked: UnderstoodRequest | undefined,
  { engine, addressee }: Destination,
  record: SessionRecord | undefined,
): readonly Stale[] {
  const { request, change } = asked ?? {};
  if (request === undefined || change === undefined || change.reach === 'everything') {
    return ['everything'];
  }
  const told = engine.tellsProject && addressee.project !== undefined;
  const { catalogs, spansCatalogs, qualified, excess } = namedCatalogs(request);
  // A dirty session may have moved to another catalog than the one that was noted.
  const ofSession = record?.dirty === false ? record.catalog : null;
  const isPlain =
    excess === undefined && !qualified && (!spansCatalogs || told || ofSession !== null);
  if (!isPlain) return ['everything'];
  const named = [addressee.project, ...catalogs, ofSession];
  return [...new Set(named)].flatMap((project) => (project ? [{ project }] : []));
}

/** The session that a request runs in, if it is known. */
function knownSession(step: SessionStep | undefined): KnownSession | undefined {
  return step?.kind === 'pass' ? step.known : step?.kind === 'clean' ? step : undefined;
}

/** Whether the answer may bring a new session. */
function mayBegin({ step, destination }: Passing): boolean {
  // Where strange sessions are refused, one that the engine begins by itself must not be strange.
  if (step?.kind === 'none') return destination.traits.strangeSessions === 'refuse';
  return step?.kind === 'pass' && step.begins;
}

/** A session stays with its replica, which must be known before it begins. */
function replicaFor({ asked, destination }: Passing, begins: boolean): string | undefined {
  if (begins) return destination.engine.replicaFor(undefined);
  const [id] = asked === undefined || asked.sessionIds === 'unknown' ? [] : asked.sessionIds;
  return id === undefined ? undefined : destination.engine.replicaFor(id);
}

/**
 * Looks for the session that an answer begins, in its HTTP header and its SOAP header.
 * @param begun told of its id before the client has the end of the answer, and where the two name different ones of
 *   both, with the ids that were told before; never rejects
 */
export function watchForSession(
  begun: (id: string, before: readonly string[]) => Promise<void>,
): AnswerWatch {
  let look: ReturnType<typeof tellSessions> | undefined;
  return {
    // The piece that completes the id is handed on when it has been told.
    holdsLast: false,
    head(head: AnswerHead) {
      if (head.status === 200) look = tellSessions(head, begun);
    },
    write: (chunk) => look?.(chunk),
    end: () => look?.(),
  };
}

/** Statuses of a proxy before the engine that has its answer from no engine (RFC 9110 §15.6.3 to §15.6.5). */
const OF_A_PROXY: ReadonlySet<number> = new Set([502, 503, 504]);

/**
 * Waits for what a statement in passing changed.
 * @param undoneByFault whether a Fault and nothing else as the answer means that nothing was done
 * @param succeeded called when it was done (`after`), or when it may have been done or be under way still
 *   (`unknown`). What it throws the client is told instead of the answer
 */
function watchForSuccess(
  undoneByFault: boolean,
  succeeded: (state: 'after' | 'unknown') => Promise<void>,
): AnswerWatch {
  let reader: ReturnType<typeof watchAnswer> | undefined;
  let ofProxy = false;
  return {
    holdsLast: true,
    head({ status, headers }) {
      ofProxy = OF_A_PROXY.has(status);
      reader = watchAnswer({ contentType: headers['content-type'] });
    },
    write(chunk) {
      reader?.write(chunk);
    },
    async end(outcome) {
      reader?.end();
      if (outcome === 'not-sent') return;
      if (outcome === 'broken') return succeeded('unknown');
      if (undoneByFault && reader?.faultOnly === true) return;
      await succeeded(ofProxy ? 'unknown' : 'after');
    },
  };
}

/** Several watches as one, asked one after the other; undefined for none. */
function together(watches: readonly AnswerWatch[]): AnswerWatch | undefined {
  if (watches.length <= 1) return watches[0];
  return {
    holdsLast: watches.some(({ holdsLast }) => holdsLast),
    head(head) {
      for (const watch of watches) watch.head(head);
    },
    async write(chunk) {
      for (const watch of watches) await watch.write(chunk);
    },
    async end(outcome) {
      for (const watch of watches) await watch.end(outcome);
    },
  };
}
