import { hash } from 'node:crypto';
import { createOwnedTable } from '../common/owned-table.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import type { Circumstances } from './circumstances.ts';
import {
  type Gap,
  type Gaps,
  gapsIn,
  hasGaps,
  IN_IGNORED_GAP,
  IN_SESSION_GAP,
  isProof,
  lettersOfProof,
  MAX_BODY,
  NO_GAPS,
  startOf,
  textIn,
  withLetters,
} from './gaps.ts';
import { inSession, type OwnTurn, understandInTurn, type UnderstoodRequest } from './understand.ts';

/** Where bodies have their gaps, under which circumstances. */
export interface Layout {
  readonly gaps: Gaps;
  /** Digest of both. */
  readonly prefix: Buffer;
  used: number;
}

/** Most gaps first: a layout with fewer fits more bodies, and is seldom theirs. */
export type Layouts = Layout[];

/** What was understood of all bodies that differ in their gaps alone. */
export interface Reading {
  readonly id: number;
  readonly asked: UnderstoodRequest;
  /** Bytes that it takes. */
  readonly bytes: number;
  /** Fill the gaps in the second reading; none once that has proven them. */
  readonly letters: readonly string[];
}

/** A reading that is proven, for one body. */
export interface Recognised {
  readonly layout: Layout;
  readonly reading: Reading;
  readonly sessionId: string | undefined;
}

export interface Read {
  readonly asked: UnderstoodRequest;
  readonly recognised?: Recognised | undefined;
}

/** Bodies of one client differ in properties, session and lengths of ids. */
const MAX_LAYOUTS = 16;
export const LAYOUT_BYTES = { own: 250, gap: 64 } as const;
/** Bytes of all readings; each takes its name, `times` its texts, and `overhead`. */
const KEPT = { maxBytes: 32 * 1024 * 1024, times: 4, overhead: 4_000 } as const;
/** Bytes of a property, header, restriction or value beside its text (20 to 55 measured). */
const PIECE_BYTES = 60;
/** Requests of more pieces are not kept: no client sends any. */
const MOST_PIECES = 500;

const PREFIX = 32;
/** Longer bodies (bytes) are named by a digest, which holds no text. */
const MOST_TEXT = 64 * 1024;
const scratch = Buffer.alloc(PREFIX + MOST_TEXT);

export const layoutOf = (circumstances: Circumstances, gaps: Gaps): Layout => ({
  gaps,
  prefix: hash('sha256', JSON.stringify([circumstances, gaps]), 'buffer'),
  used: 0,
});

/**
 * Names all bodies that differ in these gaps alone: Latin-1 with zeros in the gaps, or the SHA-256
 * of that. Undefined where a gap holds what it may not.
 */
export function nameOf(body: Buffer, { prefix, gaps: { session, ids } }: Layout) {
  const end = PREFIX + body.length;
  const isText = body.length <= MOST_TEXT;
  const whole = isText ? scratch : Buffer.allocUnsafe(end);
  whole.set(prefix, 0);
  whole.set(body, PREFIX);
  if (session !== undefined && !clear(whole, end, session, IN_SESSION_GAP)) return undefined;
  for (const gap of ids) if (!clear(whole, end, gap, IN_IGNORED_GAP)) return undefined;
  return isText ? whole.toString('latin1', 0, end) : hash('sha256', whole, 'base64url');
}

/** Returns false where another letter stands in the gap, or the body is too short. */
function clear(whole: Buffer, end: number, gap: Gap, letters: Uint8Array): boolean {
  const start = PREFIX + startOf(gap, end - PREFIX);
  if (start < PREFIX || start + gap.length > end) return false;
  for (let i = start; i < start + gap.length; i += 1) {
    if (letters[whole[i] ?? 0] !== 1) return false;
    whole[i] = 0;
  }
  return true;
}

function piecesOf({ request }: UnderstoodRequest): number {
  if (request === undefined) return 0;
  const { properties, headers } = request;
  const pieces = properties.length + headers.length;
  if (request.method === 'Execute') return pieces + request.parameters.length;
  return request.restrictions.reduce((sum, { values }) => sum + 1 + values.length, pieces);
}

/** Bytes kept beside the name. Texts, query of the path and named headers are there several times. */
export function besideName(asked: UnderstoodRequest): number {
  const ofHead = JSON.stringify([asked.parts?.query, asked.namedHeaders, asked.forwarded]);
  const texts = asked.parts?.texts ?? [];
  const length = texts.reduce((sum, text = '') => sum + text.length, ofHead.length);
  return piecesOf(asked) * PIECE_BYTES + length * KEPT.times;
}

interface Asking {
  readonly body: Buffer;
  readonly circumstances: Circumstances;
  /** User for whom the bytes of what is kept count. */
  readonly owner: string;
  readonly ownTurn: OwnTurn;
}

export type Readings = ReturnType<typeof createReadings>;

/**
 * Keeps what was understood of bodies, for all users. A body is read in full when it comes first.
 * When it comes again, its second reading proves its gaps; then it is never read any more. What is
 * kept names no session: each request takes the one in its gap.
 */
export function createReadings() {
  const readers: TagReaders = [];
  const table = createOwnedTable<Reading | 'unprovable'>(KEPT.maxBytes, (name, kept) =>
    kept === 'unprovable' ? name.length + KEPT.overhead : kept.bytes,
  );
  const underWay = new Map<string, Promise<unknown>>();
  let lastId = 0;
  let uses = 0;

  function recognised(body: Buffer, layout: Layout, reading: Reading): Recognised {
    layout.used = uses += 1;
    const { session } = layout.gaps;
    return { layout, reading, sessionId: session && textIn(body, session) };
  }

  /** Undefined for a long body: it may fit several layouts, and takes a digest for each. */
  function find(layouts: Layouts, body: Buffer): Recognised | undefined {
    if (body.length > MOST_TEXT) return undefined;
    for (const layout of layouts) {
      const name = nameOf(body, layout);
      const kept = name === undefined ? undefined : table.get(name);
      if (kept === undefined || kept === 'unprovable' || kept.letters.length > 0) continue;
      return recognised(body, layout, kept);
    }
    return undefined;
  }

  /** Returns whether it is new there. */
  function addLayout(layouts: Layouts, layout: Layout): boolean {
    if (layouts.some(({ prefix }) => prefix.equals(layout.prefix))) return false;
    if (layouts.length === MAX_LAYOUTS) {
      const unused = layouts.reduce((one, other) => (other.used < one.used ? other : one));
      layouts.splice(layouts.indexOf(unused), 1);
    }
    layouts.push(layout);
    layouts.sort((one, other) => other.gaps.ids.length - one.gaps.ids.length);
    return true;
  }

  /** @throws as {@link understandInTurn} and `ownTurn` do */
  async function read(asking: Asking): Promise<Read> {
    const { body, circumstances, ownTurn } = asking;
    // A name takes a few milliseconds then, beside what the reading takes.
    if (body.length > MOST_TEXT) await ownTurn(body.length);
    if (body.length <= MAX_BODY) return readAs(asking, gapsIn(body) ?? NO_GAPS);
    return { asked: await understandInTurn(circumstances, body, ownTurn, readers) };
  }

  async function readAs(asking: Asking, gaps: Gaps): Promise<Read> {
    const { body, circumstances, ownTurn } = asking;
    const layout = layoutOf(circumstances, gaps);
    // Its gaps were found in it.
    const name = nameOf(body, layout) as string;
    let isInTurn = false;
    for (;;) {
      const kept = table.get(name);
      if (kept === 'unprovable') return readAs(asking, NO_GAPS);
      if (kept?.letters.length === 0) {
        const found = recognised(body, layout, kept);
        const asked = inSession(kept.asked, found.sessionId);
        return body.length > MOST_TEXT ? { asked } : { asked, recognised: found };
      }
      const other = underWay.get(name);
      if (!isInTurn) {
        await ownTurn(body.length);
        isInTurn = true;
      } else if (other !== undefined) {
        await Promise.allSettled([other]);
      } else {
        const reading = kept ? prove(asking, name, gaps, kept) : readFirst(asking, name, gaps);
        underWay.set(name, reading);
        const asked = await reading.finally(() => underWay.delete(name));
        if (asked !== undefined) return { asked };
      }
    }
  }

  async function readFirst(
    { body, circumstances, owner, ownTurn }: Asking,
    name: string,
    gaps: Gaps,
  ) {
    const asked = await understandInTurn(circumstances, body, ownTurn, readers);
    const letters = lettersOfProof(body, gaps, asked);
    if (letters === undefined && hasGaps(gaps)) table.set(name, owner, 'unprovable');
    if (letters === undefined || piecesOf(asked) > MOST_PIECES) return asked;
    const bytes = name.length + KEPT.overhead + besideName(asked);
    lastId += 1;
    table.set(name, owner, { id: lastId, asked, bytes, letters });
    return asked;
  }

  async function prove(
    { body, circumstances, owner, ownTurn }: Asking,
    name: string,
    gaps: Gaps,
    once: Reading,
  ) {
    const other = withLetters(body, gaps, once.letters);
    const asked = await understandInTurn(circumstances, other, ownTurn, readers);
    const isProven = isProof(gaps, once.asked, asked, other);
    table.set(name, owner, isProven ? { ...once, asked, letters: [] } : 'unprovable');
  }

  return { find, addLayout, read };
}
