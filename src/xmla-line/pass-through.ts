import type { Principal } from '../auth/authenticator.ts';
import { GatewayError } from '../errors.ts';
import type { XmlaClient } from '../http/xmla-client.ts';
import type { Invalidate, Stale } from '../invalidation.ts';
import type { BypassReason } from '../reasons.ts';
import type { SessionRecord } from '../sessions/session-store.ts';
import type { SessionName, Sessions } from '../sessions/sessions.ts';
import { namedCatalogs } from '../xmla/request/named-objects.ts';
import { bothWatches, watchForSession, watchForSuccess } from './answer-watches.ts';
import type { Asked } from './asked.ts';
import { noteBegun } from './begun-session.ts';
import type { Destination } from './destination.ts';

/** One request that goes to the engine and past the cache. */
export interface Passing {
  /** Undefined for a request without a body, other than a POST. */
  readonly asked: Asked | undefined;
  readonly destination: Destination;
  readonly principal: Principal;
  readonly client: XmlaClient;
  readonly body: Buffer | undefined;
  readonly reason: BypassReason;
  /** The session that it runs in, if it is known. */
  readonly known: { readonly name: SessionName; readonly record: SessionRecord } | undefined;
  /** The replica of the engine where its sessions live, as far as that is known. */
  readonly replica: string | undefined;
  /** Whether its answer may bring a new session. */
  readonly begins: boolean;
  /** Whether what it changes is purged, unless the engine did nothing. */
  readonly purges: boolean;
}

/** Passes requests through, and sees to what their answers mean for sessions and cache. */
export function createPasser(options: {
  sessions: Sessions;
  invalidate: Invalidate;
}): (passing: Passing) => Promise<void> {
  const { sessions } = options;

  return async function pass(passing) {
    const { asked, destination, principal, client, reason, known, begins } = passing;
    const { engine } = destination;
    const isKept = asked?.unkept === undefined;
    const replica = known?.record.replica ?? passing.replica ?? replicaFor(passing);
    // What the engine refuses a stranger keeps no session alive.
    if (known?.record.principal === principal.name) sessions.forwarded(known.name, known.record);
    const watch = bothWatches(
      begins
        ? watchForSession((id, before) =>
            noteBegun(sessions, destination, {
              id,
              before,
              principal: principal.name,
              request: isKept ? asked?.request : undefined,
              replica,
              // What begins a session can change it as well.
              leftState: asked?.leavesState !== false || !isKept,
            }),
          )
        : undefined,
      passing.purges
        ? watchForSuccess(asked?.change?.undoneByFault === true, (state) => drop(passing, state))
        : undefined,
    );
    const to = client.passingThrough({ kind: 'bypass', detail: reason });
    await engine.passThrough({ ...destination.addressee, replica }, to, passing.body, watch);
  };

  /** @throws GatewayError `purge-failed`: the client must not take a change for seen by all that is not */
  async function drop(
    { asked, destination, principal, known }: Passing,
    state: 'after' | 'unknown',
  ): Promise<void> {
    const stale = staleAfter(asked, destination, known?.record);
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
  asked: Asked | undefined,
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

/** A session stays with its replica, which must be known before it begins. */
function replicaFor({ asked, begins, destination }: Passing): string | undefined {
  if (begins) return destination.engine.replicaFor(undefined);
  const [id] = asked === undefined || asked.sessionIds === 'unknown' ? [] : asked.sessionIds;
  return id === undefined ? undefined : destination.engine.replicaFor(id);
}
