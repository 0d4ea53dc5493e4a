import {
  AMPERSAND,
  APOSTROPHE,
  areAllowed,
  BANG,
  BRACKET,
  GREATER,
  HYPHEN,
  ILL_FORMED,
  isAllowed,
  isBlank,
  isWhite,
  LESS,
  QUESTION,
  QUOTE,
  referenceEnd,
  SLASH,
  splitName,
  startsWith,
  stopsAt,
  UNFINISHED,
} from './characters.ts';
import { isSpelt, LARGEST_TAG, TagReader } from './start-tag.ts';
import type { Name, StartTag } from './start-tag.ts';
import { malformed, unread } from './xml-error.ts';

/** Receives what the scanner reads, in document order. What it throws goes through to the caller of the scanner. */
export interface XmlSink {
  /** An element begins. The tag is good for this call only. */
  open(tag: StartTag): void;
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
  comment?(): void;
  /** A processing instruction other than the XML declaration. */
  instruction?(): void;
  /** A document type declaration begins. It must throw. */
  doctype(): never;
}

/** The least of what parsers allow (libxml2: 256). */
const DEEPEST = 200;

const TEXT_STOPS = stopsAt(LESS, AMPERSAND, GREATER);

const COMMENT_START = Buffer.from('<!--');
const CDATA_START = Buffer.from('<![CDATA[');
const DOCTYPE_START = Buffer.from('<!DOCTYPE');
const COMMENT_END = Buffer.from('--');
const CDATA_END = Buffer.from(']]>');
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

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
  readonly #reader: TagReader;
  // The elements that are open: their names, and how many declarations are in scope around them.
  readonly #open: Name[] = [];
  readonly #outside: number[] = [];
  #mode: 'content' | 'comment' | 'cdata' = 'content';
  #rootSeen = false;
  /** The offset in the document of the first of the bytes at hand. */
  #base = 0;
  /** Bytes of the byte order mark in front. */
  #markLength = 0;

  // What waits for its end is looked at again when that has come and not before, so that a long tag in many small
  // pieces costs no more than a short one.
  #held: Buffer[] = [];
  #heldSize = 0;
  #awaited: 'anything' | 'tag' | 'instruction' = 'anything';
  /** In a tag: the quote of the attribute value in which the bytes end, or 0. In an instruction: the last byte. */
  #state = 0;

  /** @param options.resolve false: prefixes are not looked up, and any name of a namespace will do */
  constructor(sink: XmlSink, { resolve = true } = {}) {
    this.#sink = sink;
    this.#reader = new TagReader(resolve);
  }

  /** @returns the index of the byte that ends what is awaited; -1 when it is not among the bytes */
  #endOfToken(bytes: Buffer, from: number): number {
    const { length } = bytes;
    let last = this.#state;
    let at = from;
    if (this.#awaited === 'instruction') {
      for (; at < length; at += 1) {
        const byte = bytes[at] ?? 0;
        if (byte === GREATER && last === QUESTION) return at;
        last = byte;
      }
    } else {
      for (; at < length; at += 1) {
        const byte = bytes[at] ?? 0;
        if (last !== 0) {
          if (byte === last) last = 0;
        } else if (byte === GREATER) return at;
        else if (byte === QUOTE || byte === APOSTROPHE) last = byte;
      }
    }
    this.#state = last;
    return -1;
  }

  /** The same of what begins at `at`. */
  #endOf(token: 'tag' | 'instruction', bytes: Buffer, at: number): number {
    this.#awaited = token;
    this.#state = 0;
    // The first two bytes of an instruction are not the start of its end.
    const end = this.#endOfToken(bytes, token === 'tag' ? at + 1 : at + 2);
    if (end < 0) return end;
    this.#awaited = 'anything';
    if (end - at > LARGEST_TAG) throw unread('a tag that is too long');
    return end;
  }

  /** @returns how many of the bytes were read to the end; what stands behind waits for more */
  #scan(bytes: Buffer): number {
    const { length } = bytes;
    let at = 0;
    if (this.#base === 0 && startsWith(bytes, 0, BYTE_ORDER_MARK)) at = this.#markLength = 3;
    while (at < length) {
      const next =
        this.#mode === 'content' ? this.#readContent(bytes, at) : this.#readSection(bytes, at);
      if (next < 0) return ~next;
      at = next;
    }
    return at;
  }

  // Each of these returns the index behind what it has read, or ~index when what stands there waits for more.

  #readContent(bytes: Buffer, at: number): number {
    if (bytes[at] !== LESS) return this.#readText(bytes, at);
    switch (bytes[at + 1]) {
      case undefined:
        return ~at;
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
    return ~end;
  }

  #giveText(bytes: Buffer, from: number, to: number, escaped: boolean, closes: boolean): void {
    if (from === to) return;
    if (this.#open.length > 0) this.#sink.text?.(bytes, from, to, escaped, closes);
    else if (!isBlank(bytes, from, to)) throw malformed('text this.#outside of the root element');
  }

  #readStartTag(bytes: Buffer, at: number): number {
    const declarations = this.#reader.declarations;
    let end: number;
    try {
      end = this.#reader.read(bytes, at, this.#base);
    } catch (error) {
      // A tag that is wrong is so only when it has ended: how the text is cut must make no difference.
      if (this.#endOf('tag', bytes, at) < 0) return ~at;
      throw error;
    }
    if (end - at > LARGEST_TAG) throw unread('a tag that is too long');
    if (this.#rootSeen && this.#open.length === 0) throw malformed('a second root element');
    if (this.#open.length === DEEPEST) throw unread(`elements nested deeper than ${DEEPEST}`);
    this.#outside[this.#open.length] = declarations;
    this.#open.push(this.#reader.name);
    this.#rootSeen = true;
    this.#sink.open(this.#reader);
    if (this.#reader.empty) this.#closeElement(this.#base + at, this.#base + end + 1);
    return end + 1;
  }

  #readEndTag(bytes: Buffer, at: number): number {
    const spelt = this.#open.at(-1)?.spelt ?? '';
    let end = at + 2 + spelt.length;
    const isOwn = spelt !== '' && isSpelt(bytes, at + 2, end, spelt);
    if (isOwn) while (isWhite(bytes[end])) end += 1;
    if (!isOwn || bytes[end] !== GREATER) {
      if (this.#endOf('tag', bytes, at) < 0) return ~at;
      throw malformed('an end tag that is not that of the this.#open element');
    }
    if (end - at > LARGEST_TAG) throw unread('a tag that is too long');
    this.#closeElement(this.#base + at, this.#base + end + 1);
    return end + 1;
  }

  #closeElement(start: number, end: number): void {
    this.#sink.close?.(start, end);
    this.#open.pop();
    this.#reader.release(this.#outside[this.#open.length] ?? 0);
  }

  #readDeclaration(bytes: Buffer, at: number): number {
    if (startsWith(bytes, at, COMMENT_START)) {
      this.#sink.comment?.();
      this.#mode = 'comment';
      return at + COMMENT_START.length;
    }
    if (startsWith(bytes, at, CDATA_START)) {
      if (this.#open.length === 0) throw malformed('text this.#outside of the root element');
      this.#sink.cdata?.();
      this.#mode = 'cdata';
      return at + CDATA_START.length;
    }
    if (startsWith(bytes, at, DOCTYPE_START)) this.#sink.doctype();
    const rest = bytes.subarray(at);
    const starts = [COMMENT_START, CDATA_START, DOCTYPE_START];
    if (starts.some((start) => startsWith(start, 0, rest))) return ~at;
    throw malformed('a declaration that is none');
  }

  /** Reads on in a comment or a CDATA section. */
  #readSection(bytes: Buffer, at: number): number {
    const isComment = this.#mode === 'comment';
    const found = bytes.indexOf(isComment ? COMMENT_END : CDATA_END, at);
    const rest = isComment ? endBefore(HYPHEN, 1, bytes, at) : endBefore(BRACKET, 2, bytes, at);
    const end = found < 0 ? rest : found;
    if (!areAllowed(bytes, at, end)) throw malformed('a forbidden character');
    if (!isComment) this.#giveText(bytes, at, end, false, false);
    const last = bytes[found + 2];
    if (found < 0 || last === undefined) return ~end;
    if (last !== GREATER) throw malformed('-- in a comment');
    this.#mode = 'content';
    return found + 3;
  }

  #readInstruction(bytes: Buffer, at: number): number {
    const end = this.#endOf('instruction', bytes, at);
    if (end < 0) return ~at;
    const text = bytes.toString('utf8', at, end + 1);
    const version = this.#base + at === this.#markLength ? DECLARATION.exec(text)?.[2] : undefined;
    // Others count other characters as line ends, so that a client might read another text than was inspected.
    if (version !== undefined && version !== '0') throw unread('not XML 1.0');
    if (version === undefined) {
      const target = TARGET.exec(text)?.[1] ?? '';
      const isWell = splitName(target)?.prefix === '' && target.toLowerCase() !== 'xml';
      if (!isWell || !areAllowed(bytes, at, end)) throw malformed('a processing instruction');
      this.#sink.instruction?.();
    }
    return end + 1;
  }

  #hold(bytes: Buffer): void {
    this.#held.push(Buffer.from(bytes));
    this.#heldSize += bytes.length;
    if (this.#heldSize > LARGEST_TAG) throw unread('a tag that is too long');
  }

  #feed(piece: Buffer): void {
    let bytes = piece;
    if (this.#held.length > 0) {
      if (this.#awaited !== 'anything' && this.#endOfToken(piece, 0) < 0) return this.#hold(piece);
      bytes = Buffer.concat([...this.#held, piece]);
    }
    this.#held = [];
    this.#heldSize = 0;
    this.#awaited = 'anything';
    const read = this.#scan(bytes);
    this.#base += read;
    if (read < bytes.length) this.#hold(bytes.subarray(read));
  }

  /**
   * Reads on. The bytes may be reused afterwards.
   * @throws XmlError at the first thing that is ill-formed or not read; no call may follow
   */
  write(chunk: Buffer): void {
    // What is held is put together with the end of its tag, and not with the whole chunk.
    const joint = this.#held.length === 0 ? 0 : chunk.indexOf(GREATER) + 1;
    if (joint > 0) this.#feed(chunk.subarray(0, joint));
    if (joint < chunk.length) this.#feed(chunk.subarray(joint));
  }

  /** Call once, behind the last byte. @throws XmlError when the document is not whole */
  end(): void {
    if (
      this.#held.length > 0 ||
      this.#mode !== 'content' ||
      this.#open.length > 0 ||
      !this.#rootSeen
    ) {
      throw malformed('no end');
    }
  }
}

/** The end of the bytes, less as many of one byte there, which may begin the end of a section. */
function endBefore(byte: number, most: number, bytes: Buffer, from: number): number {
  let end = bytes.length;
  for (let back = 0; back < most && end > from && bytes[end - 1] === byte; back += 1) end -= 1;
  return end;
}
