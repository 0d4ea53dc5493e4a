import { parse } from 'content-type';

/** The encodings that are read. Clients were seen to send UTF-8, UTF-8 with BOM, and UTF-16 (.NET). */
export type TextEncoding = 'utf-8' | 'utf-16le' | 'utf-16be';

export type DecodedText =
  | { readonly ok: true; readonly text: string; readonly encoding: TextEncoding }
  | { readonly ok: false };

interface Mark {
  readonly bytes: readonly number[];
  /** Undefined: an encoding that is known by its mark, and not read. */
  readonly encoding: TextEncoding | undefined;
}

/** UTF-32 comes first: its little-endian mark begins with that of UTF-16. */
const BYTE_ORDER_MARKS: readonly Mark[] = [
  { bytes: [0xff, 0xfe, 0x00, 0x00], encoding: undefined },
  { bytes: [0x00, 0x00, 0xfe, 0xff], encoding: undefined },
  { bytes: [0xef, 0xbb, 0xbf], encoding: 'utf-8' },
  { bytes: [0xff, 0xfe], encoding: 'utf-16le' },
  { bytes: [0xfe, 0xff], encoding: 'utf-16be' },
];

/** What each name may stand for. `utf-16` alone leaves the byte order open: only a mark tells (RFC 2781). */
const LABELS: ReadonlyMap<string, readonly TextEncoding[]> = new Map([
  ['utf-8', ['utf-8']],
  ['utf8', ['utf-8']],
  ['utf-16', ['utf-16le', 'utf-16be']],
  ['utf-16le', ['utf-16le']],
  ['utf-16be', ['utf-16be']],
]);

const UNDECODABLE: DecodedText = { ok: false };

const decoders: Readonly<Record<TextEncoding, TextDecoder>> = {
  'utf-8': strictDecoder('utf-8'),
  'utf-16le': strictDecoder('utf-16le'),
  'utf-16be': strictDecoder('utf-16be'),
};

/**
 * Decodes a body by its byte order mark, the charset of its Content-Type and its XML declaration, which must
 * not contradict each other (RFC 7303 §3). UTF-8 is assumed when all three are silent. UTF-16 without a mark
 * is read only when the charset names the byte order. The mark is not part of the text.
 *
 * Not decodable: an encoding not listed here, bytes that the encoding does not allow, a contradiction, a
 * Content-Type whose charset can be read in two ways.
 */
export function decodeText(bytes: Uint8Array, contentType: string | undefined): DecodedText {
  const charset = charsetOf(contentType);
  const mark = markOf(bytes);
  if (charset === 'unclear' || (mark !== undefined && mark.encoding === undefined)) {
    return UNDECODABLE;
  }
  const encoding = mark?.encoding ?? unmarkedEncoding(charset);
  if (encoding === undefined || !mayStandFor(charset, encoding)) {
    return UNDECODABLE;
  }
  const text = decode(bytes.subarray(mark?.bytes.length ?? 0), encoding);
  if (text === undefined || !mayStandFor(declaredEncoding(text), encoding)) {
    return UNDECODABLE;
  }
  return { ok: true, text, encoding };
}

/** The encoding that a byte order mark names; undefined without one, or for one of an encoding that is not read. */
export function markedEncoding(bytes: Uint8Array): TextEncoding | undefined {
  return markOf(bytes)?.encoding;
}

function markOf(bytes: Uint8Array): Mark | undefined {
  return BYTE_ORDER_MARKS.find((known) => known.bytes.every((byte, i) => bytes[i] === byte));
}

function strictDecoder(encoding: TextEncoding): TextDecoder {
  // `ignoreBOM` keeps a second mark in the text, where the XML parser can object to it.
  return new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
}

function decode(bytes: Uint8Array, encoding: TextEncoding): string | undefined {
  try {
    return decoders[encoding].decode(bytes);
  } catch {
    return undefined;
  }
}

function unmarkedEncoding(charset: string | undefined): TextEncoding | undefined {
  if (charset === undefined) {
    return 'utf-8';
  }
  const named = LABELS.get(charset.toLowerCase());
  return named?.length === 1 ? named[0] : undefined;
}

function mayStandFor(label: string | undefined, encoding: TextEncoding): boolean {
  return label === undefined || (LABELS.get(label.toLowerCase())?.includes(encoding) ?? false);
}

/**
 * The parser takes the first of two charsets and skips what it does not know, where an engine may take the
 * last or read `charset*`: so the word must stand there exactly as often as it was read.
 */
function charsetOf(contentType: string | undefined): string | undefined | 'unclear' {
  if (contentType === undefined) {
    return undefined;
  }
  const { charset } = parse(contentType).parameters;
  const mentions = contentType.toLowerCase().split('charset').length - 1;
  return mentions === (charset === undefined ? 0 : 1) ? charset : 'unclear';
}

/** Ill-formed declarations may slip through here: the XML parser refuses them. */
function declaredEncoding(text: string): string | undefined {
  const declaration =
    /^<\?xml[ \t\r\n][^?>]*?[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*(?:"([^"]*)"|'([^']*)')/.exec(
      text,
    );
  return declaration?.[1] ?? declaration?.[2];
}
