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
import type { Property } from '../xmla/request/read-request.ts';
import type { Destination, UnderstoodRequest } from './understand.ts';

export interface KnownSession {
  readonly name: SessionName;
  readonly record: SessionRecord;
}

/** Meaning of the sessions that a request names. Nothing has been done yet. */
export interface SessionStep {
  /** Why it goes past the cache; undefined where it runs in none, or in a clean one of the principal's (`known`). */
  readonly reason: BypassReason | undefined;
  /** Work before it reaches the engine, and the sessions that it is done to. */
  readonly before: SessionPlan['before'];
  readonly names: readonly SessionName[] | 'all';
  /** Last known record of the session whose catalog it names. */
  readonly named: SessionRecord | undefined;
  /** The session that it runs in, if it is known. */
  readonly known: KnownSession | undefined;
  /** Whether its answer may bring a new session. */
  readonly begins: boolean;
  /** The replica of the engine where its sessions live, if it is known. */
  readonly replica: string | undefined;
}

export type Examine = ReturnType<typeof createExamine>;

/** Examines requests by the names in them and by their sessions, before anything is kept under them or changed in these. */
export function createExamine(parts: {
  readonly config: { readonly cache: Pick<CacheConfig, 'purge_on_refresh_cube'> };
  readonly permissions: Pick<Permissions, 'mayPurge'>;
  readonly sessions: Pick<Sessions, 'find'>;
  /** `admit` says whether anything may be kept under these names of the user. */
  readonly names: Pick<KnownNames, 'admit'>;
}) {
  const { config, permissions, sessions, names } = parts;

  /**
   * @returns the request as it goes on; whether what it changes is purged, unless the engine did nothing; and what its
   *   sessions mean for it: `refuse` for what is answered with the Fault for unknown sessions
   * @param ofPage whether a page of another origin sends it
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

/** Members for a request that runs in no session that is known. */
const STRANGE = { named: undefined, known: undefined, begins: false, replica: undefined } as const;

async function planFor(
  asked: UnderstoodRequest,
  { endpoint, traits, user }: Destination,
  purges: boolean,
  find: Sessions['find'],
): Promise<SessionStep | 'refuse'> {
  const { session, sessionIds, sessionToken, bypass } = asked;
  /** It cannot be told for certain in which sessions it runs, so all of them become dirty. */
  const unclear = { ...STRANGE, reason: bypass ?? 'session', before: 'dirty' } as const;
  if (sessionIds === 'unknown') return { ...unclear, names: 'all' };
  const names = sessionIds.map((id) => ({ endpoint, id }));
  const [name] = names;
  if (name === undefined) {
    const nothing = { ...STRANGE, names, before: 'nothing' } as const;
    if (session.kind === 'begin') return { ...nothing, reason: unclear.reason, begins: true };
    // A session without an id: what an engine makes of it is not known.
    if (session.kind !== 'none' || sessionToken) return { ...unclear, names };
    // Where strange sessions are refused, one that the engine begins by itself must not be strange.
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

/** The one replica on which all of them live that are known. */
function replicaOf(found: readonly FoundSession[]): string | undefined {
  const replicas = new Set(found.flatMap((one) => lastRecord(one)?.replica ?? []));
  const [replica] = replicas;
  return replicas.size === 1 ? replica : undefined;
}

/** The code of eMondrian for it, at which clients begin a new one. */
const UNKNOWN_SESSION = '3238789130';

/**
 * Does what must be done before the request goes on.
 * @throws GatewayError `unknown-session`; `session-unavailable` when other gateways could not be told of a change
 */
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
  // Another request may have noted that catalog, and wait before it takes it to the engine.
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
 * Notes a session that the engine began with an answer, before its id reaches the client. Never rejects.
 * @param before other ids that the same answer named before
 * @returns the profile under which it is noted; undefined where it is not clean
 */
export async function noteBegun(
  sessions: Pick<Sessions, 'begin' | 'dirty'>,
  { endpoint, engine, traits }: Destination,
  id: string,
  before: readonly string[],
  begun: {
    readonly principal: string;
    /** Request that began it; undefined where what it names may not be kept. */
    readonly asked: Pick<UnderstoodRequest, 'request' | 'namedHeaders'> | undefined;
    readonly replica: string | undefined;
    /** Whether the request may have left something behind in it. */
    readonly leftState: boolean;
  },
): Promise<string | undefined> {
  const { request, namedHeaders } = (traits.keepsProperties ? begun.asked : undefined) ?? {};
  const profile = request ? sessionProfile(request, namedHeaders) : '';
  // Two names of one session: neither may stay clean when something is done under the other.
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
 * True for a request that may change what others are answered, cannot be read well enough to say that it does not, brings a login of its
 * own, or holds a command other than a statement, such as Cancel or Backup.
 */
function doesMore({ change, request }: UnderstoodRequest): boolean {
  if (request === undefined || request.security) return true;
  if (request.oddBeside === false) return true;
  if (change !== undefined && !change.refresh) return true;
  return request.method === 'Execute' && request.commands.some((name) => name !== 'Statement');
}

/** A statement that is purged after needs no mark, unless its session sees more than it changed for all. */
function isOnlyPurged({ change, request }: UnderstoodRequest, purges: boolean): boolean {
  if (!purges || change === undefined || change.leavesState) return false;
  return request !== undefined && request.unexpected === undefined && !request.security;
}

/** The catalog that a request names by the property, and whether every engine reads it so; none that may not be kept. */
function catalogOf({ request, unkept }: UnderstoodRequest) {
  if (unkept !== undefined) return { catalog: undefined, certain: false };
  const named = (request?.properties ?? []).filter(({ name }) => foldName(name) === 'catalog');
  const catalog = named.find(namesCatalog)?.value;
  return { catalog, certain: named.every(({ name }) => name === 'Catalog') && named.length < 2 };
}

const namesCatalog = ({ name, value }: Property) => name === 'Catalog' && value !== '';

/** Part of the time in which the engine drops an idle session, after which a request touches it. */
const SHARE_OF_IDLE = 1 / 4;

/** Longest wait of a hit for the touch of its session: an engine that hangs must not keep it. */
const PATIENCE_MS = 5_000;

/** Home of a session that is answered from the cache. */
interface Home extends Pick<Destination, 'addressee'> {
  readonly engine: Pick<Engine, 'touch'>;
  readonly settings: Pick<Destination['settings'], 'session_idle'>;
}

export type KeepAlive = ReturnType<typeof createKeepAlive>;

/**
 * Keeps a session alive at the engine, which sees none of the requests that the cache answers. Rides on one of these, with
 * its login, since no credentials are kept.
 */
export function createKeepAlive(parts: {
  readonly sessions: Pick<Sessions, 'forwarded' | 'end'>;
  readonly clock: Pick<Clock, 'wall' | 'after'>;
}) {
  const { sessions, clock } = parts;
  /** One for each session at one time. */
  const underWay = new Map<string, Promise<Touch | undefined>>();

  /** Resolves to undefined where the engine has not answered in time. */
  function touch({ name, record }: KnownSession, { engine, addressee }: Home, key: string) {
    const { promise, resolve } = Promise.withResolvers<Touch | undefined>();
    const cancel = clock.after(PATIENCE_MS, () => resolve(undefined));
    // Bound to no client: others ride on it, and its answer counts when all of them have gone.
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

  /** Resolves to the answer of an engine that no longer knows the session; then it is forgotten here too. */
  return async function keepAlive(
    session: KnownSession,
    home: Home,
    client: Pick<Client, 'waits'>,
  ) {
    const { name, record } = session;
    if (!isTouchDue(record, home.settings.session_idle, clock.wall())) return undefined;
    client.waits();
    const key = JSON.stringify([name.endpoint, name.id]);
    const touched = await (underWay.get(key) ?? touch(session, home, key));
    return touched?.kind === 'fault' ? touched : undefined;
  };
}

/**
 * Whether the engine has not heard of a session for so long that it has to be touched (by the wall clock).
 * @param idle undefined when the engine never drops a session
 */
export function isTouchDue(record: SessionRecord, idle: number | undefined, wall: number): boolean {
  if (idle === undefined) return false;
  const waited = wall - record.forwardedAt;
  return waited < 0 || waited >= idle * SHARE_OF_IDLE;
}
