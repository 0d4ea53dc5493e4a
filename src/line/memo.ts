import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Authenticator } from '../auth/authenticator.ts';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { KnownKey } from '../cache/query.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Emit } from '../common/events.ts';
import { isWithoutEffect } from '../common/header-names.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { Principal } from '../common/principal.ts';
import type { CacheShare } from '../cache/config.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { PageOrigins } from '../http/page-origins.ts';
import type { XmlaAddress } from '../http/xmla-path.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { type AskedOf, circumstancesOf } from './circumstances.ts';
import {
  placeOf,
  type Places,
  placesIn,
  wishesOf,
  type Wishes,
  type XmlaClient,
} from './client.ts';
import {
  type Gap,
  type Gaps,
  IN_IGNORED_GAP,
  IN_SESSION_GAP,
  MAX_BODY,
  provenGaps,
  startOf,
  textIn,
} from './gaps.ts';
import type { KnownSession } from './session-step.ts';
import {
  understand,
  createOwnTurns,
  inSession,
  type Destination,
  type OwnTurn,
  type UnderstoodRequest,
} from './understand.ts';

interface Asker extends Pick<Destination, 'endpoint' | 'settings' | 'user'> {
  readonly project: string | undefined;
  readonly login: RememberedLogin;
}

export interface KnownHead extends Asker {
  /** Replaced when its credentials were checked again. */
  login: RememberedLogin;
  readonly wishes: Wishes;
  readonly places: Places;
  readonly layouts: Layouts;
}

interface KnownRequest {
  /** Names the session of the request that was learnt. */
  readonly asked: UnderstoodRequest;
  readonly answer:
    | {
        readonly key: KnownKey;
        readonly roles: string | undefined;
        readonly session: SessionRecord | undefined;
      }
    | undefined;
}

export interface Known extends KnownRequest {
  readonly head: Asker;
  readonly sessionId: string | undefined;
}

export interface Arrived {
  readonly client: XmlaClient;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly body: Buffer;
  readonly known: Known | undefined;
  readonly ofPage: boolean;
}

export interface Handled {
  readonly request: IncomingMessage;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly destination: AskedOf & Pick<Destination, 'endpoint' | 'settings' | 'user'>;
  readonly body: Buffer;
  readonly asked: UnderstoodRequest;
}

/** Bytes of a property, header, restriction or value beside its text (20 to 55 measured). */
const PIECE_BYTES = 60;
/** Requests of more pieces are not recognised: no client sends any. */
const MOST_PIECES = 500;
/** Learning a body costs about as much as reading it so often. */
const READINGS = 3;
/** Statements that passed once. Bytes, with those of each beside its text. */
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
 * Remembers what was understood of requests, byte by byte but for ids that clients make anew
 * ({@link Layout}), so that an equal one need not be read. Decides nothing.
 */
export function createMemo(parts: MemoParts, ownTurn: OwnTurn = createOwnTurns()) {
  const readers: TagReaders = [];
  const heads = createKnownHeads(parts.secret, bytesOfHead);
  const requests = createKnownBodies(({ asked }: KnownRequest) => besideBody(asked));
  const passedOnce = new LRUCache<string, true>(PASSED_ONCE);

  /** Undefined where nothing may be noted under the head, and on its first request. */
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
      if (!room.grow(body.length)) return;
      await ownTurn(READINGS * body.length, principal.owner);
      const before = requests.find(head.layouts, body);
      const read = (other: Buffer) =>
        understand(circumstancesOf(request.headers, destination), other, () => undefined, readers);
      const gaps = before ? before.layout.gaps : await provenGaps(body, asked, read);
      if (gaps === undefined) return;
      const value = { asked: before?.value.asked ?? asked, answer };
      if (requests.keep(head.layouts, gaps, body, value))
        heads.note(request, principal.owner, head);
    } catch (error) {
      parts.emit({ type: 'internal-error', id: parts.newId(), error });
    } finally {
      room.release();
    }
  }

  return {
    headOf: (request: IncomingMessage): KnownHead | undefined => heads.of(request),
    recognise(head: KnownHead | undefined, body: Buffer): Known | undefined {
      if (head === undefined || body.length > MAX_BODY) return undefined;
      const found = requests.find(head.layouts, body);
      if (found === undefined) return undefined;
      const { asked, answer } = found.value;
      return { head, sessionId: found.session, asked, answer };
    },
    async read(arrived: Arrived, destination: Destination): Promise<UnderstoodRequest> {
      const { client, principal, body, known } = arrived;
      if (known !== undefined) return inSession(known.asked, known.sessionId);
      const { request, signal } = client;
      const turnOfClient: OwnTurn = async (bytes) => {
        await ownTurn(bytes, principal.owner);
        signal.throwIfAborted();
      };
      return understand(circumstancesOf(request.headers, destination), body, turnOfClient, readers);
    },
    /** Notes a query answered from the cache. Never rejects. */
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
    /** Notes a request that bypasses the cache, from its second time on. Never rejects. */
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

const bytesOfHead = ({ project = '', endpoint, layouts }: KnownHead): number =>
  layouts.reduce(
    (sum, { gaps }) => sum + LAYOUT_BYTES.own + gaps.ids.length * LAYOUT_BYTES.gap,
    KNOWN_OVERHEAD + 2 * (project.length + endpoint.length),
  );

function piecesOf({ request }: UnderstoodRequest): number {
  if (request === undefined) return 0;
  const { properties, headers } = request;
  const pieces = properties.length + headers.length;
  if (request.method === 'Execute') return pieces + request.parameters.length;
  return request.restrictions.reduce((sum, { values }) => sum + 1 + values.length, pieces);
}

/** Bytes kept beside the body: query of the path and named headers are there several times. */
export function besideBody(asked: UnderstoodRequest): number {
  const ofHead = JSON.stringify([asked.parts?.query, asked.namedHeaders, asked.forwarded]);
  return piecesOf(asked) * PIECE_BYTES + ofHead.length * BODIES.times;
}

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

/** Bytes of all heads; a quarter of them at most are of one user. */
const MAX_HEAD_BYTES = 16 * 1024 * 1024;
/** Bytes of heads that one connection keeps, and of one head: there may be thousands of them. */
const MAX_OF_CONNECTION = 16 * 1024;
const MAX_KEPT = 8 * 1024;
/** Bytes beside texts (rounded up): of a text, of a head on a connection, of a noted one. */
const TEXT_OVERHEAD = 32;
const HEAD_OVERHEAD = 256;
const KNOWN_OVERHEAD = 1_000;

interface Noted<T> {
  value: T | undefined;
}

/** A head as it came, with credentials; it is dropped with its connection. */
interface SeenHead<T> extends Pick<IncomingMessage, 'url' | 'httpVersion' | 'rawHeaders'> {
  readonly noted: Noted<T>;
  readonly size: number;
}

/**
 * Recognises heads. On the connection where a head was seen its texts are compared, which is
 * quicker than a digest. On others it is found by a digest under the secret, so that no credentials
 * outlive their connection.
 * @param bytesOf bytes of a value
 */
export function createKnownHeads<T extends object>(secret: string, bytesOf: (value: T) => number) {
  /** Keyed by credentials, the latest last: a proxy's connection carries those of many users. */
  const connections = new WeakMap<Socket, Map<string, readonly SeenHead<T>[]>>();
  const heads = createOwnedTable<Noted<T>>(
    MAX_HEAD_BYTES,
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
      // `filter` leaves room in the array.
      else if (kept.length < heads.length) seen.set(of, kept.slice());
    }
  }

  return {
    /** Finds the value of this head: same method, target, version and headers in order. */
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

interface Layout {
  readonly gaps: Gaps;
  readonly id: number;
  used: number;
}

/** Most gaps first: a layout with fewer fits more bodies, and is seldom theirs. */
export type Layouts = Layout[];

/** Bodies of one client differ in properties, session and lengths of ids. */
const MAX_LAYOUTS = 16;
const LAYOUT_BYTES = { own: 200, gap: 64 } as const;
/** Bytes of all bodies; each takes `times` its text, and `overhead`. */
const BODIES = { maxBytes: 32 * 1024 * 1024, times: 4, overhead: 4_000 } as const;
const PREFIX = 6;

/** Recognises bodies byte by byte but for their gaps. @param bytesOf bytes beside its texts */
export function createKnownBodies<T extends object>(bytesOf: (value: T) => number = () => 0) {
  const bodies = new LRUCache<string, T>({
    maxSize: BODIES.maxBytes,
    sizeCalculation: (value, name) => name.length * BODIES.times + BODIES.overhead + bytesOf(value),
  });
  const scratch = Buffer.alloc(PREFIX + MAX_BODY);
  let lastId = 0;
  let uses = 0;

  /** Latin-1 with zeros in the gaps; undefined where a gap holds what it may not. */
  function nameOf(body: Buffer, { id, gaps: { session, ids } }: Layout): string | undefined {
    const { length } = body;
    scratch.writeUIntLE(id, 0, PREFIX);
    scratch.set(body, PREFIX);
    if (session !== undefined && !clear(session, length, IN_SESSION_GAP)) return undefined;
    for (const gap of ids) if (!clear(gap, length, IN_IGNORED_GAP)) return undefined;
    return scratch.toString('latin1', 0, PREFIX + length);
  }

  /** Returns false where another letter stands in the gap, or the body is too short. */
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
