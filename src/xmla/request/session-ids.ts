import { isAscii } from 'node:buffer';
import { decodeText, type TextEncoding } from '../../xml/text-encoding.ts';
import { MAX_DEPTH, MAX_NODES, slicesOf, XmlScanner } from '../../xml/xml-scanner.ts';

/** The sessions a request may name; `unknown`: any, since it cannot be read for certain. */
export type SessionIds = readonly string[] | 'unknown';

/**
 * Judges a body that could not be read. XML cannot escape names: a text without the word names no
 * session. In other encodings than UTF-8 letters beyond ASCII may hide it: engines go by the first
 * bytes alone (XML 1.0, appendix F), or read UTF-16 that nothing names.
 * @param encoding the one in which the body could be decoded
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
 * Searches a body too long for one turn, in attributes of any namespace: resolving prefixes costs
 * time. Never rejects. More than MAX_NODES attributes are `unknown`, elements nested deeper than
 * MAX_DEPTH are `too-deep`.
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
    for (const slice of slicesOf(utf8)) {
      scanner.write(slice);
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

export const isSessionId = (local: string) => local.toLowerCase() === 'sessionid';

/** Encodings in which only ASCII bytes, perhaps with zero bytes, mean ASCII: not UTF-7, EBCDIC … */
const TRANSPARENT =
  /^(?:utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|iso[-_]?8859[-_]\d{1,2}|latin-?1|windows-125\d|cp125\d|koi8-[ru]|gbk|gb2312|gb18030|big5|euc-(?:jp|kr|cn)|shift[-_]jis|windows-31j)$/i;
/** Characters of the XML declaration, and bytes that hold as many in UTF-32. */
const DECLARATION = 1024;
const LONGEST_START = 8 * DECLARATION;

/** Reads the bytes as ASCII letters, without the zero bytes of UTF-16 and UTF-32. */
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

/** True when a body could say what {@link lettersOf} does not show. */
export function hidesLetters(body: Uint8Array, contentType?: string): boolean {
  return labelsOf(body, contentType)?.every((label) => TRANSPARENT.test(label)) !== true;
}

const SINGLE_BYTE = /^(?:iso[-_]?8859[-_]\d{1,2}|(?:windows-|cp)125\d|koi8-[ru])$/i;
/** ISO-2022 and HZ change the meaning of letters behind these, whatever encoding is named. */
const SHIFTS = ['\u001B', '~{'];

/**
 * Decodes a body in an unread encoding, or with two labels, if it is ASCII or has one byte for each
 * character. That is enough to judge a request, but not to look it up: engines may read other
 * letters. Undefined where even that is not certain.
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
    // Control characters are no text. A decoder reads some ISO-8859 as windows, with letters there.
    const isText = !/[\u0080-\u009F]/.test(label.startsWith('iso') ? letters : text);
    return isText ? { ...judged, utf8: Buffer.from(text) } : undefined;
  } catch {
    return undefined;
  }
}

/** The encodings named for a body, '' for an unusual spelling; undefined if it is not like XML. */
function labelsOf(body: Uint8Array, contentType = ''): readonly string[] | undefined {
  const letters = lettersOf(body.subarray(0, LONGEST_START));
  const isXml = /^(?:\u00EF\u00BB\u00BF|\u00FE\u00FF|\u00FF\u00FE)?[ \t\r\n]*</.test(letters);
  if (!isXml) return undefined;
  const start = letters.slice(0, DECLARATION);
  // Behind so many blanks it may say anything.
  if (start.includes('<?xml') && !start.includes('?>')) return [''];
  const declaration = start.split('?>', 1)[0] ?? '';
  return [
    ...labels(contentType, /charset/i, /^="?([\w.:-]+)"?[ \t]*(?:;|$)/),
    ...labels(declaration, /encoding/i, /^[ \t\r\n]*=[ \t\r\n]*["']([\w.:-]+)["']/),
  ];
}

function labels(text: string, mention: RegExp, spelling: RegExp): string[] {
  const rests = text.split(mention).slice(1);
  return rests.map((rest) => spelling.exec(rest)?.[1] ?? '');
}
