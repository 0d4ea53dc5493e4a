import {
  AMPERSAND,
  GREATER,
  ILL_FORMED,
  isAllowed,
  isBlank,
  isPlainName,
  isWhite,
  LARGEST_TAG_BYTES,
  LESS,
  malformed,
  markOf,
  referenceEnd,
  SLASH,
  startsWith,
  stopsAt,
  type TagAttribute,
  TagReader,
  type TagReaders,
  UNFINISHED,
  unread,
  withoutReferences,
  XmlError,
} from './start-tag.ts';

/** Receives what the scanner reads, in document order. Its errors reach the scanner's caller. */
export interface XmlSink {
  /** Begins an element; the tag is good for this call only. */
  open(tag: TagReader): void;
  /**
   * Gives text within the root, perhaps a part of it; the bytes are good for this call only.
   * @param escaped references stand in it
   * @param closes an end tag comes right behind it
   */
  text?(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void;
  /** Ends an element; `start` and `end` are offsets of its end tag, or of its only tag. */
  close?(start: number, end: number): void;
  cdata?(): void;
  /** Reports an instruction other than the XML declaration. */
  aside?(what: 'a comment' | 'a processing instruction'): void;
  doctype(): never;
}

/** The lowest limit among parsers (libxml2: 256). */
const DEEPEST = 200;
/** Limits idle readers; more are needed only while more documents are read at one time. */
const MOST_WAITING = 4;
/** Limits rescans of unfinished markup that may have ended before its buffer has doubled. */
const MOST_LOOKS = 16;
const BANG = 0x21;
const HYPHEN = 0x2d;
const QUESTION = 0x3f;
const BRACKET = 0x5d;
const TEXT_STOPS = stopsAt(LESS, AMPERSAND, GREATER);

const COMMENT_START = markOf('<!--');
const CDATA_START = markOf('<![CDATA[');
const DOCTYPE_START = markOf('<!DOCTYPE');
const DECLARATIONS = [COMMENT_START, CDATA_START, DOCTYPE_START];
const CDATA_END = markOf(']]>');
const BYTE_ORDER_MARK = markOf('\uFEFF');
const NO_NAME = markOf('');

const DECLARATION =
  /^<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(["'])1\.(\d+)\1(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(["'])[A-Za-z][\w.-]*\3)?(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(["'])(?:yes|no)\4)?[ \t\r\n]*\?>$/;
const TARGET = /^<\?([^ \t\r\n?]+)(?:[ \t\r\n][^]*)?\?>$/;

/**
 * Reads an XML 1.0 document with namespaces in pieces of UTF-8, each of whole characters. It checks
 * all rules of well-formedness that can be broken without a document type declaration, which it
 * refuses. It also refuses other versions of XML, namespaces that are no plain URIs, `xml:`
 * attributes but `xml:lang` and `xml:space`, and sizes beyond any engine or client. It works on
 * bytes, with one object for each spelling of a name and none for an element. The cut into pieces
 * makes no difference, and no byte is read more than a few times.
 */
export class XmlScanner {
  readonly #sink: XmlSink;
  #readers: TagReaders;
  readonly #reader: TagReader;
  readonly #open: Uint8Array[] = [];
  #mode: 'content' | 'comment' | 'cdata' = 'content';
  #rootSeen = false;
  /** The offset of the bytes at hand in the document. */
  #base = 0;
  #markLength = 0;

  // Unfinished markup: its bytes, how many of them were scanned, and how often.
  #held: Buffer[] = [];
  #heldSize = 0;
  #lookedAt = 0;
  #looks = 0;

  /**
   * @param readers idle readers; the one taken is given back at the end
   * @param resolve false: prefixes are not looked up, and any namespace will do
   */
  constructor(sink: XmlSink, readers: TagReaders = [], resolve = true) {
    this.#sink = sink;
    this.#readers = readers;
    this.#reader = readers.pop() ?? new TagReader();
    this.#reader.begin(resolve);
  }

  /** @returns the number of bytes read to the end; the others wait for more */
  #scan(bytes: Buffer): number {
    let at = 0;
    if (this.#base === 0 && startsWith(bytes, 0, BYTE_ORDER_MARK)) at = this.#markLength = 3;
    while (at < bytes.length) {
      const next =
        this.#mode === 'content' ? this.#readContent(bytes, at) : this.#readSection(bytes, at);
      if (next === at) break;
      at = next;
    }
    return at;
  }

  // Each of these returns the index behind what it has read, or `at` if more bytes are needed.

  #readContent(bytes: Buffer, at: number): number {
    if (bytes[at] !== LESS) return this.#readText(bytes, at);
    const end = this.#readMarkup(bytes, at);
    if (end - at > LARGEST_TAG_BYTES) throw unread('a tag that is too long');
    return end;
  }

  #readMarkup(bytes: Buffer, at: number): number {
    switch (bytes[at + 1]) {
      case undefined:
        return at;
      case SLASH:
        return this.#readEndTag(bytes, at);
      case BANG:
        return this.#readDeclaration(bytes, at);
      case QUESTION:
        return this.#readInstruction(bytes, at);
      default:
        return this.#readStartTag(bytes, at);
    }
  }

  #readText(bytes: Buffer, at: number): number {
    const { length } = bytes;
    const stops = TEXT_STOPS;
    let index = at;
    let escaped = false;
    for (;;) {
      while (index < length && stops[bytes[index] ?? 0] === 0) index += 1;
      if (index === length) break;
      const byte = bytes[index];
      if (byte === LESS) {
        this.#giveText(bytes, at, index, escaped, bytes[index + 1] === SLASH);
        return index;
      }
      if (byte === AMPERSAND) {
        const next = referenceEnd(bytes, index);
        if (next === ILL_FORMED) throw malformed('an invalid reference');
        if (next === UNFINISHED) break;
        escaped = true;
        index = next;
      } else {
        const closes =
          byte === GREATER && index - at >= 2 && startsWith(bytes, index - 2, CDATA_END);
        if (closes) throw malformed(']]> in text');
        if (!isAllowed(bytes, index)) throw malformed('a forbidden character');
        index += 1;
      }
    }
    const end = index === length ? endBefore(BRACKET, 2, bytes, at) : index;
    this.#giveText(bytes, at, end, escaped, false);
    return end;
  }

  #giveText(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void {
    if (from === to) return;
    if (this.#open.length > 0) this.#sink.text?.(bytes, from, to, escaped, closes);
    else if (!isBlank(bytes, from, to)) throw malformed('text outside of the root element');
  }

  #readStartTag(bytes: Buffer, at: number): number {
    const reader = this.#reader;
    const depth = this.#open.length;
    const end = reader.read(bytes, at, this.#base, depth) + 1;
    if (end === 0) return at;
    if (this.#rootSeen && depth === 0) throw malformed('a second root element');
    if (depth === DEEPEST) throw unread(`elements nested deeper than ${DEEPEST}`);
    this.#open.push(reader.spelt);
    this.#rootSeen = true;
    this.#sink.open(reader);
    if (reader.selfClosing) this.#closeElement(at, end);
    return end;
  }

  #readEndTag(bytes: Buffer, at: number): number {
    const spelt = this.#open.at(-1) ?? NO_NAME;
    const isOwn = spelt !== NO_NAME && startsWith(bytes, at + 2, spelt);
    let end = at + 2 + spelt.length;
    if (isOwn) while (isWhite(bytes[end])) end += 1;
    if (isOwn && bytes[end] === GREATER) {
      this.#closeElement(at, end + 1);
      return end + 1;
    }
    if (end < bytes.length) throw malformed('an end tag that is not that of the open element');
    return at;
  }

  #closeElement(start: number, end: number): void {
    this.#sink.close?.(this.#base + start, this.#base + end);
    this.#open.pop();
    this.#reader.close(this.#open.length);
  }

  #readDeclaration(bytes: Buffer, at: number): number {
    if (startsWith(bytes, at, COMMENT_START)) {
      this.#sink.aside?.('a comment');
      this.#mode = 'comment';
      return at + COMMENT_START.length;
    }
    if (startsWith(bytes, at, CDATA_START)) {
      if (this.#open.length === 0) throw malformed('text outside of the root element');
      this.#sink.cdata?.();
      this.#mode = 'cdata';
      return at + CDATA_START.length;
    }
    if (startsWith(bytes, at, DOCTYPE_START)) this.#sink.doctype();
    if (DECLARATIONS.some((start) => startsWith(start, 0, bytes.subarray(at)))) return at;
    throw malformed('an invalid declaration');
  }

  #readSection(bytes: Buffer, at: number): number {
    const isComment = this.#mode === 'comment';
    const found = bytes.indexOf(isComment ? '--' : CDATA_END, at);
    const rest = isComment ? endBefore(HYPHEN, 1, bytes, at) : endBefore(BRACKET, 2, bytes, at);
    const end = found < 0 ? rest : found;
    if (!areAllowed(bytes, at, end)) throw malformed('a forbidden character');
    if (!isComment) this.#giveText(bytes, at, end, false, false);
    const last = bytes[found + 2];
    if (found < 0 || last === undefined) return end;
    if (last !== GREATER) throw malformed('-- in a comment');
    this.#mode = 'content';
    return found + 3;
  }

  #readInstruction(bytes: Buffer, at: number): number {
    const end = bytes.indexOf('?>', at + 2) + 2;
    if (end === 1) return at;
    const text = bytes.toString('utf8', at, end);
    const version = this.#base + at === this.#markLength ? DECLARATION.exec(text)?.[2] : undefined;
    // Other versions end lines at other characters: a client might read another text.
    if (version !== undefined && version !== '0') throw unread('not XML 1.0');
    if (version === undefined) {
      const target = TARGET.exec(text)?.[1] ?? '';
      const isWell = isPlainName(target) && target.toLowerCase() !== 'xml';
      if (!isWell || !areAllowed(bytes, at, end)) throw malformed('a processing instruction');
      this.#sink.aside?.('a processing instruction');
    }
    return end;
  }

  #look(bytes: Buffer): void {
    const read = this.#scan(bytes);
    const rest = bytes.length - read;
    if (rest > LARGEST_TAG_BYTES) throw unread('a tag that is too long');
    this.#base += read;
    this.#looks = read > 0 ? 1 : this.#looks + 1;
    this.#held = rest === 0 ? [] : [Buffer.from(bytes.subarray(read))];
    this.#heldSize = this.#lookedAt = rest;
  }

  #readOn(chunk: Buffer, isLast: boolean): void {
    if (this.#heldSize === 0) return this.#look(chunk);
    this.#heldSize += chunk.length;
    const mayEnd = this.#looks < MOST_LOOKS && chunk.includes(GREATER);
    if (isLast || mayEnd || this.#heldSize >= 2 * this.#lookedAt) this.#join(chunk);
    else this.#held.push(Buffer.from(chunk));
  }

  /** Scans what was held with the chunk; copies little more of it than ends the tag. */
  #join(chunk: Buffer): void {
    const found = chunk.indexOf(GREATER);
    const end = found < 0 ? chunk.length : found + 1;
    this.#look(Buffer.concat([...this.#held, chunk.subarray(0, end)]));
    if (end === chunk.length) return;
    const rest = chunk.subarray(end);
    this.#look(this.#heldSize === 0 ? rest : Buffer.concat([...this.#held, rest]));
  }

  #release(): void {
    if (this.#reader.finish() && this.#readers.length < MOST_WAITING) {
      this.#readers.push(this.#reader);
    }
    this.#readers = [];
  }

  /**
   * Reads on. The bytes may be reused afterwards.
   * @param isLast nothing readable can follow
   * @throws XmlError at the first thing that is ill-formed or not read; no call may follow
   */
  write(chunk: Buffer, isLast = false): void {
    try {
      this.#readOn(chunk, isLast);
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  /** Call once, behind the last byte. @throws XmlError when the document is not whole */
  end(): void {
    try {
      if (this.#heldSize > this.#lookedAt) this.#look(Buffer.concat(this.#held));
      const isOver = this.#heldSize === 0 && this.#mode === 'content' && this.#open.length === 0;
      if (!isOver || !this.#rootSeen) throw malformed('an unfinished document');
    } finally {
      this.#release();
    }
  }
}

/** A character in UTF-8 that XML 1.0 forbids. */
const FORBIDDEN = /[^\t\n\r -\xFF]|\xEF\xBF[\xBE\xBF]/;

function areAllowed(bytes: Buffer, from: number, to: number): boolean {
  return !FORBIDDEN.test(bytes.toString('latin1', from, to));
}

/** The end of the bytes, without up to `most` of one byte, which may begin the end of a section. */
function endBefore(byte: number, most: number, bytes: Buffer, from: number): number {
  let end = bytes.length;
  for (let back = 0; back < most && end > from && bytes[end - 1] === byte; back += 1) end -= 1;
  return end;
}

export const XSI = 'http://www.w3.org/2001/XMLSchema-instance';
/** The limit of an XMLA request, which needs about seven. */
export const MAX_DEPTH = 64;
/** Limits elements and attributes. Requests hold some hundreds; reading so many takes 10 ms. */
export const MAX_NODES = 10_000;

export interface XmlElement {
  readonly uri: string;
  readonly local: string;
  readonly attributes: readonly TagAttribute[];
  readonly children: readonly XmlElement[];
  /** Text and CDATA directly in it, joined, not trimmed, with the line ends of XML 1.0 §2.11. */
  text: string;
  hasCData: boolean;
  readonly selfClosing: boolean;
  /** The namespace of the prefix in `xsi:type`. */
  readonly typeNamespace: string | undefined;
}

const NO_CHILDREN: XmlElement[] = [];

/** Bytes of a long document that are read in one turn of the event loop. */
const SLICE_BYTES = 32 * 1024;

/** Cuts a document into pieces of whole characters and line ends. */
export function* slicesOf(utf8: Buffer): Generator<Buffer> {
  for (let from = 0, end = 0; from < utf8.length; from = end) {
    end = from + SLICE_BYTES;
    while (((utf8[end] ?? 0) & 0xc0) === 0x80) end += 1;
    if (utf8[end] === 0x0a && utf8[end - 1] === 0x0d) end += 1;
    yield utf8.subarray(from, end);
  }
}

/**
 * Reads a whole document strictly. Never throws.
 * @returns `oddity`: the first comment or processing instruction; without a tree `detail`, for the
 *   log; `refused`: a document type declaration, or nesting over MAX_DEPTH
 */
export function readTree(utf8: Buffer, readers?: TagReaders, most?: number) {
  const reader = createTreeReader(readers, most);
  return reader.write(utf8) ?? reader.end();
}

export type TreeRead = ReturnType<typeof readTree>;

function errorOf(read: () => void) {
  try {
    read();
    return undefined;
  } catch (error) {
    const { kind, message } = error instanceof XmlError ? error : malformed(String(error));
    return { kind, detail: message };
  }
}

/** Reads a document in pieces of whole characters and line ends, until one gives an error. */
export function createTreeReader(readers?: TagReaders, most = MAX_NODES) {
  type Open = XmlElement & { children: XmlElement[] };
  let root: XmlElement | undefined;
  const open: Open[] = [];
  let nodes = 0;
  let oddity: string | undefined;

  const sink: XmlSink = {
    open(tag) {
      nodes += 1 + tag.attributeCount;
      if (nodes > most) throw unread(`more than ${most} elements and attributes`);
      if (open.length === MAX_DEPTH) {
        throw new XmlError('refused', `elements nested deeper than ${MAX_DEPTH}`);
      }
      const attributes = tag.attributes();
      const type = attributes.find(({ uri, local }) => uri === XSI && local === 'type');
      const prefix = type && /^([^:]+):/.exec(type.value)?.[1];
      const element: Open = {
        uri: tag.uri,
        local: tag.local,
        attributes,
        children: NO_CHILDREN,
        text: '',
        hasCData: false,
        selfClosing: tag.selfClosing,
        typeNamespace: prefix === undefined ? undefined : tag.namespaceOf(prefix),
      };
      const parent = open.at(-1);
      // An empty array would take room for seventeen with its first element.
      if (parent?.children === NO_CHILDREN) parent.children = [element];
      else parent?.children.push(element);
      root ??= element;
      open.push(element);
    },
    text(bytes, from, to, escaped) {
      const element = open.at(-1);
      if (element === undefined) return;
      const written = bytes.toString('utf8', from, to);
      // Joined it is flat; replaced, a long one takes 100 ms to become so.
      const text = written.includes('\r') ? written.split(/\r\n?/).join('\n') : written;
      element.text += escaped ? withoutReferences(text) : text;
    },
    close: () => void open.pop(),
    cdata() {
      const element = open.at(-1);
      if (element !== undefined) element.hasCData = true;
    },
    aside(what) {
      const top = open.at(-1);
      oddity ??= `${what} ${top === undefined ? 'outside the envelope' : `in ${top.local}`}`;
    },
    doctype() {
      throw new XmlError('refused', 'a document type declaration');
    },
  };
  const scanner = new XmlScanner(sink, readers);
  return {
    write: (piece: Buffer) => errorOf(() => scanner.write(piece)),
    end: () =>
      errorOf(() => scanner.end()) ?? { kind: 'tree' as const, root: root as XmlElement, oddity },
  };
}

export function isElement({ uri, local }: XmlElement, inUri: string, named: string): boolean {
  return local === named && uri === inUri;
}
