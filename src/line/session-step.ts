import type { Permissions } from '../auth/authenticator.ts';
import type { KnownNames } from '../cache/projects.ts';
import type { Client } from '../cache/query.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Principal } from '../common/principal.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { CacheConfig } from '../cache/config.ts';
import type { Engine } from '../engine/http-engine.ts';
import type { Touch } from '../engine/own-questions.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import { extendProfile, type SessionName, sessionProfile } from '../sessions/digests.ts';
import { planSession, type SessionPlan } from '../sessions/session-plan.ts';
import { type FoundSession, lastRecord, type Sessions } from '../sessions/sessions.ts';
import { foldName } from '../xmla/names.ts';
import { DISCOVER_TYPES } from '../xmla/request/named-objects.ts';
import type { Property } from '../xmla/request/read-request.ts';
import type { Destination, UnderstoodRequest } from './understand.ts';

export interface KnownSession {
  readonly name: SessionName;
  readonly record: SessionRecord;
}

export interface SessionStep {
  /** Undefined where it runs in none, or in `known`, clean and of this principal. */
  readonly reason: BypassReason | undefined;
  readonly before: SessionPlan['before'];
  readonly names: readonly SessionName[] | 'all';
  /** Last known record of the session whose catalog it names. */
  readonly named: SessionRecord | undefined;
  readonly known: KnownSession | undefined;
  readonly begins: boolean;
  readonly replica: string | undefined;
}

export type Examine = ReturnType<typeof createExamine>;

export function createExamine(parts: {
  readonly config: { readonly cache: Pick<CacheConfig, 'purge_on_refresh_cube'> };
  readonly permissions: Pick<Permissions, 'mayPurge'>;
  readonly sessions: Pick<Sessions, 'find'>;
  /** `admit`: whether anything may be kept under these names. */
  readonly names: Pick<KnownNames, 'admit'>;
}) {
  const { config, permissions, sessions, names } = parts;

  /**
   * @returns the request as it goes on, and what is purged unless the engine did nothing. Step
   *   `refuse` is answered with the Fault for unknown sessions
   * @param ofPage a page of another origin sends it
   * @throws GatewayError `identity-refused`; `forbidden` for what such a page may not do
   */
  return async function examine(
    read: UnderstoodRequest,
    destination: Destination,
    principal: Principal,
    ofPage = false,
  ) {
    if (read.asksForOther) throw asksForOther();
    const { change } = read;
    const isPurge = change !== undefined && (!change.refresh || config.cache.purge_on_refresh_cube);
    const purges = isPurge && permissions.mayPurge(principal);
    if (ofPage && (purges || doesMore(read))) {
      throw new GatewayError(
        'forbidden',
        'Nothing was done: a page of another origin may ask, and may neither change anything for others nor clear the cache.',
      );
    }
    const isAdmitted = names.admit(principal.owner, read.projects);
    const unkept = read.unkept ?? (isAdmitted ? undefined : 'many-names');
    const asked =
      unkept === read.unkept ? read : { ...read, unkept, bypass: read.bypass ?? unkept };
    const step = await planFor(asked, destination, purges, sessions.find);
    return { asked, purges, step };
  };
}

const asksForOther = () =>
  new GatewayError(
    'identity-refused',
    'The request asks for the rights of another identity, or cannot be read well enough to say that it does not; engine.delegation refuses that.',
  );

const STRANGE = { named: undefined, known: undefined, begins: false, replica: undefined } as const;

async function planFor(
  asked: UnderstoodRequest,
  { endpoint, traits, user }: Destination,
  purges: boolean,
  find: Sessions['find'],
): Promise<SessionStep | 'refuse'> {
  const { session, sessionIds, sessionToken, bypass } = asked;
  /** Its sessions are not certain, so all that it names become dirty. */
  const unclear = { ...STRANGE, reason: bypass ?? 'session', before: 'dirty' } as const;
  if (sessionIds === 'unknown') return { ...unclear, names: 'all' };
  const names = sessionIds.map((id) => ({ endpoint, id }));
  const [name] = names;
  if (name === undefined) {
    const nothing = { ...STRANGE, names, before: 'nothing' } as const;
    if (session.kind === 'begin') return { ...nothing, reason: unclear.reason, begins: true };
    // What an engine makes of a session without an id is not known.
    if (session.kind !== 'none' || sessionToken) return { ...unclear, names };
    // Where strange ones are refused, a session that the engine begins must be known.
    return { ...nothing, reason: undefined, begins: traits.strangeSessions === 'refuse' };
  }
  const found = await Promise.all(names.map((one) => find(one)));
  const isOne = names.length === 1 && (session.kind === 'in' || session.kind === 'end');
  const { catalog, certain } = catalogOf(asked);
  const leavesState =
    sessionToken ||
    (traits.keepsProperties && !certain) ||
    (asked.leavesState && !isOnlyPurged(asked, purges));
  const question = {
    kind: isOne && session.kind === 'end' ? 'end' : 'in',
    principal: user,
    bypass: bypass ?? (sessionToken || !isOne ? 'session' : undefined),
    leavesState: isOne && leavesState,
    catalog: isOne ? catalog : undefined,
    everywhere: DISCOVER_TYPES.get(asked.subject)?.everywhere === true,
  } as const;
  const plans = found.map((one) => planSession(question, one, traits));
  const [plan] = plans;
  if (plan === undefined || plan === 'refuse' || plans.includes('refuse')) return 'refuse';
  const replica = replicaOf(found);
  if (!isOne) return { ...unclear, names, replica };
  const { reason, before, record } = plan;
  const named = catalog === undefined ? undefined : found.map(lastRecord)[0];
  const isKnown = record && { name, record };
  return { reason, before, names, named, known: isKnown, begins: false, replica };
}

function replicaOf(found: readonly FoundSession[]): string | undefined {
  const replicas = new Set(found.flatMap((one) => lastRecord(one)?.replica ?? []));
  const [replica] = replicas;
  return replicas.size === 1 ? replica : undefined;
}

/** Fault code of eMondrian at which clients begin a new session. */
const UNKNOWN_SESSION = '3238789130';

/** @throws GatewayError `unknown-session`, or `session-unavailable`: others could not be told */
export async function enterSession(
  asked: UnderstoodRequest,
  step: SessionStep | 'refuse',
  sessions: Pick<Sessions, 'settled' | 'dirty' | 'dirtyAll' | 'end' | 'takeCatalog'>,
): Promise<SessionStep> {
  if (step === 'refuse') {
    throw new GatewayError(
      'unknown-session',
      'The session is not known here, or another user began it. Begin a new one.',
      { faultCode: UNKNOWN_SESSION },
    );
  }
  const { before, names, named, known } = step;
  // Another request may have noted that catalog, and still wait.
  if (named !== undefined) await sessions.settled(named);
  if (before === 'nothing') return step;
  const [name] = names === 'all' ? [] : names;
  const { catalog } = catalogOf(asked);
  let isDone = true;
  if (before === 'dirty') {
    isDone = await (names === 'all' ? sessions.dirtyAll() : sessions.dirty(names));
  } else if (before === 'end' && name !== undefined) {
    await sessions.end(name);
  } else if (before === 'take-catalog' && known !== undefined && catalog !== undefined) {
    const profile = extendProfile(known.record.profile, catalog);
    isDone = await sessions.takeCatalog(known.name, known.record, { catalog, profile });
  }
  if (isDone) return step;
  throw new GatewayError(
    'session-unavailable',
    `The request was not sent to the engine: it may change its session, and Redis cannot be reached to tell the other gateways. Try again${names === 'all' ? '' : ', or begin a new session'}.`,
    { retryAfter: 5 },
  );
}

/**
 * Notes a begun session before its id reaches the client. Never rejects. `before`: other ids in the
 * same answer. Returns its profile; undefined where it is not clean.
 */
export async function noteBegun(
  sessions: Pick<Sessions, 'begin' | 'dirty'>,
  { endpoint, engine, traits }: Destination,
  id: string,
  before: readonly string[],
  begun: {
    readonly principal: string;
    /** Undefined where what it names may not be kept. */
    readonly asked: Pick<UnderstoodRequest, 'request' | 'namedHeaders'> | undefined;
    readonly replica: string | undefined;
    readonly leftState: boolean;
  },
): Promise<string | undefined> {
  const { request, namedHeaders } = (traits.keepsProperties ? begun.asked : undefined) ?? {};
  const profile = request ? sessionProfile(request, namedHeaders) : '';
  // May be two names of one session: a change under either counts for both.
  const dirty = begun.leftState || before.length > 0;
  const isNoted = await sessions.begin(
    { endpoint, id },
    {
      principal: begun.principal,
      profile,
      catalog: request?.properties.find(namesCatalog)?.value ?? null,
      replica: begun.replica ?? engine.replicaFor(id),
      dirty,
    },
  );
  if (before.length > 0) await sessions.dirty(before.map((other) => ({ endpoint, id: other })));
  return dirty || !isNoted ? undefined : profile;
}

/**
 * May change what others are answered, cannot be read well enough, brings its own login, or holds a
 * command other than a statement, such as Cancel or Backup.
 */
function doesMore({ change, request }: UnderstoodRequest): boolean {
  if (request === undefined || request.security) return true;
  if (request.oddBeside === false) return true;
  if (change !== undefined && !change.refresh) return true;
  return request.method === 'Execute' && request.commands.some((name) => name !== 'Statement');
}

/** The purge is enough, unless the session sees more than was changed for all. */
function isOnlyPurged({ change, request }: UnderstoodRequest, purges: boolean): boolean {
  if (!purges || change === undefined || change.leavesState) return false;
  return request !== undefined && request.unexpected === undefined && !request.security;
}

/** `certain`: every engine reads it so. None that may not be kept. */
function catalogOf({ request, unkept }: UnderstoodRequest) {
  if (unkept !== undefined) return { catalog: undefined, certain: false };
  const named = (request?.properties ?? []).filter(({ name }) => foldName(name) === 'catalog');
  const catalog = named.find(namesCatalog)?.value;
  return { catalog, certain: named.every(({ name }) => name === 'Catalog') && named.length < 2 };
}

const namesCatalog = ({ name, value }: Property) => name === 'Catalog' && value !== '';

/** A session idle for this part of the time in which the engine drops it is touched. */
const SHARE_OF_IDLE = 1 / 4;

/** Longest wait of a hit for the touch of its session. */
const PATIENCE_MS = 5_000;

interface Home extends Pick<Destination, 'addressee'> {
  readonly engine: Pick<Engine, 'touch' | 'isAway'>;
  readonly settings: Pick<Destination['settings'], 'session_idle'>;
}

/**
 * Keeps sessions alive at the engine, which does not see requests that the cache answers. Uses the
 * login of such a request, since none is kept.
 */
export function createKeepAlive(parts: {
  readonly sessions: Pick<Sessions, 'forwarded' | 'end'>;
  readonly clock: Pick<Clock, 'wall' | 'after'>;
}) {
  const { sessions, clock } = parts;
  const underWay = new Map<string, Promise<Touch | undefined>>();

  function touch({ name, record }: KnownSession, { engine, addressee }: Home, key: string) {
    const { promise, resolve } = Promise.withResolvers<Touch | undefined>();
    const cancel = clock.after(PATIENCE_MS, () => resolve(undefined));
    // Bound to no client: others wait for it too, and it counts when all have gone.
    const { signal } = new AbortController();
    void engine
      .touch({ ...addressee, replica: record.replica }, name.id, signal)
      .then(async (answer) => {
        if (answer.kind === 'alive') sessions.forwarded(name, record);
        if (answer.kind === 'fault') await sessions.end(name);
        resolve(answer);
      })
      .finally(() => {
        cancel();
        underWay.delete(key);
      });
    underWay.set(key, promise);
    return promise;
  }

  /** Resolves to the Fault of an engine that has dropped the session. */
  return async function keepAlive(
    session: KnownSession,
    home: Home,
    client: Pick<Client, 'waits'>,
  ) {
    const { name, record } = session;
    if (!isTouchDue(record, home.settings.session_idle, clock.wall())) return undefined;
    if (home.engine.isAway(record.replica)) return undefined;
    client.waits();
    const key = JSON.stringify([name.endpoint, name.id]);
    const touched = await (underWay.get(key) ?? touch(session, home, key));
    return touched?.kind === 'fault' ? touched : undefined;
  };
}

/** @param idle undefined when the engine never drops one */
export function isTouchDue(record: SessionRecord, idle: number | undefined, wall: number): boolean {
  if (idle === undefined) return false;
  const waited = wall - record.forwardedAt;
  return waited < 0 || waited >= idle * SHARE_OF_IDLE;
}
