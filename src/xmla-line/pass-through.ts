import type { Principal } from '../auth/authenticator.ts';
import { GatewayError } from '../errors.ts';
import type { XmlaClient } from '../http/xmla-client.ts';
import type { Stale } from '../invalidation.ts';
import type { Purge } from '../query-cache/purge.ts';
import type { BypassReason } from '../reasons.ts';
import type { SessionRecord } from '../sessions/session-store.ts';
import type { SessionName, Sessions } from '../sessions/sessions.ts';
import { namedCatalogs } from '../xmla/catalogs.ts';
import { bothWatches, watchForSession, watchForSuccess } from './answer-watches.ts';
import type { Asked } from './asked.ts';
import type { Destination } from './destination.ts';
import { beginningCatalog, beginningProfile } from './query-of.ts';

/** One request that goes to the engine and past the cache. */
export interface Passing {
  /** Undefined for a method other than POST. */
  readonly asked: Asked | undefined;
  readonly destination: Destination;
  readonly principal: Principal;
  readonly client: XmlaClient;
  readonly body: Buffer | undefined;
  readonly reason: BypassReason;
  /** The session that it runs in, if it is known. */
  readonly known: { readonly name: SessionName; readonly record: SessionRecord } | undefined;
  /** Whether its answer may bring a new session. */
  readonly begins: boolean;
  /** Whether what it changes is purged when it has succeeded. */
  readonly purges: boolean;
}

/** Passes requests through, and sees to what their answers mean for sessions and cache. */
export function createPasser(options: {
  sessions: Sessions;
  purge: Purge;
}): (passing: Passing) => Promise<void> {
  const { sessions } = options;

  return async function pass(passing) {
    const { destination, principal, client, reason, known, begins } = passing;
    const { engine } = destination;
    const replica = known?.record.replica ?? replicaFor(passing);
    // What the engine refuses a stranger keeps no session alive.
    if (known?.record.principal === principal.name) sessions.forwarded(known.name, known.record);
    const watch = bothWatches(
      begins ? watchForSession((id) => note(passing, id, replica)) : undefined,
      passing.purges ? watchForSuccess(() => drop(passing)) : undefined,
    );
    const to = client.passingThrough({ kind: 'bypass', detail: reason });
    await engine.passThrough({ ...destination.addressee, replica }, to, passing.body, watch);
  };

  async function note(
    { asked, destination, principal }: Passing,
    id: string,
    replica: string | undefined,
  ): Promise<void> {
    const name = { place: destination.place, id };
    await sessions.begin(name, {
      principal: principal.name,
      profile: beginningProfile(asked?.request, destination),
      catalog: beginningCatalog(asked?.request, destination),
      replica: replica ?? destination.engine.replicaFor(id),
      // What begins a session can change it as well.
      dirty: asked?.leavesState !== false,
    });
  }

  /** @throws GatewayError `purge-failed`: the client must not take a change for seen by all that is not */
  async function drop({ asked, destination, principal, known }: Passing): Promise<void> {
    const stale = staleAfter(asked, destination, known?.record);
    const outcomes = await Promise.all(
      stale.map((one) => options.purge(one, { principal: principal.name, cause: 'statement' })),
    );
    if (outcomes.every(({ ok }) => ok)) return;
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
  const { catalogs, spansCatalogs } = namedCatalogs(request);
  const isPlain = !spansCatalogs || told || typeof record?.catalog === 'string';
  if (!isPlain) return ['everything'];
  const named = [addressee.project, ...catalogs, record?.catalog];
  return [...new Set(named)].flatMap((project) => (project ? [{ project }] : []));
}

/** A session stays with its replica, which must be known before it begins. */
function replicaFor({ asked, begins, destination }: Passing): string | undefined {
  if (begins) return destination.engine.replicaFor(undefined);
  const [id] = asked === undefined || asked.sessionIds === 'unknown' ? [] : asked.sessionIds;
  return id === undefined ? undefined : destination.engine.replicaFor(id);
}
