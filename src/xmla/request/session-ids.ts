import { isAscii } from 'node:buffer';
import { hidesLetters, lettersOf } from './body-letters.ts';
import { MAX_DEPTH, MAX_NODES } from '../../xml/read-tree.ts';
import type { XmlElement } from '../../xml/read-tree.ts';
import { XmlScanner } from '../../xml/xml-scanner.ts';
import { decodeText } from '../../xml/text-encoding.ts';
import type { TextEncoding } from '../../xml/text-encoding.ts';

/**
 * The sessions that a request may speak of. `unknown`: it cannot be read for certain, and may name any. A
 * statement that was not understood may have changed each of them.
 */
export type SessionIds = readonly string[] | 'unknown';

/** Bytes that are read in one turn of the event loop. */
const SLICE = 64 * 1024;

/** Every value of an attribute SessionId anywhere below the element, each once. */
export function sessionIdsIn(root: XmlElement): readonly string[] {
  const found = new Set<string>();
  const visit = ({ attributes, children }: XmlElement): void => {
    for (const { local, value } of attributes) {
      if (isSessionId(local)) found.add(value);
    }
    for (const child of children) visit(child);
  };
  visit(root);
  return [...found];
}

/**
 * Whether every engine reads the same ids. One that goes by another of charset, declaration and bytes than the rest
 * takes ISO-8859-1 for UTF-8, or the other way round.
 */
export function areCertain(ids: Iterable<string>, encoding: TextEncoding): boolean {
  return encoding !== 'iso-8859-1' || [...ids].every((id) => isAscii(Buffer.from(id)));
}

/**
 * What can be said of a text that could not be parsed. The names of elements and attributes cannot be escaped in
 * XML, so that a text without the word names no session.
 */
function sessionIdsInText(text: string): SessionIds {
  return /session/i.test(text) ? 'unknown' : [];
}

/**
 * The same of bytes in an encoding that is not known: letters that are not those of ASCII hide what they say.
 * @param contentType of the request
 */
export function sessionIdsInBytes(body: Uint8Array, contentType: string | undefined): SessionIds {
  if (body.byteLength === 0) return [];
  return hidesLetters(body, contentType) ? 'unknown' : sessionIdsInText(lettersOf(body));
}

/**
 * The same of a body that could be decoded but is no XML then. Engines were seen to go by its first bytes alone
 * (XML 1.0, appendix F), whatever its Content-Type says, and to read UTF-16 that nothing names.
 */
export function sessionIdsInUnread(
  body: Uint8Array,
  contentType: string | undefined,
  { utf8, encoding }: { readonly utf8: Buffer; readonly encoding: TextEncoding },
): SessionIds {
  if (sessionIdsInText(utf8.toString('latin1')) === 'unknown') return 'unknown';
  // No XML in other letters is UTF-8 by chance.
  return encoding === 'utf-8'
    ? sessionIdsInText(lettersOf(body))
    : sessionIdsInBytes(body, contentType);
}

/**
 * Finds them in a body that is too long to be read in one turn. Never rejects. Prefixes are not looked up, which
 * would cost time for each open element: whatever namespace it is in, the attribute counts. `unknown` also for more
 * attributes than MAX_NODES; `too-deep` for elements nested deeper than MAX_DEPTH, as soon as one is.
 */
export async function sessionIdsInLong(
  body: Uint8Array,
  contentType: string | undefined,
  nextTurn: () => Promise<unknown>,
): Promise<SessionIds | 'too-deep'> {
  const decoded = decodeText(body, contentType);
  if (!decoded.ok) return sessionIdsInBytes(body, contentType);
  const { utf8, encoding } = decoded;
  if (sessionIdsInText(utf8.toString('latin1')) !== 'unknown') {
    return sessionIdsInUnread(body, contentType, decoded);
  }
  const found = new Set<string>();
  let [depth, attributes] = [0, 0];
  const scanner = new XmlScanner(
    {
      open(tag) {
        depth += 1;
        attributes += tag.attributeCount;
        for (const { local, value } of tag.attributes()) if (isSessionId(local)) found.add(value);
        if (depth > MAX_DEPTH || attributes > MAX_NODES) throw new Error('too much');
      },
      close() {
        depth -= 1;
      },
      doctype() {
        throw new Error('a document type');
      },
    },
    { resolve: false },
  );
  try {
    for (let from = 0; from < utf8.length; from = endOfSlice(utf8, from)) {
      scanner.write(utf8.subarray(from, endOfSlice(utf8, from)));
      await nextTurn();
    }
    scanner.end();
    return areCertain(found, encoding) ? [...found] : 'unknown';
  } catch {
    return depth > MAX_DEPTH ? 'too-deep' : 'unknown';
  }
}

/** Slices hold whole characters. */
function endOfSlice(utf8: Buffer, from: number): number {
  let end = from + SLICE;
  while (((utf8[end] ?? 0) & 0xc0) === 0x80) end += 1;
  return end;
}

function isSessionId(local: string): boolean {
  return local.toLowerCase() === 'sessionid';
}
