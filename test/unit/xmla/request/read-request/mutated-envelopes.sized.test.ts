import { describe, expect, test } from '@jest/globals';
import { XmlDocument } from 'libxml2-wasm';
import { readRequest, type XmlaRequest } from '../../../../../src/xmla/request/read-request.ts';
import { discover, execute } from '../../../../support/envelopes.ts';
import { fuzzSeed, mutate, randomFrom } from '../../../../support/mutate.ts';
import { sizes } from '../../../../support/sizes.ts';

/**
 * Two parsers read the same bytes. What libxml2 calls ill-formed must never be called understood, and what
 * both read must say the same. Repeat a run with FUZZ_SEED.
 */

const XMLA = { x: 'urn:schemas-microsoft-com:xml-analysis' };

const SEEDS: readonly Buffer[] = [
  execute({
    statement: "WITH MEMBER [a] AS 'x' SELECT {[a]} ON 0 FROM [ü] WHERE 1 < 2 & 3",
    properties: { Catalog: 'A', Format: 'Tabular' },
    parameters: [{ name: 'p', type: 'xsd:int', value: '1' }],
    session: { kind: 'in', id: '1' },
  }),
  discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: [
      { name: 'CATALOG_NAME', form: 'plain', values: ['A'] },
      { name: 'CUBE_NAME', form: 'value', values: ['a', 'b'] },
    ],
    properties: { Catalog: 'A' },
    prefix: '',
  }),
  Buffer.from(
    `<?xml version="1.0" encoding="utf-8" standalone='no' ?>\r\n` +
      `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance'>` +
      `<s:Body><x:Execute xmlns:x="${XMLA.x}"><x:Command><x:Statement><![CDATA[SELECT [a]]]]>&gt;&#x41;&#66;</x:Statement>` +
      `</x:Command><x:Properties /></x:Execute></s:Body></s:Envelope>\n`,
  ),
];

/** The binding of libxml2 drops a byte order mark in front of any text that it hands over. */
function unmarked(text: string | undefined): string {
  return (text ?? '').replaceAll('\uFEFF', '');
}

/** What libxml2 reads, in the words of a request; undefined when the bytes are ill-formed to it. */
function readByLibxml2(bytes: Buffer): unknown {
  let document: XmlDocument;
  try {
    document = XmlDocument.fromBuffer(bytes);
  } catch {
    return undefined;
  }
  try {
    const pairs = (path: string): unknown =>
      document
        .find(path, XMLA)
        .map((node) => [('name' in node && node.name) || '', unmarked(node.content)]);
    return {
      statement: unmarked(document.get('//x:Execute/x:Command/x:Statement', XMLA)?.content),
      requestType: unmarked(document.get('//x:Discover/x:RequestType', XMLA)?.content),
      properties: pairs('//x:Properties/x:PropertyList/x:*'),
      restrictions: pairs('//x:Restrictions/x:RestrictionList/x:*'),
    };
  } finally {
    document.dispose();
  }
}

function inTheSameWords(request: XmlaRequest): unknown {
  return {
    statement: request.method === 'Execute' ? unmarked(request.statement) : '',
    requestType: request.method === 'Discover' ? unmarked(request.requestType) : '',
    properties: request.properties.map(({ name, value }) => [name, unmarked(value)]),
    restrictions:
      request.method === 'Discover'
        ? request.restrictions.map(({ name, values }) => [name, unmarked(values.join(''))])
        : [],
  };
}

describe('mutated envelopes', () => {
  test('what is understood is well-formed to libxml2, and both read the same', () => {
    const seed = fuzzSeed();
    const random = randomFrom(seed);
    const counts = { seed, runs: sizes.fuzzedEnvelopes, understood: 0, expected: 0, illFormed: 0 };
    for (let run = 0; run < counts.runs; run += 1) {
      const bytes = mutate(SEEDS[run % SEEDS.length] ?? Buffer.alloc(0), random);
      const reading = readRequest(bytes, 'text/xml');
      const other = readByLibxml2(bytes);
      counts.illFormed += other === undefined ? 1 : 0;
      if (reading.kind === 'understood') {
        counts.understood += 1;
        const found = { seed, run, bytes: bytes.toString('latin1') };
        expect({ ...found, wellFormed: other !== undefined }).toEqual({
          ...found,
          wellFormed: true,
        });
        if (reading.request.unexpected === undefined) {
          counts.expected += 1;
          expect({ ...found, read: inTheSameWords(reading.request) }).toEqual({
            ...found,
            read: other,
          });
        }
      }
    }
    console.log(`fuzzed envelopes: ${JSON.stringify(counts)}`);
    // A fuzz that reaches only one side of the question asks nothing.
    expect(counts.understood).toBeGreaterThan(counts.runs / 50);
    expect(counts.expected).toBeGreaterThan(0);
    expect(counts.illFormed).toBeGreaterThan(counts.runs / 4);
  });
});
