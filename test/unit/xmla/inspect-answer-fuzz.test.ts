import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument, XmlError } from 'libxml2-wasm';
import type { RefusalReason } from '../../../src/reasons.ts';
import { inspectAnswer } from '../../../src/xmla/inspect-answer.ts';
import {
  brokenOffAnswer,
  encodeAnswer,
  errorCellAnswer,
  faultAnswer,
  kylinErrorAnswer,
  mddatasetAnswer,
  rowsetAnswer,
  sessionAnswer,
} from '../../support/answers.ts';
import { fuzzSeed } from '../../support/mutate.ts';
import { sizes } from '../../support/sizes.ts';

interface Sample {
  readonly name: string;
  readonly method: 'Discover' | 'Execute';
  readonly bytes: Buffer;
}

const withMark = (mark: readonly number[], bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(mark), bytes]);

/** Values spelt in every way that XML knows. */
const SPELT = mddatasetAnswer({
  cell: (ordinal) =>
    `<!-- c --><Value xsi:type='xsd:string' >a&#x20;&lt;b&gt;<![CDATA[ ]] > <x> ]]>é😀</Value ><FmtValue/>` +
    `<?pi data?><x:FormatString xmlns:x="urn:x" x:a = "1" b="&quot;&#10;">${ordinal}</x:FormatString>`,
});

const GOOD: readonly Sample[] = [
  { name: 'a rowset', method: 'Discover', bytes: Buffer.from(rowsetAnswer()) },
  {
    name: 'a rowset of SSAS',
    method: 'Discover',
    bytes: Buffer.from(rowsetAnswer({ style: 'ssas' })),
  },
  { name: 'a dataset', method: 'Execute', bytes: Buffer.from(mddatasetAnswer()) },
  {
    name: 'a dataset of SSAS',
    method: 'Execute',
    bytes: Buffer.from(mddatasetAnswer({ style: 'ssas' })),
  },
  { name: 'every spelling', method: 'Execute', bytes: Buffer.from(SPELT) },
  {
    name: 'a rowset in ISO-8859-1',
    method: 'Discover',
    bytes: encodeAnswer(rowsetAnswer({ encoding: 'ISO-8859-1' }), 'iso-8859-1'),
  },
  {
    name: 'a rowset in UTF-16LE',
    method: 'Discover',
    bytes: withMark([0xff, 0xfe], encodeAnswer(rowsetAnswer({ encoding: 'UTF-16' }), 'utf-16le')),
  },
  {
    name: 'a rowset in UTF-16BE',
    method: 'Discover',
    bytes: withMark([0xfe, 0xff], encodeAnswer(rowsetAnswer({ encoding: 'UTF-16' }), 'utf-16be')),
  },
  {
    name: 'a rowset with a mark',
    method: 'Discover',
    bytes: withMark([0xef, 0xbb, 0xbf], Buffer.from(rowsetAnswer())),
  },
];

const BAD: readonly Sample[] = [
  faultAnswer(),
  brokenOffAnswer(),
  errorCellAnswer(),
  kylinErrorAnswer(),
  sessionAnswer(),
].map((text, index) => ({ name: `bad ${index}`, method: 'Execute', bytes: Buffer.from(text) }));

function verdict(
  method: Sample['method'],
  chunks: readonly Uint8Array[],
): RefusalReason | undefined {
  const inspector = inspectAnswer({ contentType: 'text/xml', method });
  for (const chunk of chunks) inspector.write(chunk);
  return inspector.end();
}

function wellFormedByLibxml2(bytes: Buffer): boolean {
  try {
    XmlDocument.fromBuffer(bytes).dispose();
    return true;
  } catch (error) {
    if (error instanceof XmlError) return false;
    throw error;
  }
}

/** A change of the bytes; `at` and `to` are fractions of the length, so that shrinking keeps their meaning. */
const fraction = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const INSERTS = [
  '\0',
  '<',
  '>',
  '&',
  ';',
  '"',
  "'",
  '=',
  '/',
  ':',
  '-',
  ']]>',
  '--',
  '?>',
  '<?',
  '<!',
  '<![CDATA[',
  '<!-- x -->',
  '<?xml version="1.0"?>',
  '<!DOCTYPE a>',
  '&#0;',
  '&#xD800;',
  '&#x110000;',
  '&amp',
  '&x;',
  ' xmlns:q=""',
  ' xmlns="urn:q"',
  ' q:q="1"',
  ' a="1" a="2"',
  ' xml:lang="1"',
  '<q:q/>',
  '<a:/>',
  '<xsd:1/>',
  ' xsi:-a="1"',
  '<xmlns:a/>',
  '</',
  '/>',
  '\ufeff',
  '\ufffe',
  '\uffff',
  '\ud800',
  '\x0b',
  '\x7f',
  '\x85',
  '\r',
  'é',
  '😀',
];
const edit = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: fraction, bit: fc.nat({ max: 7 }) }),
  fc.record({ kind: fc.constant('byte' as const), at: fraction, byte: fc.nat({ max: 255 }) }),
  fc.record({ kind: fc.constant('cut' as const), at: fraction }),
  fc.record({
    kind: fc.constant('copy' as const),
    at: fraction,
    from: fraction,
    length: fc.nat({ max: 60 }),
  }),
  fc.record({ kind: fc.constant('drop' as const), at: fraction, length: fc.nat({ max: 60 }) }),
  fc.record({
    kind: fc.constant('insert' as const),
    at: fraction,
    text: fc.constantFrom(...INSERTS),
  }),
  fc.record({
    kind: fc.constant('label' as const),
    name: fc.constantFrom('UTF-8', 'utf-16', 'ISO-8859-1', 'US-ASCII', 'windows-1252', 'x'),
  }),
  fc.record({
    kind: fc.constant('recode' as const),
    coding: fc.constantFrom('utf8', 'latin1', 'utf16le'),
  }),
);
type Edit = typeof edit extends fc.Arbitrary<infer T> ? T : never;

function apply(bytes: Buffer, change: Edit): Buffer {
  const at = 'at' in change ? Math.floor(change.at * bytes.length) : 0;
  const put = (from: number, text: Buffer, to: number): Buffer =>
    Buffer.concat([bytes.subarray(0, from), text, bytes.subarray(to)]);
  switch (change.kind) {
    case 'flip':
      return put(at, Buffer.from([(bytes[at] ?? 0) ^ (1 << change.bit)]), at + 1);
    case 'byte':
      return put(at, Buffer.from([change.byte]), at + 1);
    case 'cut':
      return bytes.subarray(0, at);
    case 'copy': {
      const from = Math.floor(change.from * bytes.length);
      return put(at, bytes.subarray(from, from + change.length), at);
    }
    case 'drop':
      return put(at, Buffer.alloc(0), at + change.length);
    case 'insert':
      return put(at, Buffer.from(change.text), at);
    case 'label':
      return Buffer.from(
        bytes.toString('latin1').replace(/encoding="[^"]*"/, `encoding="${change.name}"`),
        'latin1',
      );
    case 'recode':
      return Buffer.from(bytes.toString('latin1'), change.coding as BufferEncoding);
  }
}

const mutated = (samples: readonly Sample[]): fc.Arbitrary<Sample> =>
  fc
    .tuple(fc.constantFrom(...samples), fc.array(edit, { minLength: 1, maxLength: 3 }))
    .map(([{ name, method, bytes }, edits]) => ({
      name,
      method,
      bytes: edits.reduce(apply, bytes),
    }));

describe('an answer that was damaged on its way', () => {
  test.each(GOOD)('$name: is whole and well-formed to begin with', ({ method, bytes }) => {
    expect(verdict(method, [bytes])).toBeUndefined();
    expect(wellFormedByLibxml2(bytes)).toBe(true);
  });

  test('is never accepted when libxml2 calls it ill-formed', () => {
    const seed = fuzzSeed();
    let accepted = 0;
    let illFormed = 0;
    fc.assert(
      fc.property(mutated(GOOD), ({ method, bytes }) => {
        const wellFormed = wellFormedByLibxml2(bytes);
        const accepts = verdict(method, [bytes]) === undefined;
        if (accepts) accepted += 1;
        if (!wellFormed) illFormed += 1;
        expect(accepts && !wellFormed).toBe(false);
      }),
      { numRuns: sizes.fuzzedAnswers, seed },
    );
    const counts = { seed, runs: sizes.fuzzedAnswers, accepted, illFormed };
    console.log(`fuzzed answers: ${JSON.stringify(counts)}`);
    // Both kinds must have been there in number, or nothing was compared.
    expect(accepted).toBeGreaterThan(sizes.fuzzedAnswers / 40);
    expect(illFormed).toBeGreaterThan(sizes.fuzzedAnswers / 40);
  });

  test.each(GOOD)('$name: is refused wherever it is cut off', ({ method, bytes }) => {
    const text = bytes.toString('latin1');
    const end = text.lastIndexOf('>') + (text.includes('\0') && !text.startsWith('\xfe') ? 2 : 1);
    for (let length = 0; length < end; length++) {
      expect([length, verdict(method, [bytes.subarray(0, length)])]).not.toEqual([
        length,
        undefined,
      ]);
    }
  });

  test('gets the same verdict however the network cuts it into chunks', () => {
    const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 12 });
    fc.assert(
      fc.property(
        fc.oneof(mutated(GOOD), mutated(BAD), fc.constantFrom(...GOOD, ...BAD)),
        cuts,
        ({ method, bytes }, lengths) => {
          const chunks: Buffer[] = [];
          let at = 0;
          for (const length of lengths) {
            chunks.push(bytes.subarray(at, at + length));
            at += length;
          }
          chunks.push(bytes.subarray(at));
          expect(verdict(method, chunks)).toBe(verdict(method, [bytes]));
        },
      ),
      { numRuns: sizes.fuzzedAnswers },
    );
  });

  test.each([...GOOD, ...BAD])('$name: gets the same verdict byte by byte', ({ method, bytes }) => {
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
    expect(verdict(method, single)).toBe(verdict(method, [bytes]));
  });
});
