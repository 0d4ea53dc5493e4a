import { isAscii } from 'node:buffer';
import { decodeText, type TextEncoding } from '../../xml/text-encoding.ts';
import { MAX_DEPTH, MAX_NODES, XmlScanner } from '../../xml/xml-scanner.ts';

/** The sessions that a request may speak of. `unknown`: it cannot be read for certain, and may name any. */
export type SessionIds = readonly string[] | 'unknown';
/** Bytes that are read in one turn. */
const SLICE = 64 * 1024;

/**
 * What can be said of a body that could not be read. Names cannot be escaped in XML, so that a text without the word names
 * no session. In another encoding than UTF-8 letters beyond ASCII may hide it: engines go by the first bytes alone (XML
 * 1.0, appendix F), or read UTF-16 that nothing names. `encoding`: in which it could be decoded.
 */
export function sessionIdsInUnread(
  body: Uint8Array,
  contentType: string | undefined,
  encoding?: TextEncoding,
): SessionIds {
  const isShown = body.byteLength === 0 || encoding === 'utf-8' || !hidesLetters(body, contentType);
  return isShown && !mentionsSession(lettersOf(body)) ? [] : 'unknown';
}

const mentionsSession = (text: string) => /session/i.test(text);

/**
 * Finds them in a body that is too long to be read in one turn, in attributes of any namespace: prefixes are not looked
 * up, which costs time. Never rejects. `unknown` also for more attributes than MAX_NODES; `too-deep` as soon as elements
 * are nested deeper than MAX_DEPTH.
 */
export async function sessionIdsInLong(
  body: Uint8Array,
  contentType: string | undefined,
  nextTurn: () => Promise<unknown> | undefined,
): Promise<SessionIds | 'too-deep'> {
  const decoded = decodeText(body, contentType);
  if (decoded === undefined || !mentionsSession(decoded.utf8.toString('latin1'))) {
    return sessionIdsInUnread(body, contentType, decoded?.encoding);
  }
  const { utf8, encoding } = decoded;
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
      close: () => void (depth -= 1),
      doctype() {
        throw new Error('a document type');
      },
    },
    [],
    false,
  );
  try {
    for (let from = 0; from < utf8.length; from = endOfSlice(utf8, from)) {
      scanner.write(utf8.subarray(from, endOfSlice(utf8, from)));
      await nextTurn();
    }
    scanner.end();
    // Some engine may take ISO-8859-1 for UTF-8, or the other way round.
    const isSure = encoding !== 'iso-8859-1' || [...found].every((id) => isAscii(Buffer.from(id)));
    return isSure ? [...found] : 'unknown';
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

export const isSessionId = (local: string) => local.toLowerCase() === 'sessionid';

/** In which ASCII stands as itself, perhaps with zero bytes, and nothing else means it: not UTF-7, EBCDIC, ISO-2022, HZ. */
const TRANSPARENT =
  /^(?:utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|iso[-_]?8859[-_]\d{1,2}|latin-?1|windows-125\d|cp125\d|koi8-[ru]|gbk|gb2312|gb18030|big5|euc-(?:jp|kr|cn)|shift[-_]jis|windows-31j)$/i;
/** Characters of the XML declaration, and bytes within which a body begins like XML, also in UTF-32. */
const DECLARATION = 1024;
const LONGEST_START = 8 * DECLARATION;

/** The bytes as letters of ASCII, without the zero bytes of UTF-16 and UTF-32. */
export function lettersOf(body: Uint8Array): string {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (!bytes.includes(0)) return bytes.toString('latin1');
  const letters = Buffer.allocUnsafe(bytes.length);
  let count = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i] ?? 0;
    letters[count] = byte;
    if (byte !== 0) count += 1;
  }
  return letters.toString('latin1', 0, count);
}

/** Whether a body could say what {@link lettersOf} does not show: it does not begin like XML, or names such an encoding. */
export function hidesLetters(body: Uint8Array, contentType?: string): boolean {
  return labelsOf(body, contentType)?.every((label) => TRANSPARENT.test(label)) !== true;
}

/** Of one byte for each character. */
const SINGLE_BYTE = /^(?:iso[-_]?8859[-_]\d{1,2}|(?:windows-|cp)125\d|koi8-[ru])$/i;
/** By these ISO-2022 and HZ begin to mean other letters, whatever encoding is named. */
const SHIFTS = ['\u001B', '~{'];

/**
 * The text of a body in another encoding than those that are read, or in one that is named in two ways: where it is ASCII, or
 * has one byte for each character. That is enough to judge what a request does, and not to look it up, since engines may
 * read other letters. Undefined where even that is not certain.
 */
export function textToJudge(body: Uint8Array, contentType: string | undefined) {
  const labels = labelsOf(body, contentType)?.map((label) => label.toLowerCase()) ?? [''];
  if (!labels.every((label) => TRANSPARENT.test(label) && !/^utf-?16/.test(label)))
    return undefined;
  const [label = '', other = label] = labels;
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const letters = bytes.toString('latin1');
  const judged = { encoding: 'other', declared: undefined } as const;
  if (isAscii(bytes)) {
    return SHIFTS.some((shift) => letters.includes(shift)) ? undefined : { ...judged, utf8: bytes };
  }
  if (!SINGLE_BYTE.test(label) || other !== label) return undefined;
  try {
    const text = new TextDecoder(label, { fatal: true }).decode(bytes);
    // Control characters are no text. A decoder takes some ISO-8859 for the windows encoding that has letters there.
    const isText = !/[\u0080-\u009F]/.test(label.startsWith('iso') ? letters : text);
    return isText ? { ...judged, utf8: Buffer.from(text) } : undefined;
  } catch {
    return undefined;
  }
}

/** The encodings that a body is said to be in, '' for one in an unusual spelling; undefined where it does not begin like XML. */
function labelsOf(body: Uint8Array, contentType = ''): readonly string[] | undefined {
  const letters = lettersOf(body.subarray(0, LONGEST_START));
  const isXml = /^(?:\u00EF\u00BB\u00BF|\u00FE\u00FF|\u00FF\u00FE)?[ \t\r\n]*</.test(letters);
  if (!isXml) return undefined;
  const declaration = letters.slice(0, DECLARATION).split('?>', 1)[0] ?? '';
  return [
    ...labels(contentType, /charset/i, /^="?([\w.:-]+)"?[ \t]*(?:;|$)/),
    ...labels(declaration, /encoding/i, /^[ \t\r\n]*=[ \t\r\n]*["']([\w.:-]+)["']/),
  ];
}

/** '' for an unusual spelling. */
function labels(text: string, mention: RegExp, spelling: RegExp): string[] {
  const rests = text.split(mention).slice(1);
  return rests.map((rest) => spelling.exec(rest)?.[1] ?? '');
}
