import {
  AMPERSAND,
  GREATER,
  ILL_FORMED,
  isAllowed,
  isBlank,
  isPlainName,
  isWhite,
  LARGEST_TAG,
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

/** Receives what the scanner reads, in document order. What it throws goes through to the caller of the scanner. */
export interface XmlSink {
  /** An element begins. The tag is good for this call only. */
  open(tag: TagReader): void;
  /**
   * Text within the root, or a part of it: bytes from `from` up to `to`, good for this call only.
   *
   * @param escaped whether references stand in it
   * @param closes whether an end tag comes right behind it
   */
  text?(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void;
  /** An element ends; its end tag, or its only tag, stands from `start` up to `end` of the document. */
  close?(start: number, end: number): void;
  /** A CDATA section begins, whose text follows. */
  cdata?(): void;
  /** A processing instruction is one other than the XML declaration. */
  aside?(what: 'a comment' | 'a processing instruction'): void;
  /** A document type declaration begins. It must throw. */
  doctype(): never;
}

/** The least of what parsers allow (libxml2: 256). */
const DEEPEST = 200;
/** So many readers wait for a document; more are needed only while more documents are read at one time. */
const MOST_WAITING = 4;
/** What waits for its end is looked at when twice as much of it is there, and so often when it may end before. */
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
 * Reads an XML 1.0 document with namespaces that arrives in pieces, and holds it against every rule of
 * well-formedness that can be broken without a document type declaration, which it does not take. It works on the
 * bytes, keeps one object for each spelling of a name and makes none for an element. What it refuses beyond the rules
 * are other versions of XML, names of namespaces that are no plain URIs, `xml:` attributes other than `xml:lang` and
 * `xml:space`, and sizes that no document of an engine or a client has. How the text is cut makes no difference, and
 * it reads no byte more than a few times.
 *
 * The bytes must be UTF-8, each piece with whole characters.
 */
export class XmlScanner {
  readonly #sink: XmlSink;
  #readers: TagReaders;
  readonly #reader: TagReader;
  /** How the elements that are open are spelt. */
  readonly #open: Uint8Array[] = [];
  #mode: 'content' | 'comment' | 'cdata' = 'content';
  #rootSeen = false;
  /** The offset in the document of the first of the bytes at hand. */
  #base = 0;
  /** Bytes of the byte order mark in front. */
  #markLength = 0;

  // What waits for its end: how much of it there is, how much of that was looked at, and how often.
  #held: Buffer[] = [];
  #heldSize = 0;
  #lookedAt = 0;
  #looks = 0;

  /**
   * @param readers those that wait for a document; the one that is taken is given back behind it
   * @param resolve false: prefixes are not looked up, and any name of a namespace will do
   */
  constructor(sink: XmlSink, readers: TagReaders = [], resolve = true) {
    this.#sink = sink;
    this.#readers = readers;
    this.#reader = readers.pop() ?? new TagReader();
    this.#reader.begin(resolve);
  }

  /** @returns how many of the bytes were read to the end; what stands behind waits for more */
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

  // Each of these returns the index behind what it has read, which is `at` when what stands there waits for more.

  #readContent(bytes: Buffer, at: number): number {
    if (bytes[at] !== LESS) return this.#readText(bytes, at);
    const end = this.#readMarkup(bytes, at);
    if (end - at > LARGEST_TAG) throw unread('a tag that is too long');
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
        if (next === ILL_FORMED) throw malformed('a reference that is none');
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
    if (reader.empty) this.#closeElement(at, end);
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
    throw malformed('a declaration that is none');
  }

  /** Reads on in a comment or a CDATA section. */
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
    // Others count other characters as line ends, so that a client might read another text than was inspected.
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
    if (rest > LARGEST_TAG) throw unread('a tag that is too long');
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

  /** Reads what was held and the chunk, of which mostly no more is copied than what ends the tag. */
  #join(chunk: Buffer): void {
    const found = chunk.indexOf(GREATER);
    const end = found < 0 ? chunk.length : found + 1;
    this.#look(Buffer.concat([...this.#held, chunk.subarray(0, end)]));
    if (end === chunk.length) return;
    const rest = chunk.subarray(end);
    this.#look(this.#heldSize === 0 ? rest : Buffer.concat([...this.#held, rest]));
  }

  /** Gives the reader back, once. */
  #release(): void {
    if (this.#reader.finish() && this.#readers.length < MOST_WAITING) {
      this.#readers.push(this.#reader);
    }
    this.#readers = [];
  }

  /**
   * Reads on. The bytes may be reused afterwards.
   * @param isLast nothing can follow that may be read
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
      if (!isOver || !this.#rootSeen) throw malformed('no end');
    } finally {
      this.#release();
    }
  }
}

/** A character that XML 1.0 forbids, in UTF-8. */
const FORBIDDEN = /[^\t\n\r -\xFF]|\xEF\xBF[\xBE\xBF]/;

/** Whether every character from `from` up to `to` is one that XML 1.0 allows. */
function areAllowed(bytes: Buffer, from: number, to: number): boolean {
  return !FORBIDDEN.test(bytes.toString('latin1', from, to));
}

/** The end of the bytes, less as many of one byte there, which may begin the end of a section. */
function endBefore(byte: number, most: number, bytes: Buffer, from: number): number {
  let end = bytes.length;
  for (let back = 0; back < most && end > from && bytes[end - 1] === byte; back += 1) end -= 1;
  return end;
}

export const XSI = 'http://www.w3.org/2001/XMLSchema-instance';

/** Elements nested deeper than this are refused; an XMLA request needs about seven. */
export const MAX_DEPTH = 64;
/**
 * More elements or attributes than this and a document is not read. Requests of clients hold some hundreds, and to
 * read so many takes about 10 ms, for which others wait.
 */
export const MAX_NODES = 10_000;

export interface XmlElement {
  readonly uri: string;
  readonly local: string;
  /** Without namespace declarations. */
  readonly attributes: readonly TagAttribute[];
  readonly children: readonly XmlElement[];
  /** All text and CDATA directly in this element, joined; line ends as XML 1.0 §2.11 says; not trimmed. */
  text: string;
  hasCData: boolean;
  readonly selfClosing: boolean;
  /** The namespace to which the prefix in `xsi:type` is bound; undefined without prefix or `xsi:type`. */
  readonly typeNamespace: string | undefined;
}

const NO_CHILDREN: XmlElement[] = [];

/**
 * Reads a whole document strictly. Never throws.
 *
 * @param utf8 the document in UTF-8
 * @param most elements and attributes of one that is not of a client
 * @returns `oddity`, the first comment or processing instruction, in words; without a tree `detail`, why, in words for
 *   the log: `refused` is a document type declaration, or nesting over MAX_DEPTH
 */
export function readTree(utf8: Buffer, readers?: TagReaders, most = MAX_NODES) {
  /** An element while it is read. */
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
        selfClosing: tag.empty,
        typeNamespace: prefix === undefined ? undefined : tag.namespaceOf(prefix),
      };
      const parent = open.at(-1);
      // An empty array would take room for seventeen with its first.
      if (parent?.children === NO_CHILDREN) parent.children = [element];
      else parent?.children.push(element);
      root ??= element;
      open.push(element);
    },
    text(bytes, from, to, escaped) {
      const element = open.at(-1);
      if (element === undefined) return;
      const written = bytes.toString('utf8', from, to);
      const text = written.includes('\r') ? written.replaceAll(/\r\n?/g, '\n') : written;
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
  try {
    const scanner = new XmlScanner(sink, readers);
    scanner.write(utf8);
    scanner.end();
  } catch (error) {
    const { kind, message } = error instanceof XmlError ? error : malformed(String(error));
    return { kind, detail: message };
  }
  if (root === undefined) return { kind: 'malformed' as const, detail: 'no root element' };
  return { kind: 'tree' as const, root, oddity };
}

export function isElement({ uri, local }: XmlElement, inUri: string, named: string): boolean {
  return local === named && uri === inUri;
}
