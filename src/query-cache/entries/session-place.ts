import type { TextEncoding } from '../../xml/text-encoding.ts';
import type { AnswerSession } from '../../xmla/answer/answer-session.ts';
import { ownBytes } from './own-bytes.ts';
import type { SessionPlace, StoredAnswer } from './stored-answer.ts';

/** Takes the session id out from between its quotes, so that another can be put there. */
export function cutSession(
  body: Buffer,
  { value, encoding }: Pick<AnswerSession, 'value' | 'encoding'>,
): { body: Buffer; place: SessionPlace } {
  return {
    body: ownBytes([body.subarray(0, value.start), body.subarray(value.end)]),
    place: { at: value.start, encoding },
  };
}

/** Takes the whole element out. The header around it stays, also when nothing is left in it. */
export function cutElement(body: Buffer, { element }: Pick<AnswerSession, 'element'>): Buffer {
  return ownBytes([body.subarray(0, element.start), body.subarray(element.end)]);
}

/**
 * The stored bytes with the caller's session id where one belongs, in pieces. The body is not copied.
 * @throws Error when the answer shows a session and there is no id: keys with and without a session never meet,
 *   so somebody would be sent an answer that is not his
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
  let text = '';
  for (const character of id) text += written(character, encoding);
  switch (encoding) {
    case 'utf-8':
      return Buffer.from(text, 'utf8');
    case 'utf-16le':
      return Buffer.from(text, 'utf16le');
    case 'utf-16be':
      return Buffer.from(text, 'utf16le').swap16();
    case 'iso-8859-1':
    case 'us-ascii':
      return Buffer.from(text, 'latin1');
  }
}

const NOTHING = Buffer.alloc(0);

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

/** The last code point that an encoding can say. */
const LAST: Readonly<Record<TextEncoding, number>> = {
  'utf-8': 0x10ffff,
  'utf-16le': 0x10ffff,
  'utf-16be': 0x10ffff,
  'iso-8859-1': 0xff,
  'us-ascii': 0x7f,
};

function written(character: string, encoding: TextEncoding): string {
  const escape = ESCAPES.get(character);
  if (escape !== undefined) return escape;
  const code = character.codePointAt(0) ?? 0;
  if (!isXmlCharacter(code)) throw new RangeError(`XML has no character ${code.toString(16)}`);
  return code > LAST[encoding] ? `&#x${code.toString(16).toUpperCase()};` : character;
}

/** The production Char of XML 1.0, less the white space that has an escape. */
function isXmlCharacter(code: number): boolean {
  return (code >= 0x20 && code <= 0xd7ff) || (code >= 0xe000 && code <= 0xfffd) || code >= 0x10000;
}
