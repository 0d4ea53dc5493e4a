import { isAscii } from 'node:buffer';
import { parse } from 'content-type';

/**
 * The encodings that are read. Clients were seen to send UTF-8, UTF-8 with BOM, UTF-16 (.NET), and US-ASCII (the
 * ElementTree of Python).
 */
export type TextEncoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'us-ascii' | 'iso-8859-1';

export type DecodedText =
  | {
      readonly ok: true;
      readonly text: string;
      readonly encoding: TextEncoding;
      /** Whether the XML declaration names the encoding: some engines go by that alone. */
      readonly declared: boolean;
    }
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
  ['us-ascii', ['us-ascii']],
  ['ascii', ['us-ascii']],
  ['iso-8859-1', ['iso-8859-1']],
  ['latin1', ['iso-8859-1']],
]);

const UNDECODABLE: DecodedText = { ok: false };

/** The declaration stands within so many bytes of the start; a real one takes some fifty. */
const DECLARATION_LIMIT = 1024;

/** Undefined for bytes that the encoding does not allow. */
type Decode = (bytes: Uint8Array) => string | undefined;

const DECODE: Readonly<Record<TextEncoding, Decode>> = {
  'utf-8': strictly('utf-8'),
  'utf-16le': strictly('utf-16le'),
  'utf-16be': strictly('utf-16be'),
  'us-ascii': (bytes) => (isAscii(bytes) ? latin1(bytes) : undefined),
  'iso-8859-1': latin1,
};

/**
 * Decodes a body by its byte order mark, the charset of its Content-Type and its XML declaration, which must
 * not contradict each other (RFC 7303 §3). UTF-8 is assumed when all three are silent. UTF-16 without a mark
 * is read only when the charset names the byte order. The mark is not part of the text. ISO-8859-1 has exactly its
 * 256 characters: it is not windows-1252.
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
  const encoding = mark?.encoding ?? unmarkedEncoding(bytes, charset);
  if (encoding === undefined || !mayStandFor(charset, encoding)) {
    return UNDECODABLE;
  }
  const text = DECODE[encoding](bytes.subarray(mark?.bytes.length ?? 0));
  const declaration = text === undefined ? undefined : declaredEncoding(text);
  if (text === undefined || !mayStandFor(declaration, encoding)) {
    return UNDECODABLE;
  }
  return { ok: true, text, encoding, declared: declaration !== undefined };
}

function markOf(bytes: Uint8Array): Mark | undefined {
  return BYTE_ORDER_MARKS.find((known) => known.bytes.every((byte, i) => bytes[i] === byte));
}

function strictly(encoding: TextEncoding): Decode {
  // `ignoreBOM` keeps a second mark in the text, where the XML parser can object to it.
  const decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  return (bytes) => {
    try {
      return decoder.decode(bytes);
    } catch {
      return undefined;
    }
  };
}

/** Not by a TextDecoder, which takes windows-1252 for it. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

function unmarkedEncoding(
  bytes: Uint8Array,
  charset: string | undefined,
): TextEncoding | undefined {
  if (charset === undefined) {
    const declared = declaredEncoding(latin1(bytes.subarray(0, DECLARATION_LIMIT)));
    const [encoding] = LABELS.get(declared?.toLowerCase() ?? '') ?? [];
    // Of the others it is known when they are decoded that they cannot have been declared in these letters.
    return encoding === 'us-ascii' || encoding === 'iso-8859-1' ? encoding : 'utf-8';
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
