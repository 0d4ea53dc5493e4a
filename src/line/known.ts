import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { isWithoutEffect } from '../common/header-names.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import { placeOf } from './client.ts';
import {
  type Gap,
  type Gaps,
  IN_IGNORED_GAP,
  IN_SESSION_GAP,
  MAX_BODY,
  startOf,
  textIn,
} from './gaps.ts';

/** Bytes of all remembered heads; those of one user take a quarter at most. */
const MAX_HEAD_BYTES = 16 * 1024 * 1024;
/** Bytes of heads that one connection keeps, and of one head: there may be thousands of connections. */
const MAX_OF_CONNECTION = 16 * 1024;
const MAX_KEPT = 8 * 1024;
/** Bytes beside texts, rounded up: of a text, of a head that a connection keeps, of a remembered one. */
const TEXT_OVERHEAD = 32;
const HEAD_OVERHEAD = 256;
export const KNOWN_OVERHEAD = 1_000;

/** Value that was noted under a head; undefined once it is forgotten. */
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
 * @param bytesOf bytes of a value
 */
export function createKnownHeads<T extends object>(secret: string, bytesOf: (value: T) => number) {
  /** Heads by credentials, the latest last: a proxy's connection carries those of many users. */
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
      // The array that `filter` makes has room for more.
      else if (kept.length < heads.length) seen.set(of, kept.slice());
    }
  }

  return {
    /** Finds what was noted under this head: same method, target, version and headers in order. */
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
/** Bytes of a layout, and of each of its gaps (measured, rounded up). */
export const LAYOUT_BYTES = { own: 200, gap: 64 } as const;
/** Bytes of all known bodies; each takes `times` its text, and `overhead` beside it. */
export const BODIES = { maxBytes: 32 * 1024 * 1024, times: 4, overhead: 4_000 } as const;
/** The id of a layout, in front of a body. */
const PREFIX = 6;

/** Recognises bodies byte by byte but for their gaps. @param bytesOf bytes of a value beside texts of the body */
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
