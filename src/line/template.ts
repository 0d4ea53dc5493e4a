import { isDeepStrictEqual } from 'node:util';
import { IGNORED_PROPERTIES } from '../xmla/request/property-policy.ts';
import type { Property } from '../xmla/request/xmla-request.ts';
import type { UnderstoodRequest } from './understand.ts';

/**
 * Where in a body a value stands on which its answer does not depend: the id of its session, or the value of a
 * property of the ignore-list. Clients make these anew for every request, while everything else stays.
 */
interface Gap {
  /** A `number` may have more digits in another body, like the id of a process. */
  readonly kind: 'session' | 'ignored' | 'number';
  /** Bytes of the body in front of it. */
  readonly at: number;
  readonly length: number;
}

/**
 * The gaps of one shape of body, each by its distance from that end of the body which does not move with the
 * statement: so one layout serves all queries of a client program.
 */
export type Layout = readonly Slot[];

interface Slot {
  readonly kind: Gap['kind'];
  readonly from: 'start' | 'end';
  /**
   * From the start: bytes in front of the gap. From the end: bytes between the gap and the next one, or the end of the
   * body.
   */
  readonly distance: number;
  /** In bytes; of no meaning for a `number`. */
  readonly length: number;
}

/** A body without what stands in its gaps. */
export interface Template {
  /** The bytes as latin1. Together with the layout it says every byte outside of the gaps, and where each gap is. */
  readonly text: string;
  /** What stands in the gap for the id of the session; undefined where the layout has none. */
  readonly session: string | undefined;
}

/** Shorter values change too seldom to be worth a gap, but for numbers. */
const SHORTEST = 8;
const LONGEST = 128;
const MOST_DIGITS = 10;
/** A session, and each ignored property once: a layout is kept, and a body has room for thousands of gaps. */
const MOST_GAPS = 1 + IGNORED_PROPERTIES.size;

/**
 * What may stand in a gap: letters that mean nothing to XML, whatever is around them. For ignored properties only
 * those of GUIDs and numbers, so that no word can stand there that an engine looks for in the whole body
 * (`DbpropMsmdMDXCompatibility`); for a session the caller asks whether the id is known besides.
 */
const LETTERS: Readonly<Record<Gap['kind'], Uint8Array>> = {
  ignored: lettersOf('0123456789abcdefABCDEF-{}'),
  number: lettersOf('0123456789'),
  session: lettersOf('0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_{}'),
};

const IGNORED_VALUE = new RegExp(
  `<(?:[\\w.-]+:)?(?:${[...IGNORED_PROPERTIES].join('|')})>([0-9A-Fa-f{}-]{${SHORTEST},${LONGEST}}|[0-9]{1,${SHORTEST - 1}})<`,
  'g',
);
const SESSION_VALUE = new RegExp(`[ \\t\\r\\n]SessionId=["']([\\w{}-]{1,${LONGEST}})["']`, 'g');

/**
 * The layout that a body seems to have; whether it has, the caller must prove, since what looks like a gap may stand
 * in a statement. Undefined where there can be none.
 * @param text the bytes of the body as latin1
 */
export function likelyLayout(text: string): Layout | undefined {
  const gaps = [
    ...gapsIn(text, IGNORED_VALUE, ({ length }) => (length < SHORTEST ? 'number' : 'ignored')),
    ...gapsIn(text, SESSION_VALUE, () => 'session'),
  ];
  if (gaps.length > MOST_GAPS) return undefined;
  const inOrder = gaps.toSorted((a, b) => a.at - b.at);
  // A session is named in front of the statement, properties behind it. Behind a number, whose length may vary, a place
  // that is told from the start would not say where in the template it is.
  if (inOrder.some(({ kind }, i) => kind === 'session' && i > 0)) return undefined;
  return inOrder.map(({ kind, at, length }, i) => {
    if (kind === 'session') return { kind, from: 'start', distance: at, length };
    const next = inOrder[i + 1]?.at ?? text.length;
    const distance = next - at - length;
    return { kind, from: 'end', distance, length: kind === 'number' ? 0 : length };
  });
}

/** The value is what the pattern holds between its first group's place and its last character. */
function gapsIn(text: string, pattern: RegExp, kindOf: (value: string) => Gap['kind']): Gap[] {
  return [...text.matchAll(pattern)].map(({ 0: match, 1: value = '', index }) => ({
    kind: kindOf(value),
    at: index + match.length - 1 - value.length,
    length: value.length,
  }));
}

/** Takes out of a body what stands in its gaps; undefined when it does not have this layout. */
export function templateOf(body: Buffer, layout: Layout): Template | undefined {
  let text = '';
  let session: string | undefined;
  // From the back, where the places are known.
  let behind = body.length;
  for (let i = layout.length - 1; i >= 0; i -= 1) {
    const slot = layout[i];
    if (slot === undefined) return undefined;
    const end = endOf(slot, behind);
    const at = startOf(slot, body, end);
    if (at < 1 || end >= behind || !isGap(body, at, end, slot.kind)) return undefined;
    text = body.toString('latin1', end, behind) + text;
    if (slot.kind === 'session') session = body.toString('latin1', at, end);
    behind = at;
  }
  return { text: body.toString('latin1', 0, behind) + text, session };
}

/** @param behind where the next gap begins, or the body ends */
function endOf({ from, distance, length }: Slot, behind: number): number {
  return from === 'start' ? distance + length : behind - distance;
}

function startOf({ kind, length }: Slot, body: Buffer, end: number): number {
  if (kind !== 'number') return end - length;
  const least = Math.max(0, end - MOST_DIGITS);
  let at = end;
  while (at > least && LETTERS.number[body[at - 1] ?? 0] === 1) at -= 1;
  return at;
}

const [QUOTE, APOSTROPHE, OPENS, CLOSES] = [0x22, 0x27, 0x3c, 0x3e];

/** Whether a whole value stands there, be it of an element or of an attribute, in no other letters. */
function isGap(body: Buffer, at: number, end: number, kind: Gap['kind']): boolean {
  if (at >= end) return false;
  const [before, behind] = [body[at - 1], body[end]];
  const isEnclosed =
    kind === 'session'
      ? before === behind && (before === QUOTE || before === APOSTROPHE)
      : before === CLOSES && behind === OPENS;
  if (!isEnclosed) return false;
  const letters = LETTERS[kind];
  for (let i = at; i < end; i += 1) if (letters[body[i] ?? 0] !== 1) return false;
  return true;
}

/**
 * The same body with other letters in all its gaps, each as possible there as the one that it takes the place of, and one
 * digit more in each number. What is understood of both alike does not depend on the gaps.
 * @param body of this layout
 */
function withOtherValues(body: Buffer, layout: Layout): Buffer {
  const pieces: Buffer[] = [];
  let behind = body.length;
  for (const slot of layout.toReversed()) {
    const end = endOf(slot, behind);
    const at = startOf(slot, body, end);
    const [letter, other] = slot.kind === 'number' ? '12' : 'ab';
    const value = body.toString('latin1', at, end);
    const changed = Array.from(value, (one) => (one === letter ? other : letter)).join('');
    const added = slot.kind === 'number' ? '1' : '';
    pieces.unshift(Buffer.from(`${changed}${added}`, 'latin1'), body.subarray(end, behind));
    behind = at;
  }
  return Buffer.concat([body.subarray(0, behind), ...pieces]);
}

function lettersOf(letters: string): Uint8Array {
  const known = new Uint8Array(256);
  for (const letter of letters) known[letter.charCodeAt(0)] = 1;
  return known;
}

/** In these every byte of ASCII is its letter, wherever it stands. */
const ASCII_BASED: ReadonlySet<string> = new Set(['utf-8', 'us-ascii', 'iso-8859-1']);

/**
 * The template of a body, when it is proven that whatever stands in its gaps does not change what is asked, but for the
 * id of the session: then every body of that template asks the same in the session that stands in its gap.
 *
 * The proof is a second full reading, of the same body with other values in all gaps. XML does not tell the letters apart
 * that may stand in a gap (`LETTERS`), nor does anything that reads requests, so what holds for one pair of values holds
 * for all of that length; numbers have one digit more in the other reading, and hold few. What only looks like a gap (in a statement, a comment, an attribute of another name) shows in
 * the second reading.
 * @param asked what was understood of the body
 * @param read the full reading, under the same head
 */
export async function provenTemplate(
  body: Buffer,
  asked: UnderstoodRequest,
  read: (body: Buffer) => Promise<UnderstoodRequest>,
): Promise<{ readonly layout: Layout; readonly template: Template } | undefined> {
  const { reading } = asked;
  if (reading.kind !== 'understood' || !ASCII_BASED.has(reading.encoding)) return undefined;
  const layout = likelyLayout(body.toString('latin1'));
  if (layout === undefined) return undefined;
  const template = templateOf(body, layout);
  if (template === undefined || template.session !== sessionIdOf(asked)) return undefined;
  const other = withOtherValues(body, layout);
  const otherAsked = await read(other);
  if (templateOf(other, layout)?.session !== sessionIdOf(otherAsked)) return undefined;
  return asksTheSame(asked, otherAsked) ? { layout, template } : undefined;
}

function sessionIdOf({ session }: UnderstoodRequest): string | undefined {
  return session.kind === 'in' ? session.id : undefined;
}

/**
 * Whether two requests ask the same but for the id of their session and the values of ignored properties: nothing else
 * of what was understood of them differs.
 */
export function asksTheSame(one: UnderstoodRequest, other: UnderstoodRequest): boolean {
  return isDeepStrictEqual(withoutIds(one), withoutIds(other));
}

/** The session a request names stands in it once: in two places it could mean two things. */
function withoutIds(asked: UnderstoodRequest): unknown {
  const { request, session, sessionIds, reading, ...rest } = asked;
  const id = session.kind === 'in' ? session.id : undefined;
  const blank = (found: UnderstoodRequest['sessionIds']) =>
    found === 'unknown' ? found : found.map((one) => (one === id ? '' : one));
  return {
    ...rest,
    reading: { ...reading, request: undefined },
    session: { ...session, id: '' },
    sessionIds: blank(sessionIds),
    request: request && {
      ...request,
      session: { ...request.session, id: '' },
      sessionIds: blank(request.sessionIds),
      properties: request.properties.map(withoutIgnoredValue),
    },
  };
}

function withoutIgnoredValue({ name, value }: Property): Property {
  return { name, value: IGNORED_PROPERTIES.has(name) ? '' : value };
}
