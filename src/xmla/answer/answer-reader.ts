import { answerDecoder } from './answer-decoder.ts';
import type { AnswerDecoder } from './answer-decoder.ts';
import { findEncoding } from './answer-encoding.ts';
import type { AnswerEncoding } from './answer-encoding.ts';
import { answerScanner } from './answer-scanner.ts';
import type { ScannerMemories } from './scanner-memory.ts';
import type { ScannerSink } from './scanner-sink.ts';
import type { AnswerSession, ByteRange } from './answer-session.ts';
import type { TextSession } from './header-session.ts';

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
 *   sink stops the reading: whoever knows better by then must not listen.
 * @param answer.headLimit bytes of the text in UTF-8 in which places can be told in those of the answer
 */
export function answerReader(answer: {
  readonly contentType: string | undefined;
  readonly sink: ScannerSink;
  readonly flagOf: (local: string) => number;
  readonly failed: (failure: ReaderFailure) => void;
  readonly headLimit: number;
  /** As of `answerScanner`. */
  readonly memories?: ScannerMemories;
}): AnswerReader {
  const { failed, headLimit } = answer;
  const scanner = answerScanner(answer.sink, answer.flagOf, answer.memories);
  let decoder: AnswerDecoder | undefined;
  let encoding: AnswerEncoding = 'utf-8';
  /** What came before the encoding was known. */
  let first: Buffer = NOTHING;
  /** The start of the text, where its offsets are not those of the bytes. */
  let head: Buffer = NOTHING;

  function begin(chunk: Buffer, ended: boolean): void {
    const all = first.length === 0 ? chunk : Buffer.concat([first, chunk]);
    const found = findEncoding(all, ended, answer.contentType);
    if (found.kind === 'more') {
      // A copy: the bytes may be reused.
      first = Buffer.from(all);
      return;
    }
    if (found.kind === 'unknown') {
      failed('answer-encoding');
      return;
    }
    encoding = found.encoding;
    decoder = answerDecoder(encoding);
    first = NOTHING;
    read(decoder, all);
  }

  function read(decoder: AnswerDecoder, chunk: Buffer): void {
    const text = decoder.toUtf8(chunk);
    const missing = headLimit - head.length;
    if (encoding !== 'utf-8' && encoding !== 'us-ascii' && missing > 0)
      head = Buffer.concat([head, text.subarray(0, missing)]);
    // Nothing is proved by whatever may be thrown.
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

  function rangeInBytes({ start, end }: ByteRange): ByteRange {
    return { start: inBytes(start), end: inBytes(end) };
  }

  function inBytes(offset: number): number {
    if (encoding === 'utf-8' || encoding === 'us-ascii') return offset;
    const characters = head.toString('utf8', 0, offset).length;
    return encoding === 'iso-8859-1' ? characters : characters * 2;
  }

  return {
    write(chunk) {
      if (chunk.length === 0) return;
      const bytes = Buffer.isBuffer(chunk)
        ? chunk
        : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
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
      return { id, value: rangeInBytes(value), element: rangeInBytes(element), encoding, plain };
    },
  };
}
