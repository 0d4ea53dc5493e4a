import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument } from 'libxml2-wasm';
import { XmlScanner } from '../../../src/xml/xml-scanner.ts';
import { sizes } from '../../support/sizes.ts';

/** What a scanner tells of a text, in one line each; joined where text comes in several pieces. */
function scan(...pieces: readonly string[]): string[] | 'refused' {
  const told: string[] = [];
  let text = '';
  const flush = (): void => {
    if (text !== '') told.push(`text ${text}`);
    text = '';
  };
  const scanner = new XmlScanner({
    open(tag) {
      flush();
      const attributes = tag
        .attributes()
        .map(({ uri, local, value }) => `${uri}|${local}=${value}`);
      told.push([`open ${tag.uri}|${tag.local}`, ...attributes].join(' '));
    },
    text(bytes, from, to) {
      text += bytes.toString('utf8', from, to);
    },
    close(start, end) {
      flush();
      told.push(`close ${start} ${end}`);
    },
    doctype() {
      throw new Error('a document type');
    },
  });
  try {
    for (const piece of pieces) scanner.write(Buffer.from(piece));
    scanner.end();
    return told;
  } catch {
    return 'refused';
  }
}

function libxml2Accepts(text: string): boolean {
  try {
    XmlDocument.fromString(text).dispose();
    return true;
  } catch {
    return false;
  }
}

const ACCEPTED = [
  '<a/>',
  '\uFEFF<a/>',
  '<?xml version="1.0"?><a></a >',
  "<?xml version='1.0' encoding='utf-8' standalone='yes' ?>\n<!-- x --><?p?><a/><!-- y --> <?q r?>\n",
  '<a b="1" c=\'"2\'>x</a>',
  '<a>]] ></a>',
  '<a>]]&gt;</a>',
  '<a><![CDATA[]]]]><![CDATA[>]]></a>',
  '<a><!----><!-- - --></a>',
  '<a><!--->--></a>',
  '<p:a xmlns:p="urn:p" p:b="1" b="2"><q:c xmlns:q="urn:p"/></p:a>',
  '<a xmlns="urn:a"><b xmlns=""/></a>',
  '<a xml:lang="de" xml:space="preserve"/>',
  '<?a ?b?><a/>',
  '<é à="1">\u0085\u2028😀\uFFFD</é>',
  '<a·-.0/>',
  '<a b="&lt;&gt;&amp;&quot;&apos;&#9;&#x1F600;&#xfffd;"/>',
  '<a>\uFF01\uF8FF</a>',
];

const REFUSED = [
  ...['', ' ', 'x', '<', '<a', '<a>', '</a>', '<a></b>', '<a/><a/>', '<a/>x', 'x<a/>', '<a/>&#32;'],
  ...[
    ' <?xml version="1.0"?><a/>',
    '<?xml?><a/>',
    '<?xml version="1.1"?><a/>',
    '<a><?xml version="1.0"?></a>',
  ],
  ...[
    '<?xml version="1.0" standalone="y"?><a/>',
    '<?XML ?><a/>',
    '<??><a/>',
    '<?1?><a/>',
    '<?a:b?><a/>',
    '<?a?b?><a/>',
  ],
  ...[
    '<?a \u0001?><a/>',
    '<? a?><a/>',
    '<a><!-- -- --></a>',
    '<a><!--x---></a>',
    '<a><!-- \u0001 --></a>',
    '<a><!- x --></a>',
  ],
  ...[
    '<![CDATA[x]]><a/>',
    '<a><![CDATA[x]]</a>',
    '<a><![CDATA[\u0001]]></a>',
    '<a><![cdata[x]]></a>',
    '<!DOCTYPE a><a/>',
  ],
  ...[
    '<a>]]></a>',
    '<a>&</a>',
    '<a>&x;</a>',
    '<a>&amp</a>',
    '<a>&#0;</a>',
    '<a>&#xD800;</a>',
    '<a>&#x110000;</a>',
    '<a>&#X41;</a>',
  ],
  ...[
    '<a>&#65534;</a>',
    '<a>\u0001</a>',
    '<a>\uFFFE</a>',
    '<a>\uFFFF</a>',
    '<a b="\uFFFF"/>',
    '<a b="\u0001"/>',
    '<a b="<"/>',
    '<a b="&"/>',
  ],
  ...[
    '<a b/>',
    '<a b=/>',
    '<a b=1/>',
    '<a b="1"c="2"/>',
    '<a b="1" b="2"/>',
    '<a / >',
    '<a/ >',
    '< a/>',
    '<a></ a>',
    '<a b="1/>',
  ],
  ...[
    '<1/>',
    '<-a/>',
    '<a:/>',
    '<:a/>',
    '<a:b:c/>',
    '<p:a/>',
    '<a p:b="1"/>',
    '<a xmlns:p=""/>',
    '<xmlns:a/>',
    '<a xml:space="no"/>',
    '<a xml:id="1"/>',
    '<p:1 xmlns:p="urn:p"/>',
  ],
  ...[
    '<a xmlns:p="urn:p" xmlns:q="urn:p" p:b="" q:b=""/>',
    '<a xmlns:xml="urn:x"/>',
    '<a xmlns:xmlns="urn:x"/>',
  ],
  ...[
    '<a xmlns="http://www.w3.org/2000/xmlns/"/>',
    '<a xmlns:p="http://www.w3.org/XML/1998/namespace"/>',
    '<a xmlns="urn:a" xmlns="urn:b"/>',
  ],
  ...[
    '<a><b xmlns:p="urn:p"/><p:c/></a>',
    '\uFEFF\uFEFF<a/>',
    '<a>\u037E</a\u037E>',
    '<\u0300/>',
    '<a></a',
    '<a\u00D7/>',
  ],
];

describe('the scanner', () => {
  test.each(ACCEPTED)('reads what libxml2 reads: %j', (text) => {
    expect(libxml2Accepts(text)).toBe(true);
    expect(scan(text)).not.toBe('refused');
  });

  test.each(REFUSED)('refuses %j', (text) => {
    expect(scan(text)).toBe('refused');
  });

  test('tells names by namespace, attributes with their values, and where elements end', () => {
    const text = '<p:a xmlns:p="urn:p" b="&lt;\n" p:c="2">t&amp;<d xmlns="urn:d"/><d/></p:a>';
    expect(scan(text)).toEqual([
      'open urn:p|a |b=<  urn:p|c=2',
      'text t&amp;',
      'open urn:d|d',
      `close ${text.indexOf('<d x')} ${text.indexOf('<d/>')}`,
      'open |d',
      `close ${text.indexOf('<d/>')} ${text.indexOf('</p')}`,
      `close ${text.indexOf('</p')} ${text.length}`,
    ]);
  });

  test('reads the same however the text is cut', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...ACCEPTED, ...REFUSED),
        fc.array(fc.nat({ max: 12 }), { maxLength: 8 }),
        (text, lengths) => {
          const characters = Array.from(text);
          const pieces = lengths.map((length) => characters.splice(0, length).join(''));
          expect(scan(...pieces, characters.join(''))).toEqual(scan(text));
          expect(scan(...text)).toEqual(scan(text));
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('reads long text, comments and CDATA, and no tag that no engine sends', () => {
    const long = 'x'.repeat(100_000);
    for (const [text, read] of [
      [`<a>${long}</a>`, true],
      [`<a><!--${long}--></a>`, true],
      [`<a><![CDATA[${long}]]></a>`, true],
      [`<a b="${'x'.repeat(60_000)}"/>`, true],
      [`<a b="${long}"/>`, false],
      [`<a><?b ${long}?></a>`, false],
      [`<${long}/>`, false],
      [`<a></a${' '.repeat(100_000)}>`, false],
    ] as const) {
      const pieces = text.match(/[^]{1,1000}/g) ?? [];
      expect(scan(text) !== 'refused').toBe(read);
      expect(scan(...pieces) !== 'refused').toBe(read);
    }
  });

  test('reads no deeper than other parsers do', () => {
    const nested = (levels: number): string => '<a>'.repeat(levels) + '</a>'.repeat(levels);
    expect(scan(nested(200))).not.toBe('refused');
    expect(scan(nested(201))).toBe('refused');
  });

  test('holds the start of a long tag in small pieces without looking at it again', () => {
    // Each byte once when it is held, and once when the tag is whole: what is counted are the bytes that are joined.
    const tag = `<a b="${'>'.repeat(50_000)}"/>`;
    let joined = 0;
    const concat = Buffer.concat;
    Buffer.concat = (list, total) => {
      const result = concat(list, total);
      joined += result.length;
      return result;
    };
    try {
      expect(scan(...tag)).not.toBe('refused');
    } finally {
      Buffer.concat = concat;
    }
    expect(joined).toBeLessThan(3 * tag.length);
  });
});
