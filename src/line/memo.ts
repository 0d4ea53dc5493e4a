import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Authenticator } from '../auth/authenticator.ts';
import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { KnownKey } from '../cache/query.ts';
import type { RequestReservation } from '../common/body-account.ts';
import { isWithoutEffect } from '../common/header-names.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { Principal } from '../common/principal.ts';
import type { SessionRecord } from '../freshness/freshness-store.ts';
import type { PageOrigins } from '../http/page-origins.ts';
import type { XmlaAddress } from '../http/xmla-path.ts';
import { MAX_STATEMENT } from '../xmla/mdx/statement-policy.ts';
import { circumstancesOf } from './circumstances.ts';
import {
  placeOf,
  type Places,
  placesIn,
  wishesOf,
  type Wishes,
  type XmlaClient,
} from './client.ts';
import { addLayout, LAYOUT_BYTES, type Layouts } from './layouts.ts';
import type { SharedQuery } from './query.ts';
import { createReadings, type Read } from './readings.ts';
import {
  LONG,
  createOwnTurns,
  type Destination,
  inSession,
  type OwnTurn,
  type UnderstoodRequest,
} from './understand.ts';

export interface Asker extends Pick<Destination, 'endpoint' | 'settings' | 'user'> {
  readonly engine: Pick<Destination['engine'], 'isAway'>;
  readonly project: string | undefined;
  readonly login: RememberedLogin;
}

/** Roles and session for which an entry may answer. */
export interface Claim {
  readonly roles: string | undefined;
  readonly session: SessionRecord | undefined;
}

interface Answer extends Claim, Pick<SharedQuery, 'staleIfError'> {
  readonly key: KnownKey;
}

export interface KnownHead extends Asker {
  /** Replaced when its credentials were checked again. */
  login: RememberedLogin;
  readonly wishes: Wishes;
  readonly places: Places;
  readonly layouts: Layouts;
  /** Under what its queries were answered, by the ids of their readings. */
  readonly answers: Map<symbol, Answer>;
}

export interface Known extends Pick<Read, 'recognised'> {
  readonly head: Asker;
  readonly sessionId: string | undefined;
  /** May name another session. */
  readonly asked: UnderstoodRequest;
  readonly answer: Answer | undefined;
}

/** Bytes that reading takes for each byte of a long body: tokens, also of a long formula. */
const READING_BYTES = 16;

export interface Arrived {
  readonly client: XmlaClient;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly body: Buffer;
  readonly room: Pick<RequestReservation, 'grow' | 'shrinkTo'>;
  readonly known: Known | undefined;
  readonly ofPage: boolean;
}

export interface Handled extends Read {
  readonly request: IncomingMessage;
  readonly address: XmlaAddress;
  readonly principal: Principal;
  readonly destination: Pick<Asker, 'endpoint' | 'engine' | 'settings' | 'user'>;
}

export type Memo = ReturnType<typeof createMemo>;

/**
 * Remembers, byte by byte but for ids that clients make anew ({@link Layout}), what was understood
 * of bodies, for all users, and how the requests of a head were answered, for its user. Decides
 * nothing.
 */
export function createMemo(
  parts: {
    readonly authenticator: Pick<Authenticator, 'remembered'>;
    readonly pageOrigins: PageOrigins;
    /** Keys digests of heads. */
    readonly secret: string;
  },
  ownTurn: OwnTurn = createOwnTurns(),
) {
  const heads = createKnownHeads(parts.secret, bytesOfHead);
  const readings = createReadings();

  /** Undefined where nothing may be noted under the head. */
  function headFor({ request, address, destination, principal }: Handled): KnownHead | undefined {
    const { headers, method } = request;
    // The body that is recognised is the one that came.
    if (method !== 'POST' || headers['content-encoding'] !== undefined) return undefined;
    const login = parts.authenticator.remembered(headers.authorization ?? '');
    if (login?.principal.name !== principal.name) return undefined;
    const known = heads.of(request);
    if (known !== undefined && known.login.principal.name === principal.name) {
      known.login = login;
      return known;
    }
    // Neither the query, which may be long, nor all of the destination, which may hold credentials.
    const { endpoint, engine, settings, user } = destination;
    const wishes = wishesOf(headers, parts.pageOrigins);
    const places = placesIn(request.rawHeaders);
    const asker = { project: address.project, login, endpoint, engine, settings, user };
    return { ...asker, wishes, places, layouts: [], answers: new Map() };
  }

  return {
    headOf: (request: IncomingMessage): KnownHead | undefined => heads.of(request),
    recognise(head: KnownHead | undefined, body: Buffer): Known | undefined {
      const recognised = head && readings.find(head.layouts, body);
      if (head === undefined || recognised === undefined) return undefined;
      const { reading, sessionId } = recognised;
      const answer = head.answers.get(reading.id);
      return { head, sessionId, asked: reading.asked, answer, recognised };
    },
    async read(arrived: Arrived, destination: Destination): Promise<Read> {
      const { client, principal, body, room, known } = arrived;
      if (known !== undefined) {
        const { asked, sessionId, recognised } = known;
        return { asked: inSession(asked, sessionId), recognised };
      }
      const { request, signal } = client;
      const { owner } = principal;
      const turnOfClient: OwnTurn = async (bytes) => {
        await ownTurn(bytes, owner);
        signal.throwIfAborted();
      };
      const circumstances = circumstancesOf(request.headers, destination);
      const read = () => readings.read({ body, circumstances, owner, ownTurn: turnOfClient });
      if (body.length <= LONG) return read();
      await room.grow(READING_BYTES * Math.min(body.length, MAX_STATEMENT), signal);
      return read().finally(() => room.shrinkTo(body.length));
    },
    /** Notes what was recognised; and under what it was answered, where the cache answered it. */
    remember(handled: Handled, answer?: Answer & Pick<SharedQuery, 'share'>): void {
      // A user who has no roles yet may get some.
      if (answer?.share === 'roles' && answer.roles === undefined) return;
      const { recognised, request, principal } = handled;
      const head = recognised && headFor(handled);
      if (recognised === undefined || head === undefined) return;
      const { answers } = head;
      const { id } = recognised.reading;
      const isLarger = addLayout(head.layouts, recognised.layout) || !answers.has(id);
      if (answer !== undefined) answers.set(id, answer);
      const [oldest] = answers.size > MOST_ANSWERS ? answers.keys() : [];
      if (oldest !== undefined) answers.delete(oldest);
      if (isLarger) heads.note(request, principal.owner, head);
    },
  };
}

const bytesOfHead = ({ project = '', endpoint, layouts, answers }: KnownHead): number =>
  layouts.reduce(
    (sum, { gaps }) => sum + LAYOUT_BYTES.own + gaps.ids.length * LAYOUT_BYTES.gap,
    KNOWN_OVERHEAD + 2 * (project.length + endpoint.length) + answers.size * ANSWER_BYTES,
  );

/** Bytes of all heads; a quarter of them at most are of one user. */
const MAX_HEAD_BYTES = 16 * 1024 * 1024;
/** Bytes of heads that one connection keeps, and of one head: there may be thousands of them. */
const MAX_OF_CONNECTION = 16 * 1024;
const MAX_KEPT = 8 * 1024;
/** Bytes beside texts (rounded up): of a text, of a head on a connection, of a noted one. */
const TEXT_OVERHEAD = 32;
const HEAD_OVERHEAD = 256;
const KNOWN_OVERHEAD = 1_000;
/** Answers of one head, and bytes of each. */
const MOST_ANSWERS = 1_024;
const ANSWER_BYTES = 1_000;

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
