import { startsWith } from './xml-bytes.ts';

/** An encoding that XMLA engines answer in. */
export type AnswerEncoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'iso-8859-1' | 'us-ascii';

/** What a label may mean: `utf-16` leaves the byte order to the bytes. */
type Label = AnswerEncoding | 'utf-16';

/** Labels in lower case, as Content-Type and the XML declaration spell them. Anything else is unknown. */
const LABELS: ReadonlyMap<string, Label> = new Map([
  ['utf-8', 'utf-8'],
  ['utf8', 'utf-8'],
  ['utf-16', 'utf-16'],
  ['utf-16le', 'utf-16le'],
  ['utf-16be', 'utf-16be'],
  ['iso-8859-1', 'iso-8859-1'],
  ['iso_8859-1', 'iso-8859-1'],
  ['iso8859-1', 'iso-8859-1'],
  ['iso8859_1', 'iso-8859-1'],
  ['latin1', 'iso-8859-1'],
  ['us-ascii', 'us-ascii'],
  ['ascii', 'us-ascii'],
]);

/** Bytes within which an XML declaration must end; a real one takes some fifty. */
export const DECLARATION_LIMIT = 1024;

/** The bytes that are looked at before anything else: enough for a mark in front and for UTF-32. */
const MARK_LENGTH = 4;

export type FoundEncoding =
  /** More bytes are needed to say. */
  | { readonly kind: 'more' }
  /** The encoding is none of ours, or the bytes, the header and the declaration disagree. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'found'; readonly encoding: AnswerEncoding };

const MORE: FoundEncoding = { kind: 'more' };
const UNKNOWN: FoundEncoding = { kind: 'unknown' };

/**
 * Finds the text encoding of an answer in its first bytes and in the charset parameter of its Content-Type.
 * The byte order mark, the parameter and the XML declaration (RFC 7303 section 3, XML 1.0 appendix F) must
 * agree as far as they are there; with none of them it is UTF-8.
 *
 * @param bytes all bytes so far, from the first one on
 * @param ended true when no byte will follow, so that the answer is never `more`
 */
export function findEncoding(
  bytes: Buffer,
  ended: boolean,
  contentType: string | undefined,
): FoundEncoding {
  // Nothing behind the declaration is looked at, so that the same header and declaration say the same again.
  if (contentType === remembered.contentType && startsWith(bytes, 0, remembered.declaration))
    return remembered.found;
  if (bytes.length < MARK_LENGTH && !ended) return MORE;
  const mark = readMark(bytes);
  if (mark === undefined) return UNKNOWN;

  const declaration = readDeclaration(bytes.subarray(mark.length), mark.width, ended);
  if (declaration.kind !== 'read') return declaration;

  const names = charsetsOf(contentType);
  if (declaration.encoding !== undefined) names.push(declaration.encoding);
  const labels: Label[] = mark.label === undefined ? [] : [mark.label];
  for (const name of names) {
    const label = LABELS.get(name.toLowerCase());
    if (label === undefined) return UNKNOWN;
    labels.push(label);
  }
  const encoding = agree(labels, mark);
  if (encoding === undefined) return UNKNOWN;
  const found: FoundEncoding = { kind: 'found', encoding };
  if (declaration.length > 0)
    remembered = {
      contentType,
      declaration: new Uint8Array(bytes.subarray(0, mark.length + declaration.length)),
      found,
    };
  return found;
}

/**
 * Answers of one engine nearly all begin alike: what was found last, with what it was found in (2 µs less for an
 * answer that begins so). The declaration counts from the first byte on, up to and with its `?>`.
 */
let remembered: {
  readonly contentType: string | undefined;
  readonly declaration: Uint8Array;
  readonly found: FoundEncoding;
} = {
  contentType: undefined,
  // No bytes of an answer begin so.
  declaration: new Uint8Array(DECLARATION_LIMIT),
  found: UNKNOWN,
};

/** What the first bytes alone say: how wide a character is, and by a byte order mark which encoding it is. */
interface Mark {
  readonly width: '8' | '16le' | '16be';
  readonly label: Label | undefined;
  /** bytes of the byte order mark itself */
  readonly length: number;
}

function readMark(bytes: Buffer): Mark | undefined {
  const [a, b, c, d] = bytes;
  // UTF-32, with or without a mark: no engine answers in it.
  if ((a === 0 && b === 0) || (b === 0 && c === 0 && d === 0)) return undefined;
  if (a === 0xff && b === 0xfe && c === 0 && d === 0) return undefined;
  if (a === 0xef && b === 0xbb && c === 0xbf) return { width: '8', label: 'utf-8', length: 3 };
  if (a === 0xff && b === 0xfe) return { width: '16le', label: 'utf-16le', length: 2 };
  if (a === 0xfe && b === 0xff) return { width: '16be', label: 'utf-16be', length: 2 };
  if (b === 0) return { width: '16le', label: undefined, length: 0 };
  if (a === 0) return { width: '16be', label: undefined, length: 0 };
  return { width: '8', label: undefined, length: 0 };
}

interface Declaration {
  readonly kind: 'read';
  readonly encoding: string | undefined;
  /** bytes of it; 0 where it is not there, or each character has two */
  readonly length: number;
}

const NO_DECLARATION: Declaration = { kind: 'read', encoding: undefined, length: 0 };

function readDeclaration(
  bytes: Buffer,
  width: Mark['width'],
  ended: boolean,
): Declaration | typeof MORE | typeof UNKNOWN {
  const text = asciiOf(bytes.subarray(0, DECLARATION_LIMIT), width);
  const start = '<?xml';
  if (text.length <= start.length && start.startsWith(text) && !ended) return MORE;
  if (!/^<\?xml[ \t\r\n]/.test(text)) return NO_DECLARATION;
  const end = text.indexOf('?>');
  if (end < 0) {
    if (bytes.length >= DECLARATION_LIMIT) return UNKNOWN;
    // An answer that ends within its declaration is ill-formed, which the parser says better.
    return ended ? NO_DECLARATION : MORE;
  }
  const found = /[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*(["'])([^"']*)\1/.exec(text.slice(0, end));
  return { kind: 'read', encoding: found?.[2], length: width === '8' ? end + '?>'.length : 0 };
}

/** The characters of a declaration are ASCII in every encoding of ours, so any reading of the rest will do. */
function asciiOf(bytes: Buffer, width: Mark['width']): string {
  if (width === '8') return bytes.toString('latin1');
  const even = bytes.subarray(0, bytes.length & ~1);
  if (width === '16le') return even.toString('utf16le');
  return Buffer.from(even).swap16().toString('utf16le');
}

/**
 * Every charset parameter, so that a second one that says something else is not overlooked. Where the word
 * stands in any other way (`charset*=`, no value), one of the names is '', which no label is.
 */
function charsetsOf(contentType: string | undefined): string[] {
  if (contentType === undefined) return [];
  const names: string[] = [];
  for (const match of contentType.matchAll(/;[ \t]*charset=("?)([^;,\s"]+)\1[ \t]*(?=;|$)/gi)) {
    names.push(match[2] ?? '');
  }
  const mentions = contentType.toLowerCase().split('charset').length - 1;
  return mentions === names.length ? names : [...names, ''];
}

function agree(labels: readonly Label[], mark: Mark): AnswerEncoding | undefined {
  if (mark.width === '8') {
    const [first = 'utf-8'] = labels;
    if (first === 'utf-16' || first === 'utf-16le' || first === 'utf-16be') return undefined;
    return labels.every((label) => label === first) ? first : undefined;
  }
  // XML 1.0 section 4.3.3: UTF-16 that says so nowhere is not UTF-16.
  if (labels.length === 0) return undefined;
  const encoding = mark.width === '16le' ? 'utf-16le' : 'utf-16be';
  return labels.every((label) => label === 'utf-16' || label === encoding) ? encoding : undefined;
}
