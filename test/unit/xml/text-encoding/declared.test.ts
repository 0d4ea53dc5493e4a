import { describe, expect, test } from '@jest/globals';
import { DECLARATION_LIMIT, findEncoding } from '../../../../src/xml/text-encoding.ts';

const MARKS = {
  none: [],
  utf8: [0xef, 0xbb, 0xbf],
  utf16le: [0xff, 0xfe],
  utf16be: [0xfe, 0xff],
};

function bytesOf(text: string, mark: keyof typeof MARKS, coding: '8' | 'le' | 'be' = '8'): Buffer {
  const body = Buffer.from(text, coding === '8' ? 'latin1' : 'utf16le');
  if (coding === 'be') body.swap16();
  return Buffer.concat([Buffer.from(MARKS[mark]), body]);
}

function encodingOf(bytes: Buffer, contentType?: string): string {
  const found = findEncoding(bytes, true, contentType);
  return typeof found === 'string' ? found : found.encoding;
}

const declared = (name: string): string => `<?xml version="1.0" encoding="${name}"?><a/>`;

describe('the encoding of a document', () => {
  test.each([
    ['utf-8', '<a/>', undefined],
    ['utf-8', '<a/>', 'text/xml'],
    ['utf-8', '', undefined],
    ['utf-8', '<a', undefined],
    ['utf-8', '<?xml version="1.0"?><a/>', undefined],
    ['utf-8', declared('utf-8'), 'text/xml; charset="UTF-8"'],
    ['utf-8', declared('UTF-8'), 'text/xml;charset=utf8;x=y'],
    ['iso-8859-1', declared('ISO-8859-1'), 'text/xml'],
    ['iso-8859-1', '<a/>', 'text/xml;charset=iso-8859-1'],
    [
      'iso-8859-1',
      "<?xml version = '1.0' encoding = 'latin1' ?><a/>",
      'text/xml; charset=ISO_8859-1',
    ],
    ['us-ascii', declared('US-ASCII'), undefined],
    // The word may stand elsewhere in the declaration and in the text.
    ['utf-8', '<?xml version="encoding=\'x\'"?><a encoding="x"/>', undefined],
    ['utf-8', '<?xmlx encoding="x"?><a/>', undefined],
  ])('is %s for %j with %j', (encoding, text, contentType) => {
    expect(encodingOf(bytesOf(text, 'none'), contentType)).toBe(encoding);
  });

  test.each([
    [declared('windows-1252'), undefined],
    [declared('constructor'), undefined],
    [declared(''), undefined],
    ['<a/>', 'text/xml; charset=gbk'],
    ['<a/>', 'text/xml; charset='],
    ['<a/>', 'text/xml; charset=utf-8; charset=iso-8859-1'],
    ['<a/>', "text/xml; charset*=utf-8''x"],
    ['<a/>', 'text/xml; charset = utf-8'],
    [declared('ISO-8859-1'), 'text/xml; charset=utf-8'],
    [declared('utf-8'), 'text/xml; charset=us-ascii'],
    [declared('UTF-16'), undefined],
    ['<a/>', 'text/xml; charset=utf-16'],
  ])('is unknown for %j with %j', (text, contentType) => {
    expect(encodingOf(bytesOf(text, 'none'), contentType)).toBe('unknown');
  });

  test('must agree with a byte order mark', () => {
    expect(encodingOf(bytesOf('<a/>', 'utf8'))).toBe('utf-8');
    expect(encodingOf(bytesOf(declared('utf-8'), 'utf8'), 'text/xml;charset=utf-8')).toBe('utf-8');
    expect(encodingOf(bytesOf(declared('iso-8859-1'), 'utf8'))).toBe('unknown');
    expect(encodingOf(bytesOf('<a/>', 'utf8'), 'text/xml;charset=iso-8859-1')).toBe('unknown');
    expect(encodingOf(bytesOf('<a/>', 'utf16le'), 'text/xml;charset=utf-16be')).toBe('unknown');
  });

  test.each([
    ['utf-16le', 'utf16le', 'le', '<a/>', undefined],
    ['utf-16be', 'utf16be', 'be', '<a/>', undefined],
    ['utf-16le', 'utf16le', 'le', declared('UTF-16'), 'text/xml;charset=utf-16'],
    ['utf-16be', 'utf16be', 'be', declared('utf-16be'), undefined],
    ['utf-16le', 'none', 'le', declared('utf-16'), undefined],
    ['utf-16be', 'none', 'be', '<a/>', 'text/xml;charset=utf-16be'],
    ['unknown', 'none', 'le', '<a/>', undefined],
    ['unknown', 'none', 'le', '<a/>', 'text/xml;charset=utf-16be'],
    ['unknown', 'none', 'be', declared('utf-16le'), undefined],
    ['unknown', 'utf16le', 'le', declared('utf-8'), undefined],
    ['unknown', 'utf16be', 'be', '<a/>', 'text/xml;charset=utf-8'],
  ] as const)('is %s with the mark %s in %s', (encoding, mark, coding, text, contentType) => {
    expect(encodingOf(bytesOf(text, mark, coding), contentType)).toBe(encoding);
  });

  test.each([
    [[0xff, 0xfe, 0, 0, 0x3c, 0, 0, 0]],
    [[0, 0, 0xfe, 0xff, 0, 0, 0, 0x3c]],
    [[0x3c, 0, 0, 0]],
    [[0, 0, 0, 0x3c]],
    [[0, 0, 0, 0]],
  ])('is unknown for UTF-32: %j', (bytes) => {
    expect(encodingOf(Buffer.from(bytes))).toBe('unknown');
  });

  test('waits for the end of the declaration, and not for ever', () => {
    const text = declared('ISO-8859-1');
    for (let length = 0; length < text.indexOf('?>') + 2; length++) {
      const found = findEncoding(bytesOf(text.slice(0, length), 'none'), false, undefined);
      expect(found).toBe('more');
    }
    const whole = bytesOf(text.slice(0, text.indexOf('?>') + 2), 'none');
    expect(findEncoding(whole, false, undefined)).toEqual({
      encoding: 'iso-8859-1',
      declared: 'iso-8859-1',
      ordered: true,
    });
    const endless = bytesOf(`<?xml ${' '.repeat(DECLARATION_LIMIT)}`, 'none');
    expect(findEncoding(endless, false, undefined)).toBe('unknown');
  });

  test('is the same with more bytes once it was found', () => {
    for (const text of [
      declared('ISO-8859-1'),
      '<abc><?xml encoding="x"?></abc>',
      '<?xm z?><a/>',
    ]) {
      const all = bytesOf(text, 'none');
      const whole = findEncoding(all, true, undefined);
      for (let length = 0; length <= all.length; length++) {
        const found = findEncoding(all.subarray(0, length), false, undefined);
        expect([whole, 'more']).toContainEqual(found);
      }
    }
  });
});
