import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { textDecoder } from '../../../../src/xml/text-encoding.ts';
import type { TextEncoding } from '../../../../src/xml/text-encoding.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const ENCODINGS: readonly TextEncoding[] = [
  'utf-8',
  'utf-16le',
  'utf-16be',
  'iso-8859-1',
  'us-ascii',
];

interface Reading {
  readonly text: string;
  readonly broken: boolean;
  readonly pending: boolean;
}

function read(encoding: TextEncoding, chunks: readonly Uint8Array[]): Reading {
  const decoder = textDecoder(encoding);
  const text = chunks.map((chunk) => decoder.toUtf8(Buffer.from(chunk)).toString()).join('');
  return { text, broken: decoder.broken, pending: decoder.pending };
}

function split(bytes: Buffer, sizesOfChunks: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  let at = 0;
  for (const size of sizesOfChunks) {
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return [...chunks, bytes.subarray(at)];
}

/** The platform's own strict decoder, for the encodings in which the two must agree. */
function reference(encoding: 'utf-8' | 'utf-16le' | 'utf-16be', bytes: Buffer): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Bytes that are often text, often nearly text, and sometimes neither. */
const nearlyText = fc
  .array(
    fc.oneof(
      fc.string({ unit: codePoint, maxLength: 6 }).map((text) => Buffer.from(text, 'utf8')),
      fc.string({ unit: codePoint, maxLength: 6 }).map((text) => Buffer.from(text, 'utf16le')),
      fc.constantFrom(
        [0xc0, 0x80],
        [0xed, 0xa0, 0x80],
        [0xe0, 0x80],
        [0xf4, 0x90, 0x80, 0x80],
        [0xf0, 0x9f, 0x98],
        [0xd8, 0x3d],
        [0xdc, 0x00],
        [0x80],
        [0xff],
      ),
      fc.uint8Array({ maxLength: 3 }),
    ),
    { maxLength: 8 },
  )
  .map((parts) => Buffer.concat(parts.map((part) => Buffer.from(part))));

describe('a strict decoder', () => {
  test.each(['utf-8', 'utf-16le', 'utf-16be'] as const)(
    'accepts in %s what the platform accepts, and reads it alike',
    (encoding) => {
      fc.assert(
        fc.property(nearlyText, (bytes) => {
          const { text, broken, pending } = read(encoding, [bytes]);
          const expected = reference(encoding, bytes);
          expect(broken || pending ? undefined : text).toBe(expected);
        }),
        { numRuns: sizes.propertyRuns },
      );
    },
  );

  test.each(ENCODINGS)('reads %s alike however it is cut', (encoding) => {
    fc.assert(
      fc.property(nearlyText, fc.array(fc.nat({ max: 7 })), (bytes, cuts) => {
        expect(read(encoding, split(bytes, cuts))).toEqual(read(encoding, [bytes]));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test.each(ENCODINGS)('reads back every text of %s, one byte at a time', (encoding) => {
    const text = encoding === 'us-ascii' ? 'plain <a/>' : 'naïve café';
    const wide = encoding.startsWith('utf') ? `${text} Ελλάδα 中国 😀 \uFFFD` : text;
    const bytes = Buffer.from(
      wide,
      encoding === 'utf-8' ? 'utf8' : encoding.startsWith('utf-16') ? 'utf16le' : 'latin1',
    );
    if (encoding === 'utf-16be') bytes.swap16();
    const chunks = Array.from(bytes, (byte) => Uint8Array.of(byte));
    expect(read(encoding, chunks)).toEqual({ text: wide, broken: false, pending: false });
  });

  test('hands out the text before the first bad byte, and nothing after it', () => {
    const decoder = textDecoder('utf-8');
    expect(decoder.toUtf8(Buffer.from([0x61, 0xc3, 0xa9, 0xff, 0x62])).toString()).toBe('aé');
    expect(decoder.broken).toBe(true);
    expect(decoder.toUtf8(Buffer.from('c')).toString()).toBe('');
    expect(decoder.pending).toBe(false);
  });

  test('knows when a character is not complete', () => {
    expect(read('utf-8', [Buffer.from('é').subarray(0, 1)]).pending).toBe(true);
    expect(read('utf-16le', [Buffer.from([0x61, 0, 0x3d, 0xd8])])).toEqual({
      text: 'a',
      broken: false,
      pending: true,
    });
    expect(read('utf-16be', [Buffer.from([0])]).pending).toBe(true);
  });

  test('reads ISO-8859-1 as ISO-8859-1 and not as windows-1252', () => {
    expect(read('iso-8859-1', [Buffer.from([0x80, 0x9f, 0xff])]).text).toBe('\u0080\u009fÿ');
  });
});
