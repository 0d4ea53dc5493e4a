import { isDeepStrictEqual } from 'node:util';
import { IGNORED_PROPERTIES, keyedProperties } from '../xmla/request/property-policy.ts';
import { inSession, type UnderstoodRequest } from './understand.ts';

/** Bytes at the end of a body in which properties are looked for. */
const MOST_SEARCHED = 64 * 1024;
/** Bodies with more gaps are not recognised: no client writes so many ignored properties. */
const MAX_GAPS = 32;

/**
 * A part of a body that clients make anew for each request and that its answer does not depend on:
 * its session id, or the value of an ignored property. Below 0, `at` counts from the end of the
 * body, so that one layout serves statements of all lengths.
 */
export interface Gap {
  readonly at: number;
  /** Bytes: longer text is in another layout. */
  readonly length: number;
}

export interface Gaps {
  readonly session: Gap | undefined;
  readonly ids: readonly Gap[];
}

export const NO_GAPS: Gaps = { session: undefined, ids: [] };
export const hasGaps = ({ session, ids }: Gaps) => session !== undefined || ids.length > 0;

export const startOf = ({ at }: Gap, length: number): number => (at < 0 ? length + at : at);

export function textIn(body: Buffer, gap: Gap): string {
  const from = startOf(gap, body.length);
  return body.toString('latin1', from, from + gap.length);
}

/**
 * Letters that may stand in a gap mean nothing to XML. In ignored properties they are those of
 * numbers and GUIDs, so that no word can stand there that an engine looks for in the whole body
 * (`DbpropMsmdMDXCompatibility`). What looks like a gap may not be one: see {@link lettersOfProof}.
 */
const SESSION = 'SessionId=';
const SESSION_GAP = /^SessionId=["']([\w{}-]{1,128})["']/;
const LONGEST_SESSION = 140;
const IGNORED_GAP = new RegExp(
  `>([0-9A-Fa-f{}-]{1,128})(?=</(?:[\\w.-]+:)?(?:${[...IGNORED_PROPERTIES].join('|')})>)`,
  'g',
);
export const IN_SESSION_GAP = lettersOf(/[\w{}-]/);
export const IN_IGNORED_GAP = lettersOf(/[0-9A-Fa-f{}-]/);

function lettersOf(letters: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) =>
    letters.test(String.fromCharCode(byte)) ? 1 : 0,
  );
}

/**
 * Finds what looks like gaps. The statement stands before the properties and is not searched; of a
 * long body only its end is. Undefined for what may name two sessions, or has too many gaps.
 */
export function gapsIn(body: Buffer): Gaps | undefined {
  const named = body.indexOf(SESSION);
  const place = named < 0 ? '' : body.toString('latin1', named, named + LONGEST_SESSION);
  const [whole = '', id] = SESSION_GAP.exec(place) ?? [];
  const behind = Math.max(0, named) + whole.length;
  if (id !== undefined && body.includes(SESSION, behind)) return undefined;
  const session = id === undefined ? undefined : { at: behind - 1 - id.length, length: id.length };
  const properties = body.indexOf('PropertyList', Math.max(behind, body.length - MOST_SEARCHED));
  const tail = properties < 0 ? '' : body.toString('latin1', properties);
  const ids = tail
    .matchAll(IGNORED_GAP)
    .map(({ index, 1: id = '' }) => ({ at: index + 1 - tail.length, length: id.length }))
    .take(MAX_GAPS + 1)
    .toArray();
  return ids.length > MAX_GAPS ? undefined : { session, ids };
}

/** Encodings in which each ASCII byte is its letter. */
export const ASCII_BASED: ReadonlySet<string> = new Set(['utf-8', 'us-ascii', 'iso-8859-1']);

const listed = ({ session, ids }: Gaps) => (session === undefined ? ids : [session, ...ids]);

/**
 * Makes the letters that prove the gaps of a body: each body that differs in them alone asks the
 * same, in the session named in its gap. The proof is a second full reading with these letters in
 * the gaps. No reader tells such letters apart, so one pair of values stands for all of that
 * length. A false gap (in a statement, a comment, another attribute) shows in the second reading.
 * @returns undefined where nothing can be proven, as where it names a session outside of its gap
 */
export function lettersOfProof(
  body: Buffer,
  gaps: Gaps,
  asked: UnderstoodRequest,
): readonly string[] | undefined {
  const own = gaps.session && textIn(body, gaps.session);
  const { sessionIds, encoding } = asked;
  if (sessionIds === 'unknown' || sessionIds.some((id) => id !== own)) return undefined;
  if (sessionIdOf(asked) !== own) return undefined;
  const all = listed(gaps);
  if (all.length > 0 && !ASCII_BASED.has(encoding?.name ?? '')) return undefined;
  return all.map((gap) => textIn(body, gap).replaceAll(/./g, (one) => (one === '1' ? '2' : '1')));
}

export function withLetters(body: Buffer, gaps: Gaps, letters: readonly string[]): Buffer {
  const other = Buffer.from(body);
  for (const [i, gap] of listed(gaps).entries()) {
    other.write(letters[i] ?? '', startOf(gap, body.length), 'latin1');
  }
  return other;
}

export function sessionIdOf({ session }: UnderstoodRequest): string | undefined {
  return session.kind === 'in' ? session.id : undefined;
}

export function asksTheSame(one: UnderstoodRequest, other: UnderstoodRequest): boolean {
  const inOther = inSession(one, sessionIdOf(other));
  return isDeepStrictEqual(withoutIgnoredValues(inOther), withoutIgnoredValues(other));
}

function withoutIgnoredValues({ request, ...asked }: UnderstoodRequest): unknown {
  const properties = keyedProperties(request?.properties ?? []);
  return { ...asked, request: { ...request, properties } };
}
