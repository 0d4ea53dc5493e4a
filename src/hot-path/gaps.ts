import { IGNORED_PROPERTIES } from '../xmla/request/property-policy.ts';

/**
 * Where in a body a value stands on which its answer does not depend: the id of its session, or the value of a
 * property of the ignore-list. Clients make these anew for every request, while everything else stays.
 */
interface Gap {
  readonly kind: 'session' | 'ignored';
  /** Bytes of the body in front of it. */
  readonly at: number;
  readonly length: number;
}

/**
 * The gaps of one shape of body, each by its distance from that end of the body which does not move with the
 * statement: so one layout serves all queries of a client program.
 */
export type Layout = readonly Place[];

interface Place {
  readonly kind: Gap['kind'];
  readonly from: 'start' | 'end';
  /** Bytes between that end of the body and the first byte of the gap. */
  readonly distance: number;
  readonly length: number;
}

/** A body without what stands in its gaps. */
export interface Template {
  /** The bytes as latin1. Together with the layout it says every byte outside of the gaps, and where each gap is. */
  readonly text: string;
  /** What stands in the gap for the id of the session; undefined where the layout has none. */
  readonly session: string | undefined;
}

/** Shorter values change too seldom to be worth a gap. */
const SHORTEST = 8;
const LONGEST = 128;

/**
 * What may stand in a gap: letters that mean nothing to XML, whatever is around them. For ignored properties only
 * those of GUIDs and numbers, so that no word can stand there that an engine looks for in the whole body
 * (`DbpropMsmdMDXCompatibility`); for a session the caller asks whether the id is known besides.
 */
const LETTERS: Readonly<Record<Gap['kind'], Uint8Array>> = {
  ignored: lettersOf('0123456789abcdefABCDEF-{}'),
  session: lettersOf('0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_{}'),
};

const IGNORED_VALUE = new RegExp(
  `<(?:[\\w.-]+:)?(?:${[...IGNORED_PROPERTIES].join('|')})>([0-9A-Fa-f{}-]{${SHORTEST},${LONGEST}})<`,
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
    ...gapsIn(text, IGNORED_VALUE, 'ignored'),
    ...gapsIn(text, SESSION_VALUE, 'session'),
  ];
  if (gaps.filter(({ kind }) => kind === 'session').length > 1) return undefined;
  const inOrder = gaps.toSorted((a, b) => a.at - b.at);
  // Sessions are named in front of a statement, properties behind it.
  return inOrder.map(({ kind, at, length }) =>
    kind === 'session'
      ? { kind, from: 'start', distance: at, length }
      : { kind, from: 'end', distance: text.length - at, length },
  );
}

/** The value is what the pattern holds between its first group's place and its last character. */
function gapsIn(text: string, pattern: RegExp, kind: Gap['kind']): Gap[] {
  return [...text.matchAll(pattern)].map(({ 0: match, 1: value = '', index }) => ({
    kind,
    at: index + match.length - 1 - value.length,
    length: value.length,
  }));
}

/** Takes out of a body what stands in its gaps; undefined when it does not have this layout. */
export function templateOf(body: Buffer, layout: Layout): Template | undefined {
  let [text, session, copied]: [string, string | undefined, number] = ['', undefined, 0];
  for (const { kind, from, distance, length } of layout) {
    const at = from === 'start' ? distance : body.length - distance;
    const end = at + length;
    if (at <= copied || end >= body.length || !isGap(body, at, end, kind)) return undefined;
    text += body.toString('latin1', copied, at);
    if (kind === 'session') session = body.toString('latin1', at, end);
    copied = end;
  }
  return { text: text + body.toString('latin1', copied), session };
}

const [QUOTE, APOSTROPHE, OPENS, CLOSES] = [0x22, 0x27, 0x3c, 0x3e];

/** Whether a whole value stands there, be it of an element or of an attribute, in no other letters. */
function isGap(body: Buffer, at: number, end: number, kind: Gap['kind']): boolean {
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
 * The same body with other letters in all its gaps, each as possible there as the one that it takes the place of. What
 * is understood of both alike does not depend on the gaps.
 */
export function withOtherValues(body: Buffer, layout: Layout): Buffer {
  const other = Buffer.from(body);
  for (const { from, distance, length } of layout) {
    const at = from === 'start' ? distance : body.length - distance;
    for (let i = at; i < at + length; i += 1) other[i] = other[i] === 0x61 ? 0x62 : 0x61;
  }
  return other;
}

function lettersOf(letters: string): Uint8Array {
  const known = new Uint8Array(256);
  for (const letter of letters) known[letter.charCodeAt(0)] = 1;
  return known;
}
