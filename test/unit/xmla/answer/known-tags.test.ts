import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument, XmlElement, XmlText } from 'libxml2-wasm';
import { answerScanner } from '../../../../src/xmla/answer/answer-scanner.ts';
import { hasWords, wordsOf } from '../../../../src/xmla/answer/known-tags.ts';
import {
  scannerMemories,
  type ScannerMemories,
} from '../../../../src/xmla/answer/scanner-memory.ts';
import type { ScannerSink } from '../../../../src/xmla/answer/scanner-sink.ts';
import type { StartTag } from '../../../../src/xmla/answer/start-tag.ts';
import { fuzzSeed } from '../../../support/mutate.ts';
import { sizes } from '../../../support/sizes.ts';

/** An element as it was read; without text that is of no interest: of elements without children, from `h` on. */
interface Told {
  uri: string;
  local: string;
  attributes: string[];
  text: string;
  children: Told[];
}

function toldBy(tag: StartTag): Told {
  const attributes = tag.attributes().map(({ uri, local, value }) => `${uri}|${local}=${value}`);
  return {
    uri: tag.uri,
    local: tag.local,
    attributes: attributes.toSorted(),
    text: '',
    children: [],
  };
}

/** Tags that were seen before, in any document. */
const judged: Told[] = [];

/** Asks for the attributes of a tag only when it has not seen the tag before, or each time. */
function scan(
  pieces: readonly string[],
  options: { leaves: boolean; asks: boolean },
  memories?: ScannerMemories,
): Told | 'refused' {
  const top: Told = { uri: '', local: '', attributes: [], text: '', children: [] };
  const open = [top];
  const sink: ScannerSink = {
    open(tag) {
      if (tag.verdict === 0) tag.verdict = judged.push(toldBy(tag));
      const before = judged[tag.verdict - 1] ?? top;
      const told = options.asks ? toldBy(tag) : { ...before, children: [] };
      open.at(-1)?.children.push(told);
      open.push(told);
    },
    text(bytes, from, to) {
      const told = open.at(-1);
      if (told !== undefined) told.text += bytes.toString('utf8', from, to);
    },
    close() {
      const told = open.pop();
      if (told?.children.length === 0 && told.text.startsWith('h')) told.text = '';
    },
    doctype() {
      throw new Error('a document type');
    },
  };
  if (options.leaves)
    sink.leaf = (verdict, bytes, from, to) => {
      if (from < to && bytes[from] !== 'h'.charCodeAt(0)) return false;
      open.at(-1)?.children.push({ ...(judged[verdict - 1] ?? top), children: [] });
      return true;
    };
  try {
    const scanner = answerScanner(sink, () => 0, memories);
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
  if (told.children.length === 0 && told.text.startsWith('h')) told.text = '';
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

/** Few spellings, so that most tags were seen before, and next to all that could make them mean something else. */
const NAMES = ['a', 'b', 'p:a', 'p:long-name-of-a-column', 'long-name-of-a-column', 'q:a'];
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

describe('a tag that came before', () => {
  test('says what it says where it stands now, as libxml2 reads it, however the text is cut', () => {
    const seed = fuzzSeed();
    const runs = sizes.propertyRuns * 2;
    let read = 0;
    fc.assert(
      fc.property(
        documents,
        fc.array(fc.nat({ max: 60 }), { maxLength: 6 }),
        fc.record({ leaves: fc.boolean(), asks: fc.boolean() }),
        (text, lengths, options) => {
          const expected = libxml2(text);
          if (expected !== 'refused') read += 1;
          expect(JSON.stringify(scan([text], options))).toBe(JSON.stringify(expected));
          const pieces: string[] = [];
          let at = 0;
          for (const length of lengths) pieces.push(text.slice(at, (at += length)));
          const cut = scan([...pieces, text.slice(at)], options);
          expect(JSON.stringify(cut)).toBe(JSON.stringify(expected));
        },
      ),
      { numRuns: runs, seed },
    );
    console.log(`repeated tags: ${JSON.stringify({ seed, runs: runs, read })}`);
    // Both kinds must have been there in number, or nothing was compared.
    expect(read).toBeGreaterThan(runs / 10);
    expect(runs - read).toBeGreaterThan(runs / 10);
  });

  test('in another document says what it says where it stands now, as libxml2 reads it', () => {
    let read = 0;
    fc.assert(
      fc.property(
        fc.array(documents, { minLength: 2, maxLength: 8 }),
        fc.record({ leaves: fc.boolean(), asks: fc.boolean() }),
        (texts, options) => {
          const memories = scannerMemories(() => 0);
          for (const text of [...texts, ...texts]) {
            const expected = libxml2(text);
            if (expected !== 'refused') read += 1;
            const told = scan([text], options, memories);
            expect(JSON.stringify(told)).toBe(JSON.stringify(expected));
          }
        },
      ),
      { numRuns: sizes.propertyRuns, seed: fuzzSeed() },
    );
    expect(read).toBeGreaterThan(sizes.propertyRuns);
  });

  test('is known in the next document, unless it was broken or taught too much', () => {
    const memories = scannerMemories(() => 0);
    const first = memories.take();
    expect(memories.take()).not.toBe(first);
    memories.giveBack(first);
    expect(memories.take()).toBe(first);
    memories.giveBack(first);
    const all = { leaves: true, asks: false };
    expect(scan(['<r>'], all, memories)).toBe('refused');
    // What a broken document left behind is not used.
    expect(memories.take()).not.toBe(first);
    const next = memories.take();
    memories.giveBack(next);
    const wide = Array.from({ length: 2_000 }, (_, index) => `<n${index}/>`).join('');
    expect(scan([`<r>${wide}</r>`], all, memories)).not.toBe('refused');
    // What was learnt of so many names is given up.
    expect(memories.take()).not.toBe(next);
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
    for (const leaves of [true, false])
      expect(scan([text], { leaves, asks: false })).toBe('refused');
  });

  test.each([
    ['<long-root xmlns:p="urn:1"><p:a></p:a></long-root>', '<long-root><p:a></p:a></long-root>'],
    [
      '<long-root xmlns:p="urn:1"><p:a></p:a></long-root>',
      '<long-root xmlns:p="urn:1"></long-root><long-root xmlns:p="urn:1"></long-root>',
    ],
    ['<r><c xmlns:p="urn:1"><p:a></p:a></c></r>', '<r><c xmlns:p="urn:1"></c><p:a></p:a></r>'],
  ])('of another document declares nothing here: %s, %s', (before, text) => {
    for (const leaves of [true, false]) {
      const options = { leaves, asks: false };
      const memories = scannerMemories(() => 0);
      for (let times = 0; times < 3; times += 1)
        expect(scan([before], options, memories)).not.toBe('refused');
      expect(scan([text], options, memories)).toBe('refused');
    }
  });

  test('opens no more levels than a new one', () => {
    const nested = (levels: number): string => '<long>'.repeat(levels) + '</long>'.repeat(levels);
    expect(scan([nested(200)], { leaves: true, asks: false })).not.toBe('refused');
    expect(scan([nested(201)], { leaves: true, asks: false })).toBe('refused');
  });
});

describe('bytes as words', () => {
  test('are the same exactly when the bytes are, save that some are never', () => {
    const letters = fc.constantFrom(0x20, 0x3c, 0x61, 0x62, 0x7f, 0xc3, 0xf0);
    fc.assert(
      fc.property(
        fc
          .uint8Array({ minLength: 4, maxLength: 40 })
          .map((bytes) => bytes.map((byte) => byte || 1)),
        fc.array(letters, { maxLength: 9 }),
        fc.nat(),
        letters,
        (bytes, before, at, letter) => {
          const same = Buffer.from([...before, ...bytes, 0x20]);
          const other = Buffer.from(same);
          const place = before.length + (at % bytes.length);
          other[place] = letter;
          const words = wordsOf(bytes);
          const found = (all: Buffer): boolean =>
            hasWords(
              new DataView(all.buffer, all.byteOffset, all.length),
              before.length,
              words,
              bytes.length,
            );
          expect(found(same)).toBe(!words.some(Number.isNaN));
          if (same[place] !== letter) expect(found(other)).toBe(false);
          expect(found(same.subarray(0, -2))).toBe(false);
        },
      ),
      { numRuns: sizes.propertyRuns },
    );
  });
});
