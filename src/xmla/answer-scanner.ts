import { heldBack } from './held-token.ts';
import type { ScannerSink } from './scanner-sink.ts';
import {
  AMPERSAND,
  BANG,
  BRACKET,
  GREATER,
  HYPHEN,
  LESS,
  QUESTION,
  SLASH,
  isAllowed,
  isBlank,
  isWhite,
  startsWith,
  stopsAt,
} from './xml-bytes.ts';
import { isInstruction } from './xml-instruction.ts';
import { nameTable } from './xml-names.ts';
import type { Name } from './xml-names.ts';
import { ILL_FORMED, UNFINISHED, readReference } from './xml-references.ts';
import { tagReader } from './xml-tag.ts';

export interface AnswerScanner {
  /** Reads on; throws at the first thing that is ill-formed. */
  write(bytes: Buffer): void;
  /** Throws when the document is not whole. Call once. */
  end(): void;
}

/** The least of what parsers allow (libxml2: 256). */
const DEEPEST = 200;
/** Bytes of a tag or a processing instruction. Larger ones would have to be held, and no engine sends any. */
const LARGEST_TAG = 64 * 1024;

const NOT_WELL_FORMED = new Error('the text is not well-formed XML');

const CONTENT = 0;
const COMMENT = 1;
const CDATA = 2;

const TEXT_STOPS = stopsAt(LESS, AMPERSAND, GREATER);
const COMMENT_STOPS = stopsAt(HYPHEN);
const CDATA_STOPS = stopsAt(BRACKET);

const COMMENT_START = Buffer.from('<!--');
const CDATA_START = Buffer.from('<![CDATA[');
const DOCTYPE_START = Buffer.from('<!DOCTYPE');
const CDATA_END = Buffer.from(']]>');
const BYTE_ORDER_MARK = Buffer.from('\u{FEFF}');

/**
 * Reads an XML 1.0 document with namespaces that arrives in pieces, and holds it against every rule of
 * well-formedness that can be broken without a document type declaration, which it does not take. Made for the
 * answers of engines, which are long and made of few different tags: it works on the bytes, keeps one object for
 * each spelling of a name, and makes none for an element. What it refuses beyond the rules are names of namespaces
 * that are no plain URIs, `xml:` attributes other than `xml:lang`, and sizes that no answer has.
 * How the text is cut makes no difference, and it reads no byte more than a few times.
 *
 * The bytes must be UTF-8, each piece with whole characters.
 *
 * @param flagOf asked once for each name about its local part; the flag is in the tag
 */
export function answerScanner(sink: ScannerSink, flagOf: (local: string) => number): AnswerScanner {
  const reader = tagReader(nameTable(flagOf));
  const held = heldBack(LARGEST_TAG);
  const open: Name[] = [];
  let mode = CONTENT;
  let rootSeen = false;
  /** the offset in the document of the first of the bytes at hand */
  let base = 0;
  /** how many bytes of a byte order mark stand in front */
  let markLength = 0;
  /** true when the text at hand ends in something that only the next bytes can tell */
  let waiting = false;

  /** @returns how many of the bytes were read to the end; what stands behind waits for more */
  function scan(bytes: Buffer): number {
    const { length } = bytes;
    let at = 0;
    if (base === 0 && startsWith(bytes, 0, BYTE_ORDER_MARK)) {
      markLength = BYTE_ORDER_MARK.length;
      at = markLength;
    }
    while (at < length) {
      let next: number;
      if (mode === CONTENT) next = bytes[at] === LESS ? readMarkup(bytes, at) : readText(bytes, at);
      else if (mode === COMMENT) next = readComment(bytes, at);
      else next = readCdata(bytes, at);
      if (next < 0) return at;
      at = next;
      if (waiting) return at;
    }
    return at;
  }

  function readText(bytes: Buffer, at: number): number {
    const { length } = bytes;
    // In the function itself, because the engine of the language reads it anew from a module for each byte.
    const stops = TEXT_STOPS;
    let index = at;
    let escaped = false;
    for (;;) {
      while (index < length && stops[bytes[index] ?? 0] === 0) index += 1;
      if (index === length) break;
      const byte = bytes[index];
      if (byte === LESS) {
        giveText(bytes, at, index, escaped, bytes[index + 1] === SLASH);
        return index;
      }
      if (byte === AMPERSAND) {
        const next = readReference(bytes, index, length);
        if (next === UNFINISHED) break;
        if (next === ILL_FORMED) throw NOT_WELL_FORMED;
        escaped = true;
        index = next;
      } else if (byte === GREATER) {
        if (index - at >= 2 && bytes[index - 1] === BRACKET && bytes[index - 2] === BRACKET)
          throw NOT_WELL_FORMED;
        index += 1;
      } else if (isAllowed(bytes, index)) index += 1;
      else throw NOT_WELL_FORMED;
    }
    // Two brackets may be the start of what text must not hold.
    if (index === length)
      for (let back = 0; back < 2 && index > at && bytes[index - 1] === BRACKET; back++) index -= 1;
    waiting = true;
    giveText(bytes, at, index, escaped, false);
    return index;
  }

  function giveText(
    bytes: Buffer,
    from: number,
    to: number,
    escaped: boolean,
    closes: boolean,
  ): void {
    if (from === to) return;
    if (open.length > 0) sink.text(bytes, from, to, escaped, closes);
    else if (!isBlank(bytes, from, to)) throw NOT_WELL_FORMED;
  }

  function readMarkup(bytes: Buffer, at: number): number {
    switch (bytes[at + 1]) {
      case undefined:
        return UNFINISHED;
      case SLASH:
        return readEndTag(bytes, at);
      case BANG:
        return readDeclaration(bytes, at);
      case QUESTION:
        return readInstruction(bytes, at);
      default:
        return readStartTag(bytes, at);
    }
  }

  function readStartTag(bytes: Buffer, at: number): number {
    const next = reader.read(bytes, at, base);
    if (next < 0) return unlessEnded(bytes, at);
    const over = rootSeen && open.length === 0;
    if (over || next - at > LARGEST_TAG || open.length === DEEPEST) throw NOT_WELL_FORMED;
    const name = reader.bind();
    if (name === undefined) throw NOT_WELL_FORMED;
    rootSeen = true;
    open.push(name);
    sink.open(reader.tag);
    if (reader.tag.empty) closeElement(base + at, base + next);
    return next;
  }

  function readEndTag(bytes: Buffer, at: number): number {
    const name = open.at(-1);
    if (name === undefined) return unlessEnded(bytes, at);
    const expected = name.bytes;
    const { length } = expected;
    let end = at + 2 + length;
    if (end >= bytes.length) return unlessEnded(bytes, at);
    for (let index = 0; index < length; index++)
      if (bytes[at + 2 + index] !== expected[index]) return unlessEnded(bytes, at);
    while (end < bytes.length && isWhite(bytes[end] ?? 0)) end += 1;
    if (bytes[end] !== GREATER) return unlessEnded(bytes, at);
    if (end + 1 - at > LARGEST_TAG) throw NOT_WELL_FORMED;
    closeElement(base + at, base + end + 1);
    return end + 1;
  }

  function closeElement(start: number, end: number): void {
    sink.close(start, end);
    reader.release();
    open.pop();
  }

  /** A tag that is wrong is so only when it has ended: else the verdict would depend on how the text is cut. */
  function unlessEnded(bytes: Buffer, at: number): number {
    if (held.tagEnds(bytes, at)) throw NOT_WELL_FORMED;
    return UNFINISHED;
  }

  function readDeclaration(bytes: Buffer, at: number): number {
    if (startsWith(bytes, at, COMMENT_START)) {
      mode = COMMENT;
      return at + COMMENT_START.length;
    }
    if (startsWith(bytes, at, CDATA_START)) {
      if (open.length === 0) throw NOT_WELL_FORMED;
      mode = CDATA;
      return at + CDATA_START.length;
    }
    if (startsWith(bytes, at, DOCTYPE_START)) sink.doctype();
    const rest = bytes.subarray(at);
    for (const start of [COMMENT_START, CDATA_START, DOCTYPE_START])
      if (rest.length < start.length && startsWith(start, 0, rest)) return UNFINISHED;
    throw NOT_WELL_FORMED;
  }

  function readComment(bytes: Buffer, at: number): number {
    const { length } = bytes;
    let index = at;
    for (;;) {
      while (index < length && COMMENT_STOPS[bytes[index] ?? 0] === 0) index += 1;
      if (index === length) return index;
      if (bytes[index] === HYPHEN) {
        const next = bytes[index + 1];
        if (next === HYPHEN && index + 2 < length) {
          if (bytes[index + 2] !== GREATER) throw NOT_WELL_FORMED;
          mode = CONTENT;
          return index + 3;
        }
        if (next === undefined || next === HYPHEN) {
          waiting = true;
          return index;
        }
      } else if (!isAllowed(bytes, index)) throw NOT_WELL_FORMED;
      index += 1;
    }
  }

  function readCdata(bytes: Buffer, at: number): number {
    const { length } = bytes;
    let index = at;
    for (;;) {
      while (index < length && CDATA_STOPS[bytes[index] ?? 0] === 0) index += 1;
      const ends = index < length && startsWith(bytes, index, CDATA_END);
      if (ends || index === length || (bytes[index] === BRACKET && index + 2 >= length)) {
        giveText(bytes, at, index, false, false);
        if (!ends) {
          waiting = true;
          return index;
        }
        mode = CONTENT;
        return index + CDATA_END.length;
      }
      if (!isAllowed(bytes, index)) throw NOT_WELL_FORMED;
      index += 1;
    }
  }

  function readInstruction(bytes: Buffer, at: number): number {
    const end = bytes.indexOf('?>', at + 2);
    if (end < 0) {
      held.instruction();
      return UNFINISHED;
    }
    const text = bytes.toString('utf8', at, end + 2);
    const first = base + at === markLength;
    if (end + 2 - at > LARGEST_TAG || !isInstruction(text, first)) throw NOT_WELL_FORMED;
    return end + 2;
  }

  return {
    write(chunk) {
      const bytes = held.with(chunk);
      if (bytes === 'more') return;
      if (bytes === 'too-large') throw NOT_WELL_FORMED;
      waiting = false;
      const read = scan(bytes);
      held.keep(bytes, read);
      base += read;
    },
    end() {
      if (!held.isEmpty() || mode !== CONTENT || open.length > 0 || !rootSeen)
        throw NOT_WELL_FORMED;
    },
  };
}
