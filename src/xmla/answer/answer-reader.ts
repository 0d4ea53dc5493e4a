import { XmlScanner } from '../../xml/xml-scanner.ts';
import type { XmlSink } from '../../xml/xml-scanner.ts';
import { findEncoding, textDecoder } from '../../xml/text-encoding.ts';
import type { TextDecoder, TextEncoding } from '../../xml/text-encoding.ts';
import type { AnswerSession, ByteRange, TextSession } from './answer-session.ts';

const NOTHING = Buffer.alloc(0);

/** What makes it impossible to read on. */
export type ReaderFailure = 'answer-encoding' | 'not-well-formed';

export interface AnswerReader {
  /** Reads on. The bytes may be reused afterwards. Not to be called after a failure. */
  write(chunk: Uint8Array): void;
  /** After the last byte: whatever is missing is a failure. */
  end(): void;
  /** The session as it stands in the bytes; for one that ends within the first `headLimit` bytes of the text. */
  inBytes(session: TextSession): AnswerSession;
}

/**
 * Reads the bytes of an answer as XML: finds the encoding, decodes, scans.
 *
 * @param answer.failed told what makes the answer unreadable. Also told after the sink has thrown, which is how a
 *   sink stops the reading and says why by itself.
 * @param answer.headLimit bytes of the text in UTF-8 in which places can be told in those of the answer
 */
export function answerReader(answer: {
  readonly contentType: string | undefined;
  readonly sink: XmlSink;
  readonly failed: (failure: ReaderFailure) => void;
  readonly headLimit: number;
}): AnswerReader {
  const { failed, headLimit } = answer;
  const scanner = new XmlScanner(answer.sink);
  let decoder: TextDecoder | undefined;
  let encoding: TextEncoding = 'utf-8';
  /** What came before the encoding was known. */
  let first: Buffer = NOTHING;
  /** The start of the text, where its offsets are not those of the bytes. */
  let head: Buffer = NOTHING;

  const isOffsetSame = () => encoding === 'utf-8' || encoding === 'us-ascii';

  function begin(chunk: Buffer, ended: boolean): void {
    const all = first.length === 0 ? chunk : Buffer.concat([first, chunk]);
    const found = findEncoding(all, ended, answer.contentType);
    if (found === 'more') {
      // A copy: the bytes may be reused.
      first = Buffer.from(all);
      return;
    }
    if (found === 'unknown') return failed('answer-encoding');
    encoding = found.encoding;
    decoder = textDecoder(encoding);
    first = NOTHING;
    read(decoder, all);
  }

  function read(decoder: TextDecoder, chunk: Buffer): void {
    const text = decoder.toUtf8(chunk);
    const missing = headLimit - head.length;
    if (!isOffsetSame() && missing > 0) head = Buffer.concat([head, text.subarray(0, missing)]);
    // Nothing is proved by what may be thrown.
    if (attempt(() => scanner.write(text)) && decoder.broken) failed('answer-encoding');
  }

  function attempt(step: () => void): boolean {
    try {
      step();
      return true;
    } catch {
      failed('not-well-formed');
      return false;
    }
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

  return {
    write(chunk) {
      if (chunk.length === 0) return;
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      if (decoder === undefined) begin(bytes, false);
      else read(decoder, bytes);
    },
    end() {
      if (decoder === undefined) begin(NOTHING, true);
      if (decoder === undefined) return;
      if (decoder.pending) failed('not-well-formed');
      else attempt(() => scanner.end());
    },
    inBytes({ id, value, element, plain }) {
      return { id, value: rangeInBytes(value), element: rangeInBytes(element), plain, encoding };
    },
  };
}
