import { isAscii } from 'node:buffer';
import { SaxesParser } from 'saxes';
import { hidesLetters, lettersOf } from './body-letters.ts';
import { decodeText } from './text-encoding.ts';
import type { TextEncoding } from './text-encoding.ts';
import { MAX_DEPTH, MAX_NODES } from './xml-tree.ts';
import type { XmlElement } from './xml-tree.ts';

/**
 * The sessions that a request may speak of. `unknown`: it cannot be read for certain, and may name any. A
 * statement that nobody understood may have changed each of them.
 */
export type SessionIds = readonly string[] | 'unknown';

/** Characters that are parsed in one turn of the event loop. */
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
  { text, encoding }: { readonly text: string; readonly encoding: TextEncoding },
): SessionIds {
  if (sessionIdsInText(text) === 'unknown') return 'unknown';
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
  const { text } = decoded;
  if (sessionIdsInText(text) !== 'unknown') return sessionIdsInUnread(body, contentType, decoded);
  const found = new Set<string>();
  const parser = new SaxesParser({
    xmlns: false,
    position: false,
    forceXMLVersion: true,
    defaultXMLVersion: '1.0',
  });
  let [depth, attributes] = [0, 0];
  parser.on('attribute', ({ name, value }) => {
    attributes += 1;
    if (attributes > MAX_NODES) throw new Error('too many attributes');
    if (isSessionId(name.slice(name.lastIndexOf(':') + 1))) found.add(value);
  });
  parser.on('opentag', () => {
    // Its line ends are others, so an engine may read another id.
    if ((parser.xmlDecl.version ?? '1.0') !== '1.0') throw new Error('not XML 1.0');
    depth += 1;
    if (depth > MAX_DEPTH) throw new Error('too deep');
  });
  parser.on('closetag', () => {
    depth -= 1;
  });
  try {
    for (let from = 0; from < text.length; from += SLICE) {
      parser.write(text.slice(from, from + SLICE));
      await nextTurn();
    }
    parser.close();
    return areCertain(found, decoded.encoding) ? [...found] : 'unknown';
  } catch {
    return depth > MAX_DEPTH ? 'too-deep' : 'unknown';
  }
}

function isSessionId(local: string): boolean {
  return local.toLowerCase() === 'sessionid';
}
