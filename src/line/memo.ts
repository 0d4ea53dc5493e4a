import type { IncomingMessage } from 'node:http';
import { LRUCache } from 'lru-cache';
import type { Authenticator } from '../auth/authenticator.ts';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { QueryCache } from '../cache/cache.ts';
import type { KnownKey } from '../cache/query.ts';
import type { StoredAnswer } from '../cache/stored-answer.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Principal } from '../common/principal.ts';
import type { CacheShare } from '../cache/config.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { PageOrigins } from '../http/page-origins.ts';
import type { XmlaAddress } from '../http/xmla-path.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { type Places, placesIn, wishesOf, type Wishes, type XmlaClient } from './client.ts';
import { inSession, MAX_BODY, provenGaps } from './gaps.ts';
import {
  BODIES,
  createKnownBodies,
  createKnownHeads,
  KNOWN_OVERHEAD,
  LAYOUT_BYTES,
  type Layouts,
} from './known.ts';
import type { Judge } from './ports.ts';
import { isTouchDue, type KnownSession } from './session-step.ts';
import {
  understand,
  type AskedOf,
  createOwnTurns,
  type Destination,
  type OwnTurn,
  type UnderstoodRequest,
} from './understand.ts';

/** Client of requests that begin alike, and where their sessions live. */
interface Asker extends Pick<Destination, 'endpoint' | 'settings' | 'user'> {
  readonly project: string | undefined;
  /** Login by the credentials in the head. */
  readonly login: RememberedLogin;
}

/** A head that was understood. */
export interface KnownHead extends Asker {
  /** Taken anew when they were checked again. */
  login: RememberedLogin;
  readonly wishes: Wishes;
  readonly places: Places;
  /** Layouts of bodies that came under it. */
  readonly layouts: Layouts;
}

/** Requests that are alike but for ids, as they were understood. */
interface KnownRequest {
  /** In the session of the request that it was learnt from. */
  readonly asked: UnderstoodRequest;
  /** Place of its answer in the cache; undefined for one that goes past it. */
  readonly answer:
    | {
        readonly key: KnownKey;
        /** The name of the roles under which it is shared; undefined where it is not shared by roles. */
        readonly roles: string | undefined;
        /** Its session at that time; undefined without one. */
        readonly session: SessionRecord | undefined;
      }
    | undefined;
}

/** A request that was recognised, or for which the cache was looked through. */
export interface Known extends KnownRequest {
  readonly head: Asker;
  /** The id of its own session. */
  readonly sessionId: string | undefined;
}

/** A request whose head was checked and whose body has come. */
export interface Arrived {
  readonly client: XmlaClient;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly body: Buffer;
  /** Undefined where the memo does not recognise it. */
  readonly known: Known | undefined;
  /** Whether a page of another origin sends it. */
  readonly ofPage: boolean;
}

/** A request that went all steps. */
export interface Handled {
  readonly request: IncomingMessage;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly destination: AskedOf & Pick<Destination, 'endpoint' | 'user'>;
  readonly body: Buffer;
  readonly asked: UnderstoodRequest;
}

/** Bytes of a property, a header, a restriction or a value beside its text (20 to 55 measured). */
const PIECE_BYTES = 60;
/** Requests of more pieces are not recognised: what reading one takes beside its bytes goes by them. No client's has so many. */
const MOST_PIECES = 500;
/** Learning a body reads it once more, and compares what was read. */
const READINGS = 3;
/** Statements that were passed through once: bytes of all, and of each beside its text. */
const PASSED_ONCE = {
  maxSize: 1024 * 1024,
  sizeCalculation: (_true: true, statement: string) => statement.length + 200,
};

interface MemoParts {
  readonly authenticator: Pick<Authenticator, 'remembered'>;
  readonly pageOrigins: PageOrigins;
  readonly account: Pick<BodyAccount, 'open'>;
  /** Keys digests of heads. */
  readonly secret: string;
  readonly newId: () => string;
  readonly emit: Emit;
}

export type Memo = ReturnType<typeof createMemo>;

/**
 * Remembers what was understood of requests, byte by byte but for ids that clients make anew ({@link Layout}), so
 * that one that comes again need not be read. It decides nothing by itself.
 */
export function createMemo(parts: MemoParts, ownTurn: OwnTurn = createOwnTurns()) {
  const readers: TagReaders = [];
  const heads = createKnownHeads(parts.secret, bytesOfHead);
  const requests = createKnownBodies(({ asked }: KnownRequest) => besideBody(asked));
  const passedOnce = new LRUCache<string, true>(PASSED_ONCE);

  /** Undefined where nothing may be noted under the head, also when it is seen for the first time. */
  function headFor({ request, address, destination, principal }: Handled): KnownHead | undefined {
    const { headers } = request;
    const login = parts.authenticator.remembered(headers.authorization ?? '');
    if (login?.principal.name !== principal.name) return undefined;
    const known = heads.of(request);
    if (known !== undefined && known.login.principal.name === principal.name) {
      known.login = login;
      return known;
    }
    // Neither the query, which may be long, nor all of the destination, which may hold credentials.
    const { endpoint, settings, user } = destination;
    const wishes = wishesOf(headers, parts.pageOrigins);
    const places = placesIn(request.rawHeaders);
    const asker = { project: address.project, login, endpoint, settings, user };
    heads.note(request, principal.owner, { ...asker, wishes, places, layouts: [] });
    return undefined;
  }

  async function note(head: KnownHead, handled: Handled, answer: KnownRequest['answer']) {
    const { request, body, asked, destination, principal } = handled;
    const room = parts.account.open('fill');
    try {
      // A body that finds no room is learnt when it comes again.
      if (!room.grow(body.length)) return;
      await ownTurn(READINGS * body.length, principal.owner);
      const before = requests.find(head.layouts, body);
      // A body that was proven before needs no proof again: none depends on where its answer is found.
      const read = (other: Buffer) =>
        understand(request.headers, other, destination, () => undefined, readers);
      const gaps = before ? before.layout.gaps : await provenGaps(body, asked, read);
      if (gaps === undefined) return;
      const value = { asked: before?.value.asked ?? asked, answer };
      // It takes more from now on.
      if (requests.keep(head.layouts, gaps, body, value))
        heads.note(request, principal.owner, head);
    } catch (error) {
      parts.emit({ type: 'internal-error', id: parts.newId(), error });
    } finally {
      room.release();
    }
  }

  return {
    /** Recognises the head of a request. */
    headOf: (request: IncomingMessage): KnownHead | undefined => heads.of(request),
    recognise(head: KnownHead | undefined, body: Buffer): Known | undefined {
      if (head === undefined || body.length > MAX_BODY) return undefined;
      const found = requests.find(head.layouts, body);
      if (found === undefined) return undefined;
      const { asked, answer } = found.value;
      return { head, sessionId: found.session, asked, answer };
    },
    /** Reads what a body asks, unless it was recognised. */
    async read(arrived: Arrived, destination: Destination): Promise<UnderstoodRequest> {
      const { client, principal, body, known } = arrived;
      if (known !== undefined) return inSession(known.asked, known.sessionId);
      const { request, signal } = client;
      const turnOfClient: OwnTurn = async (bytes) => {
        await ownTurn(bytes, principal.owner);
        signal.throwIfAborted();
      };
      return understand(request.headers, body, destination, turnOfClient, readers);
    },
    /** Notes a query that was answered from the cache. Never rejects. */
    async rememberAnswer(
      handled: Handled,
      { share, roles }: { readonly share: CacheShare; readonly roles: string | undefined },
      session: KnownSession | undefined,
      key: KnownKey,
    ): Promise<void> {
      // A user who has no roles yet may get some.
      const hasNoRoles = share === 'roles' && roles === undefined;
      const head = hasNoRoles || !isPlain(handled) ? undefined : headFor(handled);
      if (head === undefined) return;
      await note(head, handled, { key, roles, session: session?.record });
    },
    /** Notes a request that goes past the cache, when it comes again. Never rejects. */
    async rememberPassing(handled: Handled): Promise<void> {
      const { request } = handled.asked;
      if (request === undefined || !isPlain(handled)) return;
      const asks = request.method === 'Execute' ? request.statement : request.requestType;
      // A statement that never comes again must not cost a second reading.
      const isNew = !passedOnce.has(asks);
      if (isNew) passedOnce.set(asks, true);
      const head = headFor(handled);
      if (head !== undefined && !isNew) await note(head, handled, undefined);
    },
  };
}

/** @returns the key under which a request finds its answer, where login, session and roles are the same. Counts in this turn */
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

/** Answers what was recognised, if nothing has changed since. */
export function createReplay(parts: {
  readonly keyOf: ReturnType<typeof createKeyOf>;
  readonly cache: Pick<QueryCache, 'recall' | 'bring' | 'textOf'>;
  readonly authenticator: Pick<Authenticator, 'checkBehind'>;
}) {
  const { keyOf, cache, authenticator } = parts;

  /** False where neither memory holds the answer nor Redis has brought it. */
  function atOnce(known: Known, client: XmlaClient, brought?: StoredAnswer): boolean {
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
    return true;
  }

  /** Asks Redis for what memory does not hold. Everything is judged once more behind that. */
  async function fetched(known: Known, client: XmlaClient, bytes: number): Promise<boolean> {
    const key = keyOf(known);
    const brought = key && (await cache.bring(key, bytes));
    return brought !== undefined && !client.isGone && atOnce(known, client, brought);
  }

  return { atOnce, fetched };
}

/** Bytes that are kept of a head. */
const bytesOfHead = ({ project = '', endpoint, layouts }: KnownHead): number =>
  layouts.reduce(
    (sum, { gaps }) => sum + LAYOUT_BYTES.own + gaps.ids.length * LAYOUT_BYTES.gap,
    KNOWN_OVERHEAD + 2 * (project.length + endpoint.length),
  );

/** Pieces that were read one by one: properties, restrictions and their values, headers. */
function piecesOf({ request }: UnderstoodRequest): number {
  if (request === undefined) return 0;
  const { properties, headers } = request;
  const pieces = properties.length + headers.length;
  if (request.method === 'Execute') return pieces + request.parameters.length;
  return request.restrictions.reduce((sum, { values }) => sum + 1 + values.length, pieces);
}

/** Bytes that are kept beside the body: the query of the path and named headers stand there several times. */
export function besideBody(asked: UnderstoodRequest): number {
  const ofHead = JSON.stringify([asked.parts?.query, asked.namedHeaders, asked.forwarded]);
  return piecesOf(asked) * PIECE_BYTES + ofHead.length * BODIES.times;
}

/** Whether bodies may be recognised under the head. */
function isPlain({ request, body, asked }: Handled): boolean {
  return (
    request.method === 'POST' &&
    body.length <= MAX_BODY &&
    piecesOf(asked) <= MOST_PIECES &&
    request.headers['content-encoding'] === undefined &&
    // One that names its session in a header has another head in each session.
    asked.forwarded?.['x-as-sessionid'] === undefined
  );
}
