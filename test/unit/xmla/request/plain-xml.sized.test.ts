import { describe, expect, test } from '@jest/globals';
import { readPlainXml } from '../../../../src/xmla/request/plain-xml.ts';
import { MAX_DEPTH, MAX_NODES, parseAnyXml } from '../../../../src/xmla/request/xml-tree.ts';
import { discover, execute } from '../../../support/envelopes.ts';
import { fuzzSeed, mutate, randomFrom } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';

/** Two readers of one text: what the quick one reads must be what the parser reads. Repeat with FUZZ_SEED. */

const LIMITS = { depth: MAX_DEPTH, nodes: MAX_NODES };
const XMLA = 'urn:schemas-microsoft-com:xml-analysis';

const SEEDS: readonly string[] = [
  execute({
    statement: "WITH MEMBER [a] AS 'x' SELECT {[a]} ON 0 FROM [ü] WHERE 1 < 2 & 3",
    properties: { Catalog: 'A', Format: 'Tabular' },
    parameters: [{ name: 'p', type: 'xsd:int', value: '1' }],
    session: { kind: 'in', id: '1' },
  }).toString(),
  discover({
    requestType: 'MDSCHEMA_CUBES',
    restrictions: [
      { name: 'CATALOG_NAME', form: 'plain', values: ['A'] },
      { name: 'CUBE_NAME', form: 'value', values: ['a', 'b'] },
    ],
    properties: { Catalog: 'A' },
    prefix: '',
  }).toString(),
  `<?xml version='1.0' encoding='utf-8' standalone="no" ?>\r\n` +
    `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xmlns:xsd="http://www.w3.org/2001/XMLSchema">` +
    `<s:Body><x:Execute xmlns:x="${XMLA}"><x:Command><x:Statement><![CDATA[SELECT [a]]]]>&gt;&quot;</x:Statement>` +
    `</x:Command>\r\n <x:Properties /><x:Parameters><x:Parameter><x:Name>p</x:Name>` +
    `<x:Value xsi:type="xsd:int" a="&lt;&apos;">1</x:Value></x:Parameter></x:Parameters>` +
    `</x:Execute></s:Body></s:Envelope>\n`,
  '<a b="c" x:d="e" xmlns:x="urn:x"><x:b xmlns="urn:y"><c x:b="1" b="2"/></x:b>t]]&gt; <c/></a>',
];

describe('the quick reading of XML', () => {
  test('of mutated envelopes makes the tree that the parser makes, or leaves them to it', () => {
    const seed = fuzzSeed();
    const random = randomFrom(seed);
    const counts = { seed, runs: sizes.plainEnvelopes, plain: 0, trees: 0 };
    for (let run = 0; run < counts.runs; run += 1) {
      const bytes = mutate(Buffer.from(SEEDS[run % SEEDS.length] ?? ''), random);
      const text = bytes.toString(run % 7 === 0 ? 'latin1' : 'utf8');
      const parsed = parseAnyXml(text);
      const plain = readPlainXml(text, LIMITS);
      counts.trees += parsed.kind === 'tree' ? 1 : 0;
      if (plain === undefined) continue;
      counts.plain += 1;
      expect({ seed, run, text, read: { kind: 'tree', root: plain } }).toEqual({
        seed,
        run,
        text,
        read: parsed,
      });
    }
    console.log(`quickly read envelopes: ${JSON.stringify(counts)}`);
    // A fuzz of which one side is nearly empty asks nothing.
    expect(counts.plain).toBeGreaterThan(counts.runs / 20);
    expect(counts.plain).toBeLessThan(counts.runs / 2);
    expect(counts.plain).toBeGreaterThan(counts.trees * 0.8);
  });

  test.each(SEEDS)('takes %s', (text) => {
    expect({ kind: 'tree', root: readPlainXml(text, LIMITS) }).toEqual(parseAnyXml(text));
  });

  test.each([
    '',
    ' ',
    'a',
    '<a>',
    '<a></b>',
    '<a/><b/>',
    '<a/>x',
    '<a b="1" b="2"/>',
    '<a x:b="1" y:b="2" xmlns:x="urn:a" xmlns:y="urn:a"/>',
    '<a xmlns:x="urn:a" xmlns:x="urn:b"/>',
    '<a xmlns="urn:a" xmlns="urn:b"/>',
    '<x:a/>',
    '<a x:b=""/>',
    '<a b=1/>',
    '<a b="<"/>',
    '<a b="1"c="2"/>',
    '<a>&x;</a>',
    '<a>&#13;</a>',
    '<a>&lt</a>',
    '<a>]]></a>',
    '<a><![CDATA[]]</a>',
    '<![CDATA[]]><a/>',
    '<a>\u0001</a>',
    '<a>\uD800</a>',
    '<a>\uFFFE</a>',
    '<!DOCTYPE a><a/>',
    '<a><!-- --></a>',
    '<?x ?><a/>',
    '<?xml version="1.1"?><a/>',
    ' <?xml version="1.0"?><a/>',
    '<a xmlns:xml="urn:a"/>',
    '<a xmlns:a=""/>',
    '<a xmlns=""/>',
    '<a xmlns="a b"/>',
    '<a xmlns:b="http://www.w3.org/2000/xmlns/"/>',
    '<a xmlns:b="http://www.w3.org/XML/1998/namespace"/>',
    '<a xml:space="preserve"/>',
    '<a:b:c xmlns:a="urn:a"/>',
    '<1/>',
    '<a:1 xmlns:a="urn:a"/>',
    '<é/>',
    '\uFEFF<a/>',
    '<a></a >',
    `${'<a>'.repeat(MAX_DEPTH + 1)}${'</a>'.repeat(MAX_DEPTH + 1)}`,
    `<a>${'<b/>'.repeat(MAX_NODES)}</a>`,
  ])('leaves %j to the parser', (text) => {
    expect(readPlainXml(text, LIMITS)).toBeUndefined();
  });

  test.each([
    `${'<a>'.repeat(MAX_DEPTH)}${'</a>'.repeat(MAX_DEPTH)}`,
    `${'<a>'.repeat(MAX_DEPTH - 1)}<a/>${'</a>'.repeat(MAX_DEPTH - 1)}`,
    `<a>${'<b/>'.repeat(MAX_NODES - 1)}</a>`,
    '<a b="c\td\ne\r\nf\rg"/>',
  ])('and the parser agree on how much is too much, and on line ends: %#', (text) => {
    expect({ kind: 'tree', root: readPlainXml(text, LIMITS) }).toEqual(parseAnyXml(text));
  });
});
