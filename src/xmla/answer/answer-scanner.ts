import { heldBack } from './held-token.ts';
import type { ScannerSink } from './scanner-sink.ts';
import {
  AMPERSAND,
  BANG,
  BRACKET,
  GREATER,
  LESS,
  QUESTION,
  SLASH,
  isBlank,
  startsWith,
} from './xml-bytes.ts';
import { instructionEnd } from './xml-instruction.ts';
import { hasWords, knownEnding, knownTag, type KnownTag } from './known-tags.ts';
import { newScannerMemory, type ScannerMemories } from './scanner-memory.ts';
import type { Name } from './xml-names.ts';
import { ILL_FORMED, UNFINISHED, readReference } from './xml-references.ts';
import {
  CDATA_START,
  COMMENT_START,
  DOCTYPE_START,
  SECTION_END,
  cdataEnd,
  commentEnd,
  declarationAt,
  endTagEnd,
  indexOf,
  isEscaped,
  textEnd,
} from './xml-sections.ts';

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

/** Bytes of an end tag around the name. */
const END_TAG = '</>'.length;

const NO_BYTES = new DataView(new ArrayBuffer(0));

const BYTE_ORDER_MARK = Buffer.from('\u{FEFF}');

/**
 * Reads an XML 1.0 document with namespaces that arrives in pieces, and holds it against every rule of
 * well-formedness that can be broken without a document type declaration, which it does not take. Made for the
 * answers of engines, which are long and made of few different tags: it works on the bytes, keeps one object for
 * each spelling of a name, makes none for an element, and compares tags that came before instead of reading them.
 * What it refuses beyond the rules are names of namespaces that are no plain URIs, `xml:` attributes other than `xml:lang`, and sizes that no answer has.
 * How the text is cut makes no difference, and it reads no byte more than a few times.
 *
 * The bytes must be UTF-8, each piece with whole characters.
 *
 * @param flagOf asked once for each name about its local part; the flag is in the tag
 * @param memories what was learnt of other documents; made with the same `flagOf`
 */
export function answerScanner(
  sink: ScannerSink,
  flagOf: (local: string) => number,
  memories?: ScannerMemories,
): AnswerScanner {
  const own = memories?.take() ?? newScannerMemory(flagOf);
  const { bound, reader, tags: memory } = own;
  const { document } = memory;
  const held = heldBack(LARGEST_TAG);
  // The elements that are open: their names, and the scopes around them.
  const open: Name[] = [];
  const outside: number[] = [];
  /** where the next start tag stands */
  let place = memory.root;
  /** of the bytes at hand */
  let view: DataView = NO_BYTES;
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
      if (mode === CONTENT) {
        if (bytes[at] !== LESS) next = readText(bytes, at);
        else if (bytes[at + 1] === SLASH) next = readEndTag(bytes, at);
        else next = readStart(bytes, at);
      } else next = readSection(bytes, at);
      if (next < 0) return at;
      at = next;
      if (waiting) return at;
    }
    return at;
  }

  function readText(bytes: Buffer, at: number): number {
    const read = textEnd(bytes, at);
    const escaped = isEscaped(read);
    let end = indexOf(read);
    if (bytes[end] === LESS) {
      giveText(bytes, at, end, escaped, bytes[end + 1] === SLASH);
      return end;
    }
    const cut = bytes[end] === AMPERSAND && readReference(bytes, end, bytes.length) === UNFINISHED;
    if (end < bytes.length && !cut) throw NOT_WELL_FORMED;
    // Two brackets may be the start of what text must not hold.
    if (end === bytes.length)
      for (let back = 0; back < 2 && end > at && bytes[end - 1] === BRACKET; back++) end -= 1;
    waiting = true;
    giveText(bytes, at, end, escaped, false);
    return end;
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
    const second = bytes[at + 1];
    if (second === undefined) return UNFINISHED;
    if (second === BANG) return readDeclaration(bytes, at);
    return second === QUESTION ? readInstruction(bytes, at) : readNewTag(bytes, at);
  }

  /** Reads known tags as long as they come, and whatever else begins with `<` but no end tag. */
  function readStart(bytes: Buffer, from: number): number {
    const { scope } = bound;
    let at = from;
    for (;;) {
      const known = knownTag(place, view, at, scope, document);
      if (known === undefined) return at === from ? readMarkup(bytes, at) : at;
      const over = rootSeen && open.length === 0;
      if (over || open.length === DEEPEST) throw NOT_WELL_FORMED;
      const { name, tag } = known;
      const next = at + known.length;
      const isOther = tag.empty || known.own !== undefined;
      if (isOther || sink.leaf === undefined) return readKnown(bytes, at, known);
      const seen = knownEnding(known, view, next, document);
      if (seen > 0 && sink.leaf(tag.verdict, bytes, next, next, false)) {
        place = name.behind;
        at = next + seen;
        continue;
      }
      const text = textEnd(bytes, next);
      const end = indexOf(text);
      const length = name.bytes.length + END_TAG;
      if (!hasWords(view, end, name.endTag, length)) return readKnown(bytes, at, known);
      if (!sink.leaf(tag.verdict, bytes, next, end, isEscaped(text)))
        return readKnown(bytes, at, known);
      memory.learnEnding(known, bytes, next, end + length);
      place = name.behind;
      at = end + length;
    }
  }

  function readKnown(bytes: Buffer, at: number, known: KnownTag): number {
    const next = at + known.length;
    const { scope } = bound;
    const tag = reader.recall(bytes, at, base, known);
    openElement(known.name, scope);
    rootSeen = true;
    sink.open(tag);
    if (known.tag.empty) closeElement(base + at, base + next);
    return next;
  }

  function readNewTag(bytes: Buffer, at: number): number {
    const next = reader.read(bytes, at, base);
    if (next < 0) return unlessEnded(bytes, at);
    const over = rootSeen && open.length === 0;
    if (over || next - at > LARGEST_TAG || open.length === DEEPEST) throw NOT_WELL_FORMED;
    const { scope } = bound;
    const name = reader.bind();
    if (name === undefined) throw NOT_WELL_FORMED;
    const here = place;
    openElement(name, scope);
    sink.open(reader.tag);
    memory.learn(here, bytes, at, reader.tag, { name, scope, own: reader.own });
    rootSeen = true;
    if (reader.tag.empty) closeElement(base + at, base + next);
    return next;
  }

  function openElement(name: Name, scope: number): void {
    outside[open.length] = scope;
    open.push(name);
    place = name.within;
  }

  function readEndTag(bytes: Buffer, at: number): number {
    const name = open.at(-1);
    if (name === undefined) return unlessEnded(bytes, at);
    const length = name.bytes.length + END_TAG;
    const plain = hasWords(view, at, name.endTag, length);
    const end = plain ? at + length : endTagEnd(bytes, at, name.bytes);
    if (end < 0) return unlessEnded(bytes, at);
    if (end - at > LARGEST_TAG) throw NOT_WELL_FORMED;
    closeElement(base + at, base + end);
    return end;
  }

  function closeElement(start: number, end: number): void {
    sink.close(start, end);
    const name = open.pop();
    if (bound.scope !== outside[open.length]) bound.release();
    if (name !== undefined) place = name.behind;
  }

  /** A tag that is wrong is so only when it has ended: else the verdict would depend on how the text is cut. */
  function unlessEnded(bytes: Buffer, at: number): number {
    if (held.tagEnds(bytes, at)) throw NOT_WELL_FORMED;
    return UNFINISHED;
  }

  function readDeclaration(bytes: Buffer, at: number): number {
    const start = declarationAt(bytes, at);
    if (start === UNFINISHED) return UNFINISHED;
    if (start === DOCTYPE_START) sink.doctype();
    if (start === COMMENT_START) mode = COMMENT;
    else if (start === CDATA_START && open.length > 0) mode = CDATA;
    else throw NOT_WELL_FORMED;
    return at + start.length;
  }

  /** Reads on in a comment or a CDATA section. */
  function readSection(bytes: Buffer, at: number): number {
    const end = mode === COMMENT ? commentEnd(bytes, at) : cdataEnd(bytes, at);
    if (end === undefined) throw NOT_WELL_FORMED;
    waiting = end < 0;
    const to = waiting ? ~end : end;
    if (mode === CDATA) giveText(bytes, at, to, false, false);
    if (waiting) return to;
    mode = CONTENT;
    return to + SECTION_END;
  }

  function readInstruction(bytes: Buffer, at: number): number {
    const end = instructionEnd(bytes, at, base + at === markLength, LARGEST_TAG);
    if (end === ILL_FORMED) throw NOT_WELL_FORMED;
    if (end === UNFINISHED) held.instruction();
    return end;
  }

  function feed(piece: Buffer): void {
    const bytes = held.with(piece);
    if (bytes === 'more') return;
    if (bytes === 'too-large') throw NOT_WELL_FORMED;
    waiting = false;
    view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const read = scan(bytes);
    held.keep(bytes, read);
    base += read;
  }

  return {
    write(chunk) {
      // What is held is put together with the end of its tag, and not with the whole chunk.
      const joint = held.isEmpty() ? 0 : chunk.indexOf(GREATER) + 1;
      if (joint > 0) feed(chunk.subarray(0, joint));
      if (joint < chunk.length) feed(chunk.subarray(joint));
    },
    end() {
      if (!held.isEmpty() || mode !== CONTENT || open.length > 0 || !rootSeen)
        throw NOT_WELL_FORMED;
      memories?.giveBack(own);
    },
  };
}
