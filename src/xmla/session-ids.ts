import { SaxesParser } from 'saxes';
import { decodeText } from './text-encoding.ts';
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
 * What can be said of a text that could not be parsed. The names of elements and attributes cannot be escaped in
 * XML, so that a text without the word names no session.
 */
export function sessionIdsInText(text: string): SessionIds {
  return /session/i.test(text) ? 'unknown' : [];
}

/**
 * The same of bytes in an encoding that is not known. Where the letters are those of ASCII, with or without zero
 * bytes, an envelope begins with `<`; other letters hide what they say.
 */
export function sessionIdsInBytes(body: Uint8Array): SessionIds {
  const letters = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    .toString('latin1')
    .replaceAll('\0', '');
  const start = /^(?:\u00EF\u00BB\u00BF|\u00FE\u00FF|\u00FF\u00FE)?[ \t\r\n]*</;
  return start.test(letters) || letters === '' ? sessionIdsInText(letters) : 'unknown';
}

/** Finds them in a body that is too long to be read in one turn. Never rejects. */
export async function sessionIdsInLong(
  body: Uint8Array,
  contentType: string | undefined,
  nextTurn: () => Promise<unknown>,
): Promise<SessionIds> {
  const decoded = decodeText(body, contentType);
  if (!decoded.ok) return sessionIdsInBytes(body);
  const { text } = decoded;
  const suspected = sessionIdsInText(text);
  if (suspected !== 'unknown') return suspected;
  const found = new Set<string>();
  const parser = new SaxesParser({ xmlns: true, position: false });
  parser.on('opentag', ({ attributes }) => {
    for (const { local, value } of Object.values(attributes)) {
      if (isSessionId(local)) found.add(value);
    }
  });
  try {
    for (let from = 0; from < text.length; from += SLICE) {
      parser.write(text.slice(from, from + SLICE));
      await nextTurn();
    }
    parser.close();
    return [...found];
  } catch {
    return 'unknown';
  }
}

function isSessionId(local: string): boolean {
  return local.toLowerCase() === 'sessionid';
}
