import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { XmlDocument, XmlElement } from 'libxml2-wasm';
import { sessionBytes, withSession } from '../../../../src/cache/stored-answer.ts';
import type { TextEncoding } from '../../../../src/xml/text-encoding.ts';
import { sizes } from '../../../support/sizes.ts';
import {
  cutElement,
  cutSession,
  documentWith,
  ENCODINGS,
  sessionIds,
  type DocumentForm,
} from './session-documents.ts';

/** What libxml2 reads: the session id, and the document as it would be with another. */
function readByLibxml2(bytes: Buffer): { id: string | undefined; rest: string } {
  const document = XmlDocument.fromBuffer(bytes);
  try {
    const element = document.get('//x:Session', { x: 'urn:schemas-microsoft-com:xml-analysis' });
    const attribute = element instanceof XmlElement ? element.attr('SessionId') : null;
    const id = attribute?.value;
    if (attribute !== null) attribute.value = 'somebody';
    return { id, rest: document.toString({ format: false }) };
  } finally {
    document.dispose();
  }
}

/** The document after another id was put into it. */
function exchanged(id: string, written: string, form: DocumentForm, other: string): Buffer {
  const { bytes, session } = documentWith(id, written, form);
  const { body, session: place } = cutSession(bytes, session);
  return Buffer.concat(withSession({ body, session: place }, other));
}

const FORMS: readonly (readonly [string, Omit<DocumentForm, 'encoding'>])[] = [
  ['as engines write it', {}],
  ['another prefix', { prefix: 'xa' }],
  ['single quotes', { quote: "'" }],
  ['a mark in front', { mark: true }],
  ['an end tag', { endTag: true }],
  ['attributes before and behind', { before: ` a="SessionId='x'" `, behind: ` b='"' c="/&gt;" ` }],
  [
    'the text of a Session elsewhere',
    {
      comment: '<Session SessionId="x"/>',
      caption: '&lt;Session SessionId="x"/&gt;<![CDATA[<Session SessionId="x"/>]]>',
    },
  ],
];

const FOREIGN = { comment: 'Käse é', caption: 'naïve café' };

const forms: fc.Arbitrary<DocumentForm> = fc.record({
  encoding: fc.constantFrom(...ENCODINGS),
  mark: fc.boolean(),
  prefix: fc.constantFrom('', 'xmla'),
  quote: fc.constantFrom('"' as const, "'" as const),
  before: fc.constantFrom(' ', '\n', ' a="1" '),
  behind: fc.constantFrom('', ' ', ' b="&gt;"'),
  endTag: fc.boolean(),
});

describe('another session id in the place of the first', () => {
  test.each(
    ENCODINGS.flatMap((encoding) => FORMS.map(([name, form]) => ({ encoding, name, form }))),
  )(
    'is the one that is read, and the only thing that changed ($encoding, $name)',
    ({ encoding, form }) => {
      const original = documentWith('a&b é', 'a&amp;b &#233;', { encoding, ...form });
      const other = `c"d'é😀<]]>\t\n\r &amp; `;
      const bytes = exchanged('a&b é', 'a&amp;b &#233;', { encoding, ...form }, other);
      const { id: before, rest } = readByLibxml2(original.bytes);
      expect(before).toBe('a&b é');
      expect(readByLibxml2(bytes)).toEqual({ id: other, rest });
    },
  );

  test.each(ENCODINGS.filter((encoding) => encoding !== 'us-ascii'))(
    'is at its place where letters of several bytes stand before and after it (%s)',
    (encoding) => {
      const form = { encoding, ...FOREIGN };
      const { rest } = readByLibxml2(documentWith('a', 'a', form).bytes);
      expect(readByLibxml2(exchanged('a', 'a', form, 'Käse'))).toEqual({ id: 'Käse', rest });
    },
  );

  test('is read as it is meant, in every encoding and whatever is in it', () => {
    fc.assert(
      fc.property(forms, sessionIds, (form, id) => {
        const { rest } = readByLibxml2(documentWith('a', 'a', form).bytes);
        expect(readByLibxml2(exchanged('a', 'a', form, id))).toEqual({ id, rest });
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('gives the bytes of the engine when it is the same id', () => {
    fc.assert(
      fc.property(forms, sessionIds, (form, id) => {
        const asWritten = textOf(sessionBytes(id, form.encoding), form.encoding);
        const { bytes } = documentWith(id, asWritten, form);
        expect(exchanged(id, asWritten, form, id)).toEqual(bytes);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('copies nothing of the body', () => {
    const { bytes, session } = documentWith('a', 'a', { encoding: 'utf-8' });
    const { body, session: place } = cutSession(bytes, session);
    const [head, , tail] = withSession({ body, session: place }, 'b');
    expect([head?.buffer, head?.byteOffset]).toEqual([body.buffer, body.byteOffset]);
    expect([tail?.buffer, tail?.byteOffset]).toEqual([body.buffer, body.byteOffset + place.at]);
  });
});

test('nothing of the id that was cut out is left in what is kept', () => {
  fc.assert(
    fc.property(fc.constantFrom(...ENCODINGS), fc.uuid(), (encoding, id) => {
      const { bytes, session } = documentWith(id, id, { encoding });
      const written = sessionBytes(id, encoding);
      expect(bytes.includes(written)).toBe(true);
      expect(cutSession(bytes, session).body.includes(written)).toBe(false);
      expect(cutElement(bytes, session).includes(written)).toBe(false);
    }),
    { numRuns: sizes.propertyRuns },
  );
});

test('an answer that shows a session is given to nobody without one', () => {
  const { bytes, session } = documentWith('a', 'a', { encoding: 'utf-8' });
  const { body, session: place } = cutSession(bytes, session);
  expect(() => withSession({ body, session: place }, undefined)).toThrow('without one');
});

test('an answer that shows no session is the same for everybody', () => {
  const body = Buffer.from('<a/>');
  expect(withSession({ body, session: undefined }, 'a')).toEqual([body]);
  expect(withSession({ body, session: undefined }, undefined)).toEqual([body]);
});

describe('the whole element', () => {
  test.each(ENCODINGS)('leaves the header and everything else as it was (%s)', (encoding) => {
    const caption = encoding === 'us-ascii' ? 'x' : FOREIGN.caption;
    const form = { encoding, caption, prefix: 'p', endTag: true };
    const { bytes, session } = documentWith('a', 'a', form);
    const read = readByLibxml2(cutElement(bytes, session));
    expect(read.id).toBeUndefined();
    const { rest } = readByLibxml2(bytes);
    expect(read.rest).toBe(rest.replace(/<p:Session[^>]*>/, ''));
  });

  test('leaves an empty header where nothing else is in it', () => {
    const text = '<h:Header><Session SessionId="a"/></h:Header>';
    const [start, end] = [text.indexOf('<Session'), text.indexOf('</h')];
    expect(cutElement(Buffer.from(text), { element: { start, end } }).toString()).toBe(
      '<h:Header></h:Header>',
    );
  });
});

describe('an id', () => {
  test.each(['\0', '\x0b', '\x1f', '\ud800', '\udc00a', '\ufffe', '\uffff'])(
    'with a character that XML forbids is never written (%j)',
    (character) => {
      for (const encoding of ENCODINGS) {
        expect(() => sessionBytes(`a${character}b`, encoding)).toThrow(RangeError);
      }
    },
  );

  test.each<[TextEncoding, string]>([
    ['utf-8', '&amp;&lt;&gt;&quot;&apos;&#x9;&#xA;&#xD; é€😀'],
    ['utf-16le', '&amp;&lt;&gt;&quot;&apos;&#x9;&#xA;&#xD; é€😀'],
    ['utf-16be', '&amp;&lt;&gt;&quot;&apos;&#x9;&#xA;&#xD; é€😀'],
    ['iso-8859-1', '&amp;&lt;&gt;&quot;&apos;&#x9;&#xA;&#xD; é&#x20AC;&#x1F600;'],
    ['us-ascii', '&amp;&lt;&gt;&quot;&apos;&#x9;&#xA;&#xD; &#xE9;&#x20AC;&#x1F600;'],
  ])('is written with as few escapes as %s allows', (encoding, text) => {
    expect(textOf(sessionBytes(`&<>"'\t\n\r é€😀`, encoding), encoding)).toBe(text);
  });
});

function textOf(bytes: Buffer, encoding: TextEncoding): string {
  if (encoding === 'utf-16be') return Buffer.from(bytes).swap16().toString('utf16le');
  if (encoding === 'utf-16le') return bytes.toString('utf16le');
  return bytes.toString(encoding === 'utf-8' ? 'utf8' : 'latin1');
}
