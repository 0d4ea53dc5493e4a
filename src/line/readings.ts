import { createOwnedTable } from '../common/owned-table.ts';
import type { TagReaders } from '../xml/start-tag.ts';
import { MAX_STATEMENT } from '../xmla/mdx/statement-policy.ts';
import { IGNORED_PROPERTIES } from '../xmla/request/property-policy.ts';
import { MAX_BODY } from '../xmla/request/read-request.ts';
import type { Circumstances } from './circumstances.ts';
import {
  asksTheSame,
  type Gaps,
  gapsIn,
  hasGaps,
  lettersOfProof,
  NO_GAPS,
  sessionIdOf,
  textIn,
  withLetters,
} from './gaps.ts';
import { type Layout, layoutOf, type Layouts, MOST_TEXT, nameOf } from './layouts.ts';
import { inSession, type OwnTurn, understandInTurn, type UnderstoodRequest } from './understand.ts';

/** Keeps what was understood of all bodies that differ in their gaps alone. */
export interface Reading {
  readonly id: symbol;
  readonly asked: UnderstoodRequest;
  /** Bytes that it takes. */
  readonly bytes: number;
  /** Fill the gaps in the second reading; none once that has proven them. */
  readonly letters: readonly string[];
}

type Kept = Reading | 'unprovable';

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

/** Bytes of all readings; each takes its name, `times` its texts, and `overhead`. */
const KEPT = { maxBytes: 32 * 1024 * 1024, times: 4, overhead: 4_000 } as const;
/** Bytes of a property, attribute, function, value … beside its text (20 to 55 measured). */
const PIECE_BYTES = 60;
/** Requests of more pieces are not kept: no client sends any. */
const MOST_PIECES = 500;

function piecesOf({ request, functions }: UnderstoodRequest): number {
  if (request === undefined) return 0;
  const { properties, headers, forms } = request;
  const ofHeaders = headers.flatMap(({ attributes, content }) => [attributes, content]);
  const ofMethod =
    request.method === 'Execute'
      ? [request.parameters, request.commands]
      : [request.restrictions, ...request.restrictions.map(({ values }) => values)];
  const all = [properties, headers, forms, functions, ...ofHeaders, ...ofMethod];
  return all.reduce((sum, { length }) => sum + length, 0);
}

/** Texts of a request that are in no key as they are. */
function textsBesideKey({ request }: UnderstoodRequest): readonly string[] {
  if (request === undefined) return [];
  const ignored = request.properties.filter(({ name }) => IGNORED_PROPERTIES.has(name));
  const values = ignored.map(({ value }) => value);
  if (request.method === 'Discover') return values;
  const { commands, statement } = request;
  return [...values, ...commands, statement.length > MAX_STATEMENT ? statement : ''];
}

/** Bytes kept beside the name: most texts are there several times. */
export function besideName(asked: UnderstoodRequest): number {
  const ofHead = JSON.stringify([asked.parts?.query, asked.namedHeaders, asked.forwarded]);
  const texts = [...(asked.parts?.texts ?? []), ...textsBesideKey(asked)];
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

/**
 * Keeps what was understood of bodies, for all users. A body is read in full when it comes first.
 * When it comes again, its second reading proves its gaps; then it is never read any more. What is
 * kept names no session: each request takes the one in its gap.
 */
export function createReadings() {
  const readers: TagReaders = [];
  const table = createOwnedTable<Kept>(KEPT.maxBytes, (name, kept) =>
    kept === 'unprovable' ? name.length + KEPT.overhead : kept.bytes,
  );
  const underWay = new Map<string, Promise<unknown>>();
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
    for (let isInTurn = false; ; isInTurn = true) {
      const kept = table.get(name);
      if (kept === 'unprovable') return readAs(asking, NO_GAPS);
      if (kept?.letters.length === 0) {
        const found = recognised(body, layout, kept);
        const asked = inSession(kept.asked, found.sessionId);
        return body.length > MOST_TEXT ? { asked } : { asked, recognised: found };
      }
      const other = underWay.get(name);
      if (!isInTurn) await ownTurn(body.length);
      else if (other !== undefined) await Promise.allSettled([other]);
      else {
        const reading = kept ? prove(asking, gaps, name, kept) : readFirst(asking, gaps, name);
        underWay.set(name, reading);
        const asked = await reading.finally(() => underWay.delete(name));
        if (asked !== undefined) return { asked };
      }
    }
  }

  async function readFirst(asking: Asking, gaps: Gaps, name: string) {
    const { body, circumstances, owner, ownTurn } = asking;
    const asked = await understandInTurn(circumstances, body, ownTurn, readers);
    const letters = lettersOfProof(body, gaps, asked);
    if (letters === undefined && hasGaps(gaps)) table.set(name, owner, 'unprovable');
    if (letters === undefined || piecesOf(asked) > MOST_PIECES) return asked;
    const bytes = name.length + KEPT.overhead + besideName(asked);
    table.set(name, owner, { id: Symbol(), asked, bytes, letters });
    return asked;
  }

  async function prove(asking: Asking, gaps: Gaps, name: string, once: Reading) {
    const { body, circumstances, owner, ownTurn } = asking;
    const other = withLetters(body, gaps, once.letters);
    const asked = await understandInTurn(circumstances, other, ownTurn, readers);
    const own = gaps.session && textIn(other, gaps.session);
    const isProven = sessionIdOf(asked) === own && asksTheSame(once.asked, asked);
    table.set(name, owner, isProven ? { ...once, asked, letters: [] } : 'unprovable');
  }

  return { find, read };
}
