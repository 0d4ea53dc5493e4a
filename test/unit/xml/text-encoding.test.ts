import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { decodeText } from '../../../src/xml/text-encoding.ts';
import { sizes } from '../../support/sizes.ts';

const BOM = '\uFEFF';
/** With the text as a string, without its first byte order mark. */
function decoded(bytes: Uint8Array, contentType: string | undefined) {
  const found = decodeText(bytes, contentType);
  if (found === undefined) return { ok: false };
  const { utf8, ...rest } = found;
  return { ok: true, ...rest, text: utf8.toString().replace(/^\uFEFF/, '') };
}

const TEXT = '<a>Größe 日本 🐘</a>';

function utf16le(text: string): Buffer {
  return Buffer.from(text, 'utf16le');
}

function utf16be(text: string): Buffer {
  return utf16le(text).swap16();
}

function declares(encoding: string): string {
  return `<?xml version="1.0" encoding="${encoding}"?><a/>`;
}

describe('what is decoded', () => {
  test.each<[string, Buffer, string | undefined, string]>([
    ['UTF-8, nothing said', Buffer.from(TEXT), undefined, 'utf-8'],
    ['UTF-8, no charset', Buffer.from(TEXT), 'text/xml', 'utf-8'],
    ['UTF-8, charset', Buffer.from(TEXT), 'text/xml; charset=utf-8', 'utf-8'],
    ['UTF-8, quoted charset in capitals', Buffer.from(TEXT), 'text/xml;CharSet="UTF-8"', 'utf-8'],
    ['UTF-8, the other spelling', Buffer.from(TEXT), 'text/xml; charset=utf8', 'utf-8'],
    ['UTF-8 with mark', Buffer.from(BOM + TEXT), 'text/xml', 'utf-8'],
    [
      'UTF-16LE with mark, charset utf-16',
      utf16le(BOM + TEXT),
      'text/xml; charset=utf-16',
      'utf-16le',
    ],
    ['UTF-16LE with mark, no charset', utf16le(BOM + TEXT), undefined, 'utf-16le'],
    ['UTF-16BE with mark', utf16be(BOM + TEXT), 'text/xml', 'utf-16be'],
    ['UTF-16LE named', utf16le(TEXT), 'text/xml; charset=UTF-16LE', 'utf-16le'],
    ['UTF-16BE named', utf16be(TEXT), 'text/xml; charset=utf-16be', 'utf-16be'],
  ])('%s', (_, bytes, contentType, encoding) => {
    expect(decoded(bytes, contentType)).toEqual({
      ok: true,
      text: TEXT,
      encoding,
      declared: undefined,
    });
  });

  test.each<[string, string | undefined, string]>([
    ['US-ASCII', undefined, 'us-ascii'],
    ['us-ascii', 'text/xml', 'us-ascii'],
    ['ascii', 'text/xml; charset=US-ASCII', 'us-ascii'],
    ['', 'text/xml; charset=us-ascii', 'us-ascii'],
    ['ISO-8859-1', 'text/xml', 'iso-8859-1'],
    ['latin1', 'text/xml; charset="iso-8859-1"', 'iso-8859-1'],
    ['', 'text/xml; charset=latin1', 'iso-8859-1'],
  ])('declared as "%s", %s: %s', (label, contentType, encoding) => {
    const text = label === '' ? '<a/>' : declares(label);
    expect(decoded(Buffer.from(text), contentType)).toEqual({
      ok: true,
      text,
      encoding,
      declared: label === '' ? undefined : label.toLowerCase(),
    });
  });

  test('ISO-8859-1 has its 256 characters, and not those of windows-1252', () => {
    const all = Uint8Array.from([0x3c, ...Array.from({ length: 255 }, (_, byte) => byte + 1)]);
    const read = decoded(all, 'text/xml; charset=iso-8859-1');
    const text = String.fromCharCode(...all);
    expect(read).toMatchObject({ ok: true, text, encoding: 'iso-8859-1' });
  });

  test.each([
    ['<?xml version="1.0" encoding="utf-8"?><a/>'],
    ["<?xml version='1.0'\n encoding = 'UTF-8' standalone='yes'?><a/>"],
    ['<?xml version="1.0"?><a encoding="latin1"/>'],
  ])('a declaration that agrees: %s', (text) => {
    expect(decoded(Buffer.from(text), 'text/xml; charset=utf-8').ok).toBe(true);
  });

  test('a second byte order mark stays in the text', () => {
    expect(decoded(Buffer.from(BOM + BOM + TEXT), undefined)).toEqual({
      ok: true,
      text: BOM + TEXT,
      encoding: 'utf-8',
      declared: undefined,
    });
  });

  test('a view into a larger buffer is decoded by its own bounds', () => {
    const whole = Buffer.from(`xx${TEXT}yy`);
    const view = whole.subarray(2, whole.length - 2);
    expect(decoded(view, undefined)).toMatchObject({ ok: true, text: TEXT });
  });
});

describe('what is not decoded', () => {
  test.each<[string, Buffer, string | undefined]>([
    ['another charset', Buffer.from('<a/>'), 'text/xml; charset=windows-1252'],
    ['a byte over 0x7F as ASCII', Buffer.from('<a>\x80', 'latin1'), 'text/xml; charset=us-ascii'],
    ['ASCII against the charset', Buffer.from(declares('us-ascii')), 'text/xml; charset=utf-8'],
    ['UTF-8 against the charset', Buffer.from(declares('utf-8')), 'text/xml; charset=us-ascii'],
    ['Latin 1 against ASCII', Buffer.from(declares('latin1')), 'text/xml; charset=us-ascii'],
    ['ASCII against the mark', Buffer.from(BOM + declares('us-ascii')), 'text/xml'],
    ['a byte order in ASCII', Buffer.from(declares('utf-16le')), 'text/xml'],
    [
      'ASCII, said far behind',
      Buffer.from(declares('us-ascii').replace(' enc', `${' '.repeat(2_000)}enc`)),
      'text/xml',
    ],
    ['an empty charset', Buffer.from('<a/>'), 'text/xml; charset=""'],
    ['two charsets', Buffer.from('<a/>'), 'text/xml; charset=utf-8; charset=utf-16'],
    ['an extended charset', Buffer.from('<a/>'), "text/xml; charset*=utf-8''utf-16"],
    ['a name of an object property', Buffer.from('<a/>'), 'text/xml; charset=constructor'],
    ['utf-16 without mark', utf16le(TEXT), 'text/xml; charset=utf-16'],
    ['a mark against the charset', Buffer.from(BOM + TEXT), 'text/xml; charset=utf-16'],
    ['a mark against the byte order', utf16be(BOM + TEXT), 'text/xml; charset=utf-16le'],
    ['a UTF-16 mark against utf-8', utf16le(BOM + TEXT), 'text/xml; charset=utf-8'],
    ['UTF-32LE', Buffer.from([0xff, 0xfe, 0, 0, 0x3c, 0, 0, 0]), undefined],
    ['UTF-32BE', Buffer.from([0, 0, 0xfe, 0xff, 0, 0, 0, 0x3c]), undefined],
    ['a declaration against UTF-8', Buffer.from(declares('utf-16')), undefined],
    ['a declaration of windows-1252', Buffer.from(declares('windows-1252')), 'text/xml'],
    ['a declaration against UTF-16', utf16le(BOM + declares('utf-8')), undefined],
    ['a declared byte order against the mark', utf16le(BOM + declares('utf-16be')), undefined],
    ['a broken sequence', Buffer.from([0x3c, 0xc3, 0x28]), undefined],
    ['an overlong sequence', Buffer.from([0xc0, 0xbc]), undefined],
    ['a surrogate in UTF-8', Buffer.from([0xed, 0xa0, 0x80]), undefined],
    ['half a unit of UTF-16', Buffer.from([0xff, 0xfe, 0x3c]), undefined],
    ['a lone surrogate in UTF-16', Buffer.from([0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00]), undefined],
  ])('%s', (_, bytes, contentType) => {
    expect(decoded(bytes, contentType)).toEqual({ ok: false });
  });
});

test('any text survives every encoding that is read', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (part) => {
      const text = `<a>${part}`;
      expect(decoded(Buffer.from(text), undefined)).toMatchObject({ ok: true, text });
      expect(decoded(utf16le(BOM + text), undefined)).toMatchObject({ ok: true, text });
      expect(decoded(utf16be(BOM + text), undefined)).toMatchObject({ ok: true, text });
    }),
    { numRuns: sizes.propertyRuns },
  );
});

test('no bytes and no header make it throw', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.option(fc.string(), { nil: undefined }), (bytes, header) => {
      expect(typeof decodeText(bytes, header)).not.toBe('string');
    }),
    { numRuns: sizes.propertyRuns },
  );
});
