import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Authenticator } from '../auth/authenticator.ts';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { KnownKey } from '../cache/query.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import { GatewayError } from '../common/errors.ts';
import type { Emit } from '../common/events.ts';
import { isWithoutEffect } from '../common/header-names.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { Principal } from '../common/principal.ts';
import type { CacheShare } from '../cache/config.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { PageOrigins } from '../http/page-origins.ts';
import type { XmlaAddress } from '../http/xmla-path.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { IGNORED_PROPERTIES, keyedProperties } from '../xmla/request/property-policy.ts';
import {
  placeOf,
  type Places,
  placesIn,
  wishesOf,
  type Wishes,
  type XmlaClient,
} from './client.ts';
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

/** Who asks, and where the sessions of requests live. */
interface Asker extends Pick<Destination, 'endpoint' | 'settings' | 'user'> {
  readonly project: string | undefined;
  /** Of the credentials in the head. */
  readonly login: RememberedLogin;
}

/** What was understood of requests that begin alike. */
export interface KnownHead extends Asker {
  /** Taken anew when they were checked again. */
  login: RememberedLogin;
  readonly wishes: Wishes;
  readonly places: Places;
  /** Of bodies that came under it. */
  readonly layouts: Layouts;
}

/** What was understood of requests that are alike but for ids. */
interface KnownRequest {
  /** In the session of the request that it was learnt from. */
  readonly asked: UnderstoodRequest;
  /** Where its answer was found in the cache; undefined for one that goes past it. */
  readonly answer:
    | {
        readonly key: KnownKey;
        /** The name of the roles under which it is shared; undefined where it is not shared by roles. */
        readonly roles: string | undefined;
        /** What its session was then; undefined without a session. */
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

/** Longer bodies are not recognised or kept, which would take long in one turn. No client's query is so long. */
const MAX_BODY = 64 * 1024;
/** What a property, a header, a restriction and each value of it takes beside its text (bytes; 20 to 55 measured). */
const PIECE = 60;
/** Requests of more pieces are not recognised: what reading one takes beside its bytes goes by them. No client's has so many. */
const MOST_PIECES = 500;
/** Learning a body reads it once more, and compares what was read. */
const READINGS = 3;
/** Statements that were passed through once: bytes of all, and of each beside its text. */
const PASSED_ONCE = { maxSize: 1024 * 1024, overhead: 200 } as const;

export type Memo = ReturnType<typeof createMemo>;

/**
 * Remembers what was understood of requests, byte by byte but for ids that clients make anew ({@link Layout}), so
 * that one that comes again need not be read. It decides nothing by itself.
 */
export function createMemo(
  parts: {
    readonly authenticator: Pick<Authenticator, 'remembered'>;
    readonly sessions: Pick<Sessions, 'held'>;
    readonly roleSets: Pick<RoleSets, 'heldName'>;
    readonly judge: Judge;
    readonly pageOrigins: PageOrigins;
    readonly account: Pick<BodyAccount, 'open'>;
    readonly clock: Pick<Clock, 'wall'>;
    /** Keys digests of heads. */
    readonly secret: string;
    readonly newId: () => string;
    readonly emit: Emit;
  },
  ownTurn: OwnTurn = createOwnTurns(),
) {
  const { authenticator, sessions, roleSets, judge, clock } = parts;
  const readers: TagReaders = [];
  const heads = createKnownHeads(parts.secret, bytesOfHead);
  const requests = createKnownBodies(({ asked }: KnownRequest) => besideBody(asked));
  const passedOnce = new LRUCache<string, true>({
    maxSize: PASSED_ONCE.maxSize,
    sizeCalculation: (_true, statement) => statement.length + PASSED_ONCE.overhead,
  });

  /** Undefined where nothing may be noted under the head, also when it is seen for the first time. */
  function headFor({ request, address, destination, principal }: Handled): KnownHead | undefined {
    const { headers } = request;
    const login = authenticator.remembered(headers.authorization ?? '');
    if (login?.principal.name !== principal.name) return undefined;
    const known = heads.of(request);
    if (known !== undefined && known.login.principal.name === principal.name) {
      known.login = login;
      return known;
    }
    heads.note(request, principal.owner, {
      // Not the query, which may be long: what goes on is read again.
      project: address.project,
      login,
      // Not all of it, which may hold credentials.
      endpoint: destination.endpoint,
      settings: destination.settings,
      user: destination.user,
      wishes: wishesOf(headers, parts.pageOrigins),
      places: placesIn(request.rawHeaders),
      layouts: [],
    });
    return undefined;
  }

  async function note(head: KnownHead, handled: Handled, answer: KnownRequest['answer']) {
    const { request, body, asked, destination, principal } = handled;
    const room = parts.account.open('fill');
    try {
      // What finds no room is learnt when it comes again.
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
    /** What is known of the head of a request. */
    headOf: (request: IncomingMessage): KnownHead | undefined => heads.of(request),
    recognise(head: KnownHead | undefined, body: Buffer): Known | undefined {
      if (head === undefined || body.length > MAX_BODY) return undefined;
      const found = requests.find(head.layouts, body);
      if (found === undefined) return undefined;
      const { asked, answer } = found.value;
      return { head, sessionId: found.session, asked, answer };
    },
    /** What a body asks. One that was recognised is not read. */
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
    /** The key under which it finds its answer, where login, session and roles are as they were. Counts in this turn. */
    keyOf({ head, answer, sessionId: id }: Known): KnownKey | undefined {
      if (answer === undefined || !head.login.countsForHits()) return undefined;
      const { key, roles, session: before } = answer;
      if (judge(key.captured.scopes) !== undefined) return undefined;
      const { name } = head.login.principal;
      if (roles !== undefined && roleSets.heldName(name) !== roles) return undefined;
      if (before === undefined || id === undefined) return before === id ? key : undefined;
      const found = sessions.held({ endpoint: head.endpoint, id });
      if (found?.kind !== 'known') return undefined;
      const { principal, dirty, profile, catalog } = found.record;
      if (principal !== head.user || dirty) return undefined;
      if (profile !== before.profile || catalog !== before.catalog) return undefined;
      return isTouchDue(found.record, head.settings.session_idle, clock.wall()) ? undefined : key;
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
      // What never comes again must not cost a second reading.
      const isNew = !passedOnce.has(asks);
      if (isNew) passedOnce.set(asks, true);
      const head = headFor(handled);
      if (head !== undefined && !isNew) await note(head, handled, undefined);
    },
  };
}

/** What is kept of a head (bytes). */
const bytesOfHead = ({ project = '', endpoint, layouts }: KnownHead): number =>
  layouts.reduce(
    (sum, { gaps }) => sum + LAYOUT_BYTES.own + gaps.ids.length * LAYOUT_BYTES.gap,
    KNOWN_OVERHEAD + 2 * (project.length + endpoint.length),
  );

/** What was read of it one by one: properties, restrictions and their values, headers. */
function piecesOf({ request }: UnderstoodRequest): number {
  if (request === undefined) return 0;
  const { properties, headers } = request;
  const pieces = properties.length + headers.length;
  if (request.method === 'Execute') return pieces + request.parameters.length;
  return request.restrictions.reduce((sum, { values }) => sum + 1 + values.length, pieces);
}

/** What is kept of a request that is no text of its body (bytes): the query of its path and named headers stand in it several times. */
export function besideBody(asked: UnderstoodRequest): number {
  const ofHead = JSON.stringify([asked.parts?.query, asked.namedHeaders, asked.forwarded]);
  return piecesOf(asked) * PIECE + ofHead.length * BODIES.times;
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

/**
 * What was understood of a request that was recognised, in its own session: the id stands in it in the same places as
 * in the one that it was learnt from, and nowhere else ({@link provenGaps}).
 */
export function inSession(asked: UnderstoodRequest, id: string | undefined): UnderstoodRequest {
  const { request, session, sessionIds } = asked;
  if (session.kind !== 'in' || id === undefined || request === undefined) return asked;
  const { id: before } = session;
  if (id === before) return asked;
  const renamed = (ids: readonly string[]) => ids.map((one) => (one === before ? id : one));
  const own = { ...session, id };
  return {
    ...asked,
    request: { ...request, session: own, sessionIds: renamed(request.sessionIds) },
    session: own,
    sessionIds: sessionIds === 'unknown' ? sessionIds : renamed(sessionIds),
  };
}

/**
 * A place in a body whose content clients make anew for every request, and on which its answer does not depend: the id of
 * its session, and the values of properties of the ignore-list. A place below 0 counts from the end of the body, so that
 * one layout serves statements of all lengths.
 */
interface Gap {
  readonly at: number;
  /** In bytes: what is longer stands in another layout. */
  readonly length: number;
}

interface Gaps {
  readonly session: Gap | undefined;
  readonly ids: readonly Gap[];
}

/** The gaps that bodies of one client program have in common. */
interface Layout {
  readonly gaps: Gaps;
  /** Tells it apart from all others, those of other heads too. */
  readonly id: number;
  /** Grows from each use of a layout to the next. */
  used: number;
}

/** Those with most gaps first: one with fewer fits more bodies, and is seldom theirs. */
export type Layouts = Layout[];

/** Statements come with properties and without, in a session and without, and with ids of several lengths. */
const MAX_LAYOUTS = 16;
/** One that seems to have more gaps is not recognised: no client writes so many ignored properties. */
const MAX_GAPS = 32;
/** What a layout takes, and each of its gaps (bytes, measured, rounded up). */
const LAYOUT_BYTES = { own: 200, gap: 64 } as const;
/** What all known bodies may take together (bytes), and each: so many times its text, and as much beside it. */
const BODIES = { maxBytes: 32 * 1024 * 1024, times: 4, overhead: 4_000 } as const;
/** The id of a layout, in front of a body. */
const PREFIX = 6;

/** What is known of bodies, byte by byte but for their gaps. @param bytesOf what a value takes beside texts of the body */
export function createKnownBodies<T extends object>(bytesOf: (value: T) => number = () => 0) {
  const bodies = new LRUCache<string, T>({
    maxSize: BODIES.maxBytes,
    sizeCalculation: (value, name) => name.length * BODIES.times + BODIES.overhead + bytesOf(value),
  });
  const scratch = Buffer.alloc(PREFIX + MAX_BODY);
  let lastId = 0;
  let uses = 0;

  /** The bytes as latin1, with zeros in the gaps; undefined where something stands in a gap that may not stand there. */
  function nameOf(body: Buffer, { id, gaps: { session, ids } }: Layout): string | undefined {
    const { length } = body;
    scratch.writeUIntLE(id, 0, PREFIX);
    scratch.set(body, PREFIX);
    if (session !== undefined && !clear(session, length, IN_SESSION_GAP)) return undefined;
    for (const gap of ids) if (!clear(gap, length, IN_IGNORED_GAP)) return undefined;
    return scratch.toString('latin1', 0, PREFIX + length);
  }

  /** False where another letter stands in the gap, or the body is too short. */
  function clear(gap: Gap, length: number, letters: Uint8Array): boolean {
    const start = startOf(gap, length);
    if (start < 0 || start + gap.length > length) return false;
    const end = PREFIX + start + gap.length;
    for (let i = PREFIX + start; i < end; i += 1) {
      if (letters[scratch[i] ?? 0] !== 1) return false;
      scratch[i] = 0;
    }
    return true;
  }

  return {
    /** @param layouts those under which it may have been kept */
    find(layouts: Layouts, body: Buffer) {
      for (const layout of layouts) {
        const name = nameOf(body, layout);
        const value = name === undefined ? undefined : bodies.get(name);
        if (value === undefined) continue;
        layout.used = uses += 1;
        const { session } = layout.gaps;
        return { layout, value, session: session && textIn(body, session) };
      }
      return undefined;
    },
    /** @param layouts gets that of the body, where it is new. @returns whether it was */
    keep(layouts: Layouts, gaps: Gaps, body: Buffer, value: T): boolean {
      const before = lastId;
      let layout = layouts.find((one) => isDeepStrictEqual(one.gaps, gaps));
      if (layout === undefined) {
        lastId += 1;
        layout = { gaps, id: lastId, used: 0 };
        if (layouts.length === MAX_LAYOUTS) {
          const unused = layouts.reduce((one, other) => (other.used < one.used ? other : one));
          layouts.splice(layouts.indexOf(unused), 1);
        }
        layouts.push(layout);
        layouts.sort((one, other) => other.gaps.ids.length - one.gaps.ids.length);
      }
      layout.used = uses += 1;
      const name = nameOf(body, layout);
      if (name !== undefined) bodies.set(name, value);
      return lastId > before;
    },
  };
}

export const startOf = ({ at }: Gap, length: number): number => (at < 0 ? length + at : at);

export function textIn(body: Buffer, gap: Gap): string {
  const from = startOf(gap, body.length);
  return body.toString('latin1', from, from + gap.length);
}

/**
 * What may stand in a gap: letters that mean nothing to XML. For ignored properties only those of numbers and GUIDs, so that
 * no word can stand there that an engine looks for in the whole body (`DbpropMsmdMDXCompatibility`). What looks like a gap
 * may stand anywhere: see {@link provenGaps}.
 */
const SESSION_GAP = /SessionId=["']([\w{}-]{1,128})["']/y;
const IGNORED_GAP = new RegExp(
  `>([0-9A-Fa-f{}-]{1,128})(?=</(?:[\\w.-]+:)?(?:${[...IGNORED_PROPERTIES].join('|')})>)`,
  'g',
);
const IN_SESSION_GAP = lettersOf(/[\w{}-]/);
const IN_IGNORED_GAP = lettersOf(/[0-9A-Fa-f{}-]/);

/** For each byte whether it is one of the letters. */
function lettersOf(letters: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) =>
    letters.test(String.fromCharCode(byte)) ? 1 : 0,
  );
}

/**
 * The gaps that a body seems to have. The statement, the longest part of it, stands in front of the properties and is not
 * searched. Undefined for what may name two sessions, has too many gaps, or is too long to be looked through in one turn.
 */
export function gapsIn(body: Buffer): Gaps | undefined {
  if (body.length > MAX_BODY) return undefined;
  const text = body.toString('latin1');
  const named = text.indexOf('SessionId=');
  SESSION_GAP.lastIndex = Math.max(0, named);
  const [whole = '', id] = (named < 0 ? undefined : SESSION_GAP.exec(text)) ?? [];
  const behind = Math.max(0, named) + whole.length;
  if (id !== undefined && text.includes('SessionId=', behind)) return undefined;
  const session = id === undefined ? undefined : { at: behind - 1 - id.length, length: id.length };
  const properties = text.indexOf('PropertyList', behind);
  const tail = properties < 0 ? '' : text.slice(properties);
  const ids = tail
    .matchAll(IGNORED_GAP)
    .map(({ index, 1: id = '' }) => ({ at: index + 1 - tail.length, length: id.length }))
    .take(MAX_GAPS + 1)
    .toArray();
  return ids.length > MAX_GAPS ? undefined : { session, ids };
}

/** In these every byte of ASCII is its letter, wherever it stands. */
export const ASCII_BASED: ReadonlySet<string> = new Set(['utf-8', 'us-ascii', 'iso-8859-1']);

/**
 * The gaps of a body, when it is proven that every body which differs in them alone asks the same in the session that
 * stands in its gap. The proof is a second full reading with other letters in all gaps. Nothing that reads requests tells
 * letters apart that may stand in a gap, so what holds for one pair of values holds for all of that length. What only looks like a gap (in a
 * statement, a comment, an attribute of another name) shows in the second reading.
 * @param asked what was understood of the body
 * @param read the full reading, under the same head; where it refuses the other letters, nothing is proven
 */
export async function provenGaps(
  body: Buffer,
  asked: UnderstoodRequest,
  read: (body: Buffer) => Promise<UnderstoodRequest>,
): Promise<Gaps | undefined> {
  const gaps = gapsIn(body);
  const isRead = asked.encoding !== undefined && ASCII_BASED.has(asked.encoding.name);
  if (gaps === undefined || !isRead) return undefined;
  const { session } = gaps;
  const other = Buffer.from(body);
  for (const gap of session === undefined ? gaps.ids : [session, ...gaps.ids]) {
    const changed = textIn(body, gap).replaceAll(/./g, (letter) => (letter === '1' ? '2' : '1'));
    other.write(changed, startOf(gap, body.length), 'latin1');
  }
  const otherAsked = await read(other).catch((error: unknown) => {
    if (error instanceof GatewayError) return undefined;
    throw error;
  });
  if (otherAsked === undefined) return undefined;
  const inGap = (of: Buffer) => session && textIn(of, session);
  const isInGap = sessionIdOf(asked) === inGap(body) && sessionIdOf(otherAsked) === inGap(other);
  return isInGap && asksTheSame(asked, otherAsked) ? gaps : undefined;
}

function sessionIdOf({ session }: UnderstoodRequest): string | undefined {
  return session.kind === 'in' ? session.id : undefined;
}

/** Whether two requests ask the same but for the id of their session and the values of ignored properties. */
export function asksTheSame(one: UnderstoodRequest, other: UnderstoodRequest): boolean {
  const inOther = inSession(one, sessionIdOf(other));
  return isDeepStrictEqual(withoutIgnoredValues(inOther), withoutIgnoredValues(other));
}

function withoutIgnoredValues({ request, ...asked }: UnderstoodRequest): unknown {
  const properties = keyedProperties(request?.properties ?? []);
  return { ...asked, request: { ...request, properties } };
}

/** What all remembered heads may take (bytes), those of one user a quarter of it. */
const MAX_HEADS = 16 * 1024 * 1024;
/** What is kept of them with a connection, to be compared, and what of one head (bytes); there may be thousands of connections. */
const MAX_OF_CONNECTION = 16 * 1024;
const MAX_KEPT = 8 * 1024;
/** What a text takes beside its characters, a head that a connection keeps and one that is remembered beside their texts (bytes, rounded up). */
const TEXT_OVERHEAD = 32;
const HEAD_OVERHEAD = 256;
const KNOWN_OVERHEAD = 1_000;

/** What was noted under a head; undefined once it is forgotten. */
interface Noted<T> {
  value: T | undefined;
}

/** A head as it came. It holds credentials, and is dropped with its connection. */
interface SeenHead<T> extends Pick<IncomingMessage, 'url' | 'httpVersion' | 'rawHeaders'> {
  readonly noted: Noted<T>;
  /** Bytes. */
  readonly size: number;
}

/**
 * Recognises heads of requests. On the connection where a head was seen it is compared, text by text, which is quicker than a
 * digest; on another one it is found by a digest under the secret, so that no credentials outlive their connection here.
 * @param bytesOf what a value takes
 */
export function createKnownHeads<T extends object>(secret: string, bytesOf: (value: T) => number) {
  /** By their credentials: behind a proxy those of a connection are of many users. Last is that whose head was kept last. */
  const connections = new WeakMap<Socket, Map<string, readonly SeenHead<T>[]>>();
  const heads = createOwnedTable<Noted<T>>(
    MAX_HEADS,
    (_name, { value }) => (value === undefined ? 0 : bytesOf(value)),
    (noted) => (noted.value = undefined),
  );

  function digestOf({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
    const parts = [secret, method, url, httpVersion];
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? '';
      parts.push(name, isWithoutEffect(name) ? '' : rawHeaders[i + 1]);
    }
    return hash('sha256', JSON.stringify(parts), 'base64url');
  }

  function see(request: IncomingMessage, noted: Noted<T>): void {
    const { url = '', httpVersion, rawHeaders, socket } = request;
    const size = url.length + sizeOf(rawHeaders);
    if (size > MAX_KEPT) return;
    const seen = connections.get(socket) ?? new Map<string, readonly SeenHead<T>[]>();
    connections.set(socket, seen);
    const login = credentialsIn(rawHeaders);
    const others = (seen.get(login) ?? []).filter((one) => !isSameHead(one, request));
    seen.delete(login);
    seen.set(login, [{ url, httpVersion, rawHeaders, noted, size }, ...others]);
    let room = MAX_OF_CONNECTION;
    for (const [of, heads] of [...seen].toReversed()) {
      const kept = heads.filter((one) => (room -= one.size) >= 0);
      if (kept.length === 0) seen.delete(of);
      // What `filter` makes has room for more.
      else if (kept.length < heads.length) seen.set(of, kept.slice());
    }
  }

  return {
    /** What was noted under this head: same method, target, version and headers in the same order. */
    of(request: IncomingMessage): T | undefined {
      if (request.method !== 'POST') return undefined;
      const login = credentialsIn(request.rawHeaders);
      if (login === '') return undefined;
      const seen = connections.get(request.socket)?.get(login);
      for (const one of seen ?? NO_HEADS) {
        if (one.noted.value !== undefined && isSameHead(one, request)) return one.noted.value;
      }
      const noted = heads.get(digestOf(request));
      if (noted !== undefined) see(request, noted);
      return noted?.value;
    },
    /** In the place of what was noted under it before. */
    note(request: IncomingMessage, user: string, value: T): void {
      if (request.method !== 'POST' || credentialsIn(request.rawHeaders) === '') return;
      const noted = { value };
      heads.set(digestOf(request), user, noted);
      see(request, noted);
    },
  };
}

const NO_HEADS: readonly never[] = [];

const sizeOf = (rawHeaders: readonly string[]) =>
  rawHeaders.reduce((sum, text) => sum + text.length + TEXT_OVERHEAD, HEAD_OVERHEAD);

const credentialsIn = (rawHeaders: readonly string[]) =>
  rawHeaders[placeOf('authorization', rawHeaders)] ?? '';

function isSameHead<T>(one: SeenHead<T>, request: IncomingMessage): boolean {
  const { rawHeaders: headers } = one;
  const { rawHeaders } = request;
  if (headers.length !== rawHeaders.length) return false;
  if (one.url !== request.url || one.httpVersion !== request.httpVersion) return false;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? '';
    if (name !== rawHeaders[i]) return false;
    if (headers[i + 1] !== rawHeaders[i + 1] && !isWithoutEffect(name)) return false;
  }
  return true;
}
