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

/** The element Session in the SOAP header of an answer. Offsets count bytes of UTF-8 text. */
export interface TextSession {
  readonly id: string;
  /** The value between its quotes. */
  readonly value: ByteRange;
  readonly element: ByteRange;
  /** It holds no content and, but for SOAP's, no other attribute: another id may take its place. */
  readonly plain: boolean;
}

/** The session with offsets into the bytes of the answer. */
export interface AnswerSession extends TextSession {
  readonly encoding: TextEncoding;
}

export const ENVELOPE = 1;
export const HEADER_OR_BODY = 2;
export const CHILD = 3;

/** Bytes of an answer, and of its text in UTF-8, within which the SOAP header must end. */
export const LONGEST_HEADER_BYTES = 64 * 1024;

/** Checks the outer elements against a SOAP 1.1 envelope: at most one header, then one body. */
export function envelopeFrame() {
  const frame = {
    inHeader: false,
    /** The header is over, or there is none. */
    headerRead: false,
    bodySeen: false,
    /** Counts the elements Session in the header (XMLA 1.1, "Session"). */
    sessions: 0,
    /** The open session; its element is its first tag. */
    opened: undefined as TextSession | undefined,
    session: undefined as TextSession | undefined,
    fits({ local, uri }: TagReader, depth: number): boolean {
      if (uri !== SOAP || frame.bodySeen) return false;
      if (depth === ENVELOPE) return local === 'Envelope';
      frame.inHeader = local === 'Header' && !frame.headerRead;
      frame.bodySeen = local === 'Body';
      frame.headerRead ||= frame.bodySeen;
      return frame.inHeader || frame.bodySeen;
    },
    /** Accepts a session with an id. */
    beginsSession(tag: TagReader): boolean {
      if (tag.local !== 'Session' || tag.uri !== XMLA) return false;
      frame.sessions += 1;
      const attributes = tag.attributes();
      const id = attributes.find(({ local, uri }) => local === 'SessionId' && uri === '');
      if (id === undefined || id.value === '') return false;
      frame.opened = {
        id: id.value,
        value: { start: id.start, end: id.end },
        element: { start: tag.start, end: tag.end },
        plain: attributes.every((attribute) => attribute === id || attribute.uri === SOAP),
      };
      return true;
    },
    /** Ends an element of a depth up to CHILD, with the offsets of its last tag. */
    close(depth: number, start: number, end: number): void {
      const { opened } = frame;
      if (depth === CHILD && opened !== undefined) {
        const { element } = opened;
        const isEmpty = start === element.start || start === element.end;
        frame.opened = undefined;
        frame.session = {
          ...opened,
          element: { start: element.start, end },
          plain: opened.plain && isEmpty,
        };
      } else if (depth === HEADER_OR_BODY) {
        frame.inHeader = false;
        frame.headerRead = true;
      }
    },
  };
  return frame;
}

/** Thrown by a sink to leave the scanner at once: the rest of a hostile chunk costs nothing. */
export class Refused extends Error {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason) {
    super(reason);
    this.reason = reason;
  }
}

const NOTHING = Buffer.alloc(0);

export function answerReader(contentType: string | undefined, sink: XmlSink, readers?: TagReaders) {
  const scanner = new XmlScanner(sink, readers);
  let decoder: TextDecoder | undefined;
  let encoding: TextEncoding = 'utf-8';
  /** Bytes before the encoding was known. */
  let first: Buffer = NOTHING;
  /** The start of the text, to turn its offsets into those of the bytes. */
  let head: Buffer = NOTHING;

  const isOffsetSame = () => encoding === 'utf-8' || encoding === 'us-ascii';

  function read(chunk: Buffer, ended: boolean): RefusalReason | undefined {
    let bytes = chunk;
    if (decoder === undefined) {
      if (first.length > 0) bytes = Buffer.concat([first, chunk]);
      const found = findEncoding(bytes, ended, contentType);
      if (found === 'unknown') return 'answer-encoding';
      // A copy: the bytes may be reused.
      first = found === 'more' ? Buffer.from(bytes) : NOTHING;
      if (found === 'more') return undefined;
      encoding = found.encoding;
      decoder = textDecoder(encoding);
    }
    const text = decoder.toUtf8(bytes);
    const missing = LONGEST_HEADER_BYTES - head.length;
    if (!isOffsetSame() && missing > 0) head = Buffer.concat([head, text.subarray(0, missing)]);
    const { broken } = decoder;
    return attempt(() => scanner.write(text, broken)) ?? (broken ? 'answer-encoding' : undefined);
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

  // No call may follow one that returns a refusal: of the sink, or of an unreadable answer.
  return {
    /** Reads on; the bytes may be reused afterwards. */
    write: (chunk: Uint8Array) =>
      read(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength), false),
    end(): RefusalReason | undefined {
      const refusal = decoder === undefined ? read(NOTHING, true) : undefined;
      if (refusal !== undefined) return refusal;
      return decoder?.pending === true ? 'not-well-formed' : attempt(() => scanner.end());
    },
    /** Converts a session that ends within LONGEST_HEADER_BYTES. */
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
