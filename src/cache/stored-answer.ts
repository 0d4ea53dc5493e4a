import type { TextEncoding } from '../xml/text-encoding.ts';

/** Where a session id goes into a stored body. */
export interface SessionPlace {
  /** Bytes of the body in front of it. */
  readonly at: number;
  /** In which the id is written there. */
  readonly encoding: TextEncoding;
}

/**
 * An answer of the engine that passed inspection, as it is kept and replayed. What is not here (cookies,
 * connection headers, ids of the engine's own) is never replayed.
 */
export interface StoredAnswer {
  /**
   * The exact bytes that the engine sent, less the id of the session. Never changed, so that it may be shared by
   * all who read it.
   */
  readonly body: Buffer;
  /** Where the caller's session id belongs; undefined when the answer shows none. */
  readonly session: SessionPlace | undefined;
  /** Whether the engine answered with the header X-AS-SessionID, which then carries the caller's id as well. */
  readonly sessionHeader: boolean;
  /** The exact header. */
  readonly contentType: string;
  readonly contentLanguage: string | undefined;
  /** Wall clock (ms) when the engine request began: age counts from here (RFC 9111 §4.2.3). */
  readonly requestedAt: number;
  /** Milliseconds from `requestedAt` for which it may be used. */
  readonly lifetime: number;
  /** Milliseconds that the engine needed. */
  readonly engineMilliseconds: number;
}

/**
 * What may stand in a header and arrives as it was sent (RFC 9110 §5.5): no control characters, no white space at
 * the ends.
 */
export const HEADER_VALUE =
  /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/** How far the wall clocks of two gateways may differ (ms). */
const CLOCK_TOLERANCE = 60_000;

/**
 * Milliseconds for which the answer may still be used; 0 or less when it is too old. One from the future is
 * too old as well: some clock is wrong, and it is not known by how much.
 */
export function remaining(answer: StoredAnswer, wall: number): number {
  if (answer.requestedAt > wall + CLOCK_TOLERANCE) return 0;
  return answer.requestedAt + answer.lifetime - wall;
}

/**
 * Pieces in a row, in memory of their own. A short Buffer is mostly a part of something larger, which stays as long as
 * any part of it does: 64 KiB of Node's pool, or all that one read from the network brought. What is kept for hours must
 * not keep that: entries of 3.6 KB took 22 KB.
 */
export function ownBytes(pieces: readonly Uint8Array[]): Buffer {
  const own = Buffer.allocUnsafeSlow(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    own.set(piece, at);
    at += piece.length;
  }
  return own;
}

/**
 * The stored bytes with the caller's session id where one belongs, in pieces. The body is not copied.
 * @throws Error when the answer shows a session and there is no id: keys with and without a session never meet, so
 *   the answer would be another caller's
 * @throws RangeError as `sessionBytes` does
 */
export function withSession(
  { body, session }: Pick<StoredAnswer, 'body' | 'session'>,
  id: string | undefined,
): readonly Buffer[] {
  const own = ownSessionBytes(session, id);
  if (session === undefined) return [body];
  return [body.subarray(0, session.at), own, body.subarray(session.at)];
}

/**
 * What of the caller's stands in an answer: nothing where it shows no session.
 * @throws as `withSession` does
 */
export function ownSessionBytes(place: SessionPlace | undefined, id: string | undefined): Buffer {
  if (place === undefined) return NOTHING;
  if (id === undefined) throw new Error('an answer that shows a session was found without one');
  return sessionBytes(id, place.encoding);
}

/**
 * A session id as it stands in an attribute value, whichever quotes are around it. Without its escapes white
 * space would not survive the reading of an attribute (XML 1.0 section 3.3.3); what the encoding cannot say is
 * written by number.
 *
 * @throws RangeError for a character that XML 1.0 forbids. No caller has such an id: each was read from XML, or
 *   from an HTTP header, which holds nothing but white space and what can be printed.
 */
export function sessionBytes(id: string, encoding: TextEncoding): Buffer {
  const text = Array.from(id, (character) => written(character, LAST[encoding])).join('');
  if (encoding === 'utf-8') return Buffer.from(text);
  if (encoding === 'utf-16le') return Buffer.from(text, 'utf16le');
  if (encoding === 'utf-16be') return Buffer.from(text, 'utf16le').swap16();
  return Buffer.from(text, 'latin1');
}

const NOTHING = Buffer.alloc(0);

/** The last code point that an encoding can say. */
const LAST: Readonly<Record<TextEncoding, number>> = {
  'utf-8': 0x10ffff,
  'utf-16le': 0x10ffff,
  'utf-16be': 0x10ffff,
  'iso-8859-1': 0xff,
  'us-ascii': 0x7f,
};

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&apos;'],
  ['\t', '&#x9;'],
  ['\n', '&#xA;'],
  ['\r', '&#xD;'],
]);

/** The production Char of XML 1.0, less the white space that has an escape. */
const XML_CHARACTER = /[\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/u;

function written(character: string, last: number): string {
  const escape = ESCAPES.get(character);
  if (escape !== undefined) return escape;
  const number = (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
  if (!XML_CHARACTER.test(character)) throw new RangeError(`XML has no character ${number}`);
  return (character.codePointAt(0) ?? 0) > last ? `&#x${number};` : character;
}
