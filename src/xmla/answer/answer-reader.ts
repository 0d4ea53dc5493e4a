import type { RefusalReason } from '../../common/reasons.ts';
import type { TagReader, TagReaders } from '../../xml/start-tag.ts';
import { findEncoding, textDecoder } from '../../xml/text-encoding.ts';
import type { TextDecoder, TextEncoding } from '../../xml/text-encoding.ts';
import { XmlScanner, type XmlSink } from '../../xml/xml-scanner.ts';
import { SOAP, XMLA } from '../names.ts';

export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** The element Session in the SOAP header of an answer. Offsets count the bytes of the text in UTF-8. */
export interface TextSession {
  /** The value of its attribute SessionId, decoded. */
  readonly id: string;
  /** The bytes of that value, between its quotes: from `start`, up to and without `end`. */
  readonly value: ByteRange;
  /** The bytes of the whole element with its end tag. */
  readonly element: ByteRange;
  /**
   * Whether it says nothing but the id: no other attribute than those of namespaces and of SOAP, no content. Only
   * then may another id stand in its place.
   */
  readonly plain: boolean;
}

/** The same as it stands in the bytes of the answer. */
export interface AnswerSession extends TextSession {
  readonly encoding: TextEncoding;
}

/** Whether an element that stands directly in the SOAP header is Session (XMLA 1.1, "Session"). */
export function isSession(tag: TagReader): boolean {
  return tag.local === 'Session' && tag.uri === XMLA;
}

/** What the first tag of it says, with that tag as the element; undefined when it names no session. */
export function openSession(tag: TagReader): TextSession | undefined {
  const attributes = tag.attributes();
  const id = attributes.find(({ local, uri }) => local === 'SessionId' && uri === '');
  if (id === undefined || id.value === '') return undefined;
  return {
    id: id.value,
    value: { start: id.start, end: id.end },
    element: { start: tag.start, end: tag.end },
    plain: attributes.every((attribute) => attribute === id || attribute.uri === SOAP),
  };
}

/** The whole of it, when its last tag starts and ends there. */
export function closeSession(open: TextSession, start: number, end: number): TextSession {
  const { element } = open;
  const isEmpty = start === element.start || start === element.end;
  return { ...open, element: { start: element.start, end }, plain: open.plain && isEmpty };
}

/** Thrown by a sink to leave the scanner at once, so that the rest of a hostile chunk costs nothing. */
export class Refused extends Error {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason) {
    super(reason);
    this.reason = reason;
  }
}

const NOTHING = Buffer.alloc(0);

/**
 * Reads the bytes of an answer as XML: finds the encoding, decodes, scans.
 *
 * @param answer.headLimit bytes of the text in UTF-8 in which places can be told in those of the answer
 */
export function answerReader(answer: {
  readonly contentType: string | undefined;
  readonly sink: XmlSink;
  readonly headLimit: number;
  readonly readers?: TagReaders | undefined;
}) {
  const scanner = new XmlScanner(answer.sink, { readers: answer.readers });
  let decoder: TextDecoder | undefined;
  let encoding: TextEncoding = 'utf-8';
  /** What came before the encoding was known. */
  let first: Buffer = NOTHING;
  /** The start of the text, where its offsets are not those of the bytes. */
  let head: Buffer = NOTHING;

  const isOffsetSame = () => encoding === 'utf-8' || encoding === 'us-ascii';

  function read(chunk: Buffer, ended: boolean): RefusalReason | undefined {
    let bytes = chunk;
    if (decoder === undefined) {
      if (first.length > 0) bytes = Buffer.concat([first, chunk]);
      const found = findEncoding(bytes, ended, answer.contentType);
      if (found === 'unknown') return 'answer-encoding';
      // A copy: the bytes may be reused.
      first = found === 'more' ? Buffer.from(bytes) : NOTHING;
      if (found === 'more') return undefined;
      encoding = found.encoding;
      decoder = textDecoder(encoding);
    }
    const text = decoder.toUtf8(bytes);
    const missing = answer.headLimit - head.length;
    if (!isOffsetSame() && missing > 0) head = Buffer.concat([head, text.subarray(0, missing)]);
    // Nothing is proved by what may be thrown.
    return attempt(() => scanner.write(text)) ?? (decoder.broken ? 'answer-encoding' : undefined);
  }

  function inBytes(offset: number): number {
    if (isOffsetSame()) return offset;
    const characters = head.toString('utf8', 0, offset).length;
    return encoding === 'iso-8859-1' ? characters : characters * 2;
  }

  const rangeInBytes = ({ start, end }: ByteRange): ByteRange => ({
    start: inBytes(start),
    end: inBytes(end),
  });

  // No call may follow one that returns why it is over: what the sink has thrown, or what makes the answer unreadable.
  return {
    /** Reads on. The bytes may be reused afterwards. */
    write: (chunk: Uint8Array) =>
      read(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength), false),
    /** After the last byte: whatever is missing makes it unreadable. */
    end(): RefusalReason | undefined {
      const refusal = decoder === undefined ? read(NOTHING, true) : undefined;
      if (refusal !== undefined) return refusal;
      return decoder?.pending === true ? 'not-well-formed' : attempt(() => scanner.end());
    },
    /** The session as it stands in the bytes; for one that ends within the first `headLimit` bytes of the text. */
    inBytes({ id, value, element, plain }: TextSession): AnswerSession {
      return { id, value: rangeInBytes(value), element: rangeInBytes(element), plain, encoding };
    },
  };
}

function attempt(step: () => void): RefusalReason | undefined {
  try {
    return void step();
  } catch (error) {
    return error instanceof Refused ? error.reason : 'not-well-formed';
  }
}
