import { isDeepStrictEqual } from 'node:util';
import { GatewayError } from '../common/errors.ts';
import { IGNORED_PROPERTIES, keyedProperties } from '../xmla/request/property-policy.ts';
import { inSession, type UnderstoodRequest } from './understand.ts';

/** Longer bodies (bytes) are not recognised: no client sends any. */
export const MAX_BODY = 64 * 1024;
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

export const startOf = ({ at }: Gap, length: number): number => (at < 0 ? length + at : at);

export function textIn(body: Buffer, gap: Gap): string {
  const from = startOf(gap, body.length);
  return body.toString('latin1', from, from + gap.length);
}

/**
 * Letters that may stand in a gap mean nothing to XML. In ignored properties they are those of
 * numbers and GUIDs, so that no word can stand there that an engine looks for in the whole body
 * (`DbpropMsmdMDXCompatibility`). What looks like a gap may not be one: see {@link provenGaps}.
 */
const SESSION_GAP = /SessionId=["']([\w{}-]{1,128})["']/y;
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
 * Finds what looks like gaps. The statement stands before the properties and is not searched.
 * Undefined for what may name two sessions, has too many gaps, or is too long for one turn.
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

/** Encodings in which each ASCII byte is its letter. */
export const ASCII_BASED: ReadonlySet<string> = new Set(['utf-8', 'us-ascii', 'iso-8859-1']);

/**
 * Proves the gaps of a body: each body that differs in them alone asks the same, in the session
 * named in its gap. The proof is a second full reading with other letters in all gaps. No reader
 * tells such letters apart, so one pair of values stands for all of that length. A false gap (in a
 * statement, a comment, another attribute) shows in the second reading. A refusal proves nothing.
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

/** Compares two requests, less session ids and values of ignored properties. */
export function asksTheSame(one: UnderstoodRequest, other: UnderstoodRequest): boolean {
  const inOther = inSession(one, sessionIdOf(other));
  return isDeepStrictEqual(withoutIgnoredValues(inOther), withoutIgnoredValues(other));
}

function withoutIgnoredValues({ request, ...asked }: UnderstoodRequest): unknown {
  const properties = keyedProperties(request?.properties ?? []);
  return { ...asked, request: { ...request, properties } };
}
