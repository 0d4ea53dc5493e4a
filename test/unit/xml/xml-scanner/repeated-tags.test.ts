import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument, XmlElement, XmlText } from 'libxml2-wasm';
import { XmlScanner, type XmlSink } from '../../../../src/xml/xml-scanner.ts';
import type { TagReader, TagReaders } from '../../../../src/xml/start-tag.ts';
import { fuzzSeed } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';

/** An element as it was read. */
interface Told {
  uri: string;
  local: string;
  attributes: string[];
  text: string;
  children: Told[];
}

function toldBy(tag: TagReader): Told {
  const attributes = tag.attributes().map(({ uri, local, value }) => `${uri}|${local}=${value}`);
  return {
    uri: tag.uri,
    local: tag.local,
    attributes: attributes.toSorted(),
    text: '',
    children: [],
  };
}

function scan(pieces: readonly string[], readers?: TagReaders): Told | 'refused' {
  const top: Told = { uri: '', local: '', attributes: [], text: '', children: [] };
  const open = [top];
  const sink: XmlSink = {
    open(tag) {
      const told = toldBy(tag);
      open.at(-1)?.children.push(told);
      open.push(told);
    },
    text(bytes, from, to) {
      const told = open.at(-1);
      if (told !== undefined) told.text += bytes.toString('utf8', from, to);
    },
    close: () => void open.pop(),
    doctype() {
      throw new Error('a document type');
    },
  };
  const scanner = new XmlScanner(sink, readers);
  try {
    for (const piece of pieces) scanner.write(Buffer.from(piece));
    scanner.end();
    return top.children[0] ?? 'refused';
  } catch {
    return 'refused';
  }
}

function readByLibxml2(element: XmlElement): Told {
  const told: Told = {
    uri: element.namespaceUri,
    local: element.name,
    attributes: element.attrs.map(
      ({ namespaceUri, name, content }) => `${namespaceUri}|${name}=${content}`,
    ),
    text: '',
    children: [],
  };
  told.attributes.sort();
  for (let child = element.firstChild; child !== null; child = child.next) {
    if (child instanceof XmlElement) told.children.push(readByLibxml2(child));
    else if (child instanceof XmlText) told.text += child.content;
  }
  return told;
}

function libxml2(text: string): Told | 'refused' {
  try {
    const document = XmlDocument.fromString(text);
    try {
      return readByLibxml2(document.root);
    } finally {
      document.dispose();
    }
  } catch {
    return 'refused';
  }
}

/**
 * Few spellings, so that most tags were seen before, and next to all that could make them mean something else; some begin as
 * others are.
 */
const NAMES = ['a', 'ab', 'b', 'p:a', 'p:long-name-of-a-column', 'long-name-of-a-column', 'q:a'];
const ATTRIBUTES = [
  ...[
    '',
    '',
    '',
    ' b="1"',
    ' b="2"',
    ' b="1" ',
    " b='1'",
    ' p:b="1"',
    ' q:b="1"',
    ' p:b="1" q:b="1"',
  ],
  ...[' xmlns:p="urn:1"', ' xmlns:p="urn:2"', ' xmlns:q="urn:2"', ' xmlns="urn:3"', ' xmlns=""'],
];
const TEXTS = ['', '', 'h', 'h2', 'hundred-and-one', 'n', 'h]]', 'h\n'];

function elements(levels: number): fc.Arbitrary<string> {
  return fc
    .record({
      name: fc.constantFrom(...NAMES),
      attributes: fc.constantFrom(...ATTRIBUTES),
      text: fc.constantFrom(...TEXTS),
      children: levels === 1 ? fc.constant([]) : fc.array(elements(levels - 1), { maxLength: 3 }),
      times: fc.constantFrom(1, 1, 2, 3),
      form: fc.constantFrom('full', 'full', 'full', 'empty', 'spaced'),
    })
    .map(({ name, attributes, text, children, times, form }) => {
      const content = text + children.join('');
      const end = form === 'spaced' ? `</${name} >` : `</${name}>`;
      const full = `<${name}${attributes}>${content}${end}`;
      return (form === 'empty' ? `<${name}${attributes}/>` : full).repeat(times);
    });
}

const documents = fc
  .tuple(
    fc.constantFrom(' xmlns:q="urn:4"', ' xmlns:q="urn:1"', ''),
    fc.array(elements(3), { minLength: 1, maxLength: 4 }),
  )
  .map(([attributes, nodes]) => {
    const content = nodes.join('');
    return `<r xmlns:p="urn:1"${attributes}>${content}${content}</r>`;
  });

describe('a tag that is spelt as one before', () => {
  test('says what it says where it stands now, as libxml2 reads it, however the text is cut', () => {
    const seed = fuzzSeed();
    const runs = sizes.propertyRuns * 2;
    let read = 0;
    const readers: TagReaders = [];
    fc.assert(
      fc.property(documents, fc.array(fc.nat({ max: 60 }), { maxLength: 6 }), (text, lengths) => {
        const expected = libxml2(text);
        if (expected !== 'refused') read += 1;
        expect(JSON.stringify(scan([text]))).toBe(JSON.stringify(expected));
        const pieces: string[] = [];
        let at = 0;
        for (const length of lengths) pieces.push(text.slice(at, (at += length)));
        const cut = scan([...pieces, text.slice(at)], readers);
        expect(JSON.stringify(cut)).toBe(JSON.stringify(expected));
      }),
      { numRuns: runs, seed },
    );
    console.log(`repeated tags: ${JSON.stringify({ seed, runs: runs, read })}`);
    // Both kinds must have been there in number, or nothing was compared.
    expect(read).toBeGreaterThan(runs / 10);
    expect(runs - read).toBeGreaterThan(runs / 10);
  });

  test.each([
    // The tag behind an inner element of the same name is not one behind the root.
    '<a><a/><long></long></a><long></long>',
    '<a><c xmlns:p="urn:p"><p:b></p:b></c><c><p:b></p:b></c></a>',
    '<a><b>x</b><b>x</b><b>x</c></a>',
    // The same root again, and prefixes behind the last tag that declared them.
    '<long-root></long-root><long-root></long-root>',
    `<r>${'<c xmlns:p="urn:p"><b></b></c>'.repeat(4)}<p:b></p:b></r>`,
    `<r>${'<c xmlns:p="urn:p"/>'.repeat(4)}<p:b></p:b></r>`,
    '<a><b c="1"/><b c="1"/><b c="1" c="1"/></a>',
    '<a xmlns:p="urn:p" xmlns:q="urn:q"><c><b p:d="" q:d=""></b></c><c xmlns:q="urn:p"><b p:d="" q:d=""></b></c></a>',
  ])('does not make %s well-formed', (text) => {
    expect(libxml2(text)).toBe('refused');
    expect(scan([text])).toBe('refused');
  });
});

describe('what is known of names in earlier documents', () => {
  test('is no binding of a prefix, however a document ended', () => {
    const readers: TagReaders = [];
    const bound = '<p:a xmlns:p="urn:p" xmlns="urn:a"><b p:c=""/>';
    for (const end of ['</p:a>', '</x>', '']) {
      scan([bound, end], readers);
      expect(readers).toHaveLength(1);
      expect(scan(['<p:a/>'], readers)).toBe('refused');
      expect(scan(['<b p:c=""/>'], readers)).toBe('refused');
      expect(scan(['<b/>'], readers)).toMatchObject({ uri: '', local: 'b' });
    }
  });

  test('is of documents that are read at one time as well', () => {
    const readers: TagReaders = [];
    const sink = {
      open: () => undefined,
      doctype: () => {
        throw new Error('a document type');
      },
    };
    const scanners = Array.from({ length: 9 }, () => new XmlScanner(sink, readers));
    for (const piece of ['<a><b', '/></a>'])
      for (const scanner of scanners) scanner.write(Buffer.from(piece));
    for (const scanner of scanners) scanner.end();
    expect(readers).toHaveLength(4);
  });

  test.each([
    ['many', Array.from({ length: 2_000 }, (_, at) => `<a${at}/>`).join('')],
    ['long', `<a${'a'.repeat(40_000)}/>`],
    [
      'many prefixes and attributes',
      `<b ${Array.from({ length: 2_000 }, (_, at) => `a${at}=""`).join(' ')}/>`,
    ],
  ])('is little: names that are %s are forgotten with their document', (_what, content) => {
    const readers: TagReaders = [];
    expect(scan([`<r>${content}</r>`], readers)).not.toBe('refused');
    expect(readers).toHaveLength(0);
  });
});
