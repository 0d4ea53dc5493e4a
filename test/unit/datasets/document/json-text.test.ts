import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { scanJson } from '../../../../src/datasets/document.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

const scan = (text: string | Uint8Array) =>
  scanJson(typeof text === 'string' ? Buffer.from(text) : text, 100, [], () => {});
const mistake = (text: string | Uint8Array) => {
  const result = scan(text);
  return result.ok ? undefined : result.mistake;
};

/** Whether JSON.parse reads the text; it knows no byte order mark. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text.replace(/^\ufeff/, ''));
    return true;
  } catch {
    return false;
  }
}

describe('a JSON text', () => {
  test.each([
    ['{}', true],
    [' \t\r\n{ "a" : [ ] , "b" : { } }\n', true],
    ['[]', false],
    ['"\\"\\\\\\/\\b\\f\\n\\r\\t\\uD834\\udd1e"', false],
    ['"\\ud800"', false],
    ['"\u007f\u2028\uffff"', false],
    ['[0,-0,1.50,1E+9,1e-9,-1.5e5,123456789012345678901234567890]', false],
    ['[true,false,null]', false],
    ['\ufeff{"a":1}', true],
  ])('may be %j', (text, isObject) => {
    expect(scan(text)).toEqual({ ok: true, isObject });
  });

  test.each([
    ['', 'line 1, column 1: expected a value, but the text ends'],
    ['   ', 'line 1, column 4: expected a value, but the text ends'],
    ['{', 'line 1, column 2: expected a property name in double quotes, but the text ends'],
    ['{a:1}', 'line 1, column 2: expected a property name in double quotes'],
    ["{'a':1}", 'line 1, column 2: expected a property name in double quotes'],
    ['{"a"}', 'line 1, column 5: expected ":"'],
    ['{"a":}', 'line 1, column 6: expected a value'],
    ['{"a":1,}', 'line 1, column 8: expected a property name in double quotes'],
    ['{"a":1 "b":2}', 'line 1, column 8: expected "," or "}"'],
    ['{"a":1]', 'line 1, column 7: expected "," or "}"'],
    ['[1,]', 'line 1, column 4: expected a value'],
    ['[1}', 'line 1, column 3: expected "," or "]"'],
    ['[1 2]', 'line 1, column 4: expected "," or "]"'],
    ['[1', 'line 1, column 3: expected "," or "]", but the text ends'],
    ['1 2', 'line 1, column 3: expected the end of the text'],
    ['{} // no', 'line 1, column 4: expected the end of the text'],
    ['01', 'line 1, column 2: expected the end of the text'],
    ['+1', 'line 1, column 1: expected a value'],
    ['-', 'line 1, column 1: expected a value'],
    ['1.', 'line 1, column 2: expected the end of the text'],
    ['.5', 'line 1, column 1: expected a value'],
    ['1e', 'line 1, column 2: expected the end of the text'],
    ['nul', 'line 1, column 1: expected a value'],
    ['NaN', 'line 1, column 1: expected a value'],
    ['True', 'line 1, column 1: expected a value'],
    ['"a', 'line 1, column 3: expected the end of a string, but the text ends'],
    ['"a\nb"', 'line 1, column 3: a string holds a control character as it is'],
    ['"\\x"', 'line 1, column 2: a string holds a backslash that begins no escape'],
    ['"\\N"', 'line 1, column 2: a string holds a backslash that begins no escape'],
    ['"\\u12g4"', 'line 1, column 2: a string holds a backslash that begins no escape'],
    ['"\\', 'line 1, column 2: a string holds a backslash that begins no escape'],
    ['\ufeff\ufeff1', 'line 1, column 1: expected a value'],
    ['\u00a01', 'line 1, column 1: expected a value'],
    ['{\n  "größe": "👍",\n  "x": !\n}', 'line 3, column 8: expected a value'],
    ['{"größe": "👍", !', 'line 1, column 16: expected a property name in double quotes'],
  ])('is not %j', (text, expected) => {
    expect(mistake(text)).toBe(expected);
  });

  test.each([
    [[0x22, 0x80, 0x22], 2],
    [[0x22, 0xc0, 0xaf, 0x22], 2],
    [[0x22, 0xed, 0xa0, 0x80, 0x22], 2],
    [[0x22, 0xf5, 0x80, 0x80, 0x80, 0x22], 2],
    [[0x22, 0xef, 0xbf, 0xbd, 0xc3], 3],
    [[0x22, 0xef, 0xbf, 0xbd, 0xc3, 0xa4, 0xff, 0x22], 4],
    [[...Buffer.from('\ufeff"'), 0xff], 2],
  ])('is UTF-8 to its end (%j)', (bytes, column) => {
    expect(mistake(Uint8Array.from(bytes))).toBe(
      `line 1, column ${column}: the bytes are not UTF-8`,
    );
  });

  test('may be nested deeper than any stack', () => {
    const depth = 1_000_000;
    const deep = (text: string) => scanJson(Buffer.from(text), depth, [], () => {});
    expect(deep('['.repeat(depth) + ']'.repeat(depth))).toEqual({ ok: true, isObject: false });
    expect(deep('[{"a":'.repeat(depth / 2))).toMatchObject({
      mistake: expect.stringMatching(/but the text ends$/),
    });
  });

  test('may be held to a depth', () => {
    const deep = (text: string) => scanJson(Buffer.from(text), 2, [], () => {});
    expect(deep('{"a":[1],"b":{"c":1}}').ok).toBe(true);
    expect(deep('{"a":[{}]}')).toEqual({
      ok: false,
      mistake: 'line 1, column 7: arrays and objects are nested more than 2 deep',
    });
  });
});

describe('the fields of the outermost object', () => {
  function fieldsOf(text: string): string[][] {
    const bytes = Buffer.from(text);
    const found: string[][] = [];
    scanJson(bytes, 100, ['a', 'b'], (name, { from, to }) => {
      found.push([name, bytes.toString('utf8', from, to)]);
    });
    return found;
  }

  test('are told as they stand there, repeated ones too, those of inner ones not', () => {
    const text = ' { "a" : {"b":[{"a":1}]} , "\\u0061": [ 1 ] ,"ä":1,"b":-1.5e3,"ab":2,"a":"ä}" } ';
    expect(fieldsOf(text)).toEqual([
      ['a', '{"b":[{"a":1}]}'],
      ['a', '[ 1 ]'],
      ['b', '-1.5e3'],
      ['a', '"ä}"'],
    ]);
  });

  test.each([['[{"a":1}]'], ['{}'], ['"a"'], ['[[],{"a":{}}]'], ['{"c":{"a":1},"d":[]}']])(
    'are none in %s',
    (text) => {
      expect(fieldsOf(text)).toEqual([]);
    },
  );
});

const numRuns = 2 * sizes.propertyRuns;

describe('for any text the scan agrees with JSON.parse', () => {
  const json = fc
    .tuple(fc.jsonValue(), fc.constantFrom(0, 1, '\t', '\n '))
    .map(([value, indent]) => JSON.stringify(value, null, indent));
  const piece = fc.oneof(
    fc.constantFrom(...'{}[],:"\\.+-0123456789eEtrufalsn \n\t\0\ufeff\u00a0'),
    fc.constantFrom('"a"', '{"a":', 'true', 'null', '\\u00', '-1.5e+3', '\\"'),
  );

  test('that is JSON', () => {
    fc.assert(
      fc.property(json, (text) => expect(mistake(text)).toBeUndefined()),
      { numRuns },
    );
  });

  test('that was JSON before something was put into it, or taken away', () => {
    fc.assert(
      fc.property(
        json,
        fc.nat(),
        fc.nat(3),
        fc.oneof(piece, fc.constant('')),
        (text, at, cut, put) => {
          const from = at % (text.length + 1);
          const changed = text.slice(0, from) + put + text.slice(from + cut);
          // A surrogate that lost its other half is not sent as it is.
          const sent = Buffer.from(changed).toString('utf8');
          expect([sent, scan(sent).ok]).toEqual([sent, isJson(sent)]);
        },
      ),
      { numRuns },
    );
  });

  test('that is made of pieces of JSON', () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('');
        expect([text, scan(text).ok]).toEqual([text, isJson(text)]);
      }),
      { numRuns },
    );
  });

  test('and finds what is not UTF-8 where it stands', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: codePoint }),
        fc.constantFrom('\xff', '\x80', '\xc3', '\xe2\x82', '\xf0\x9f\x98', '\xc0\xaf'),
        fc.string({ unit: 'grapheme-ascii' }),
        (before, wrong, after) => {
          const begin = before.toWellFormed().replaceAll(/[\n\ufeff]/g, '');
          const bytes = Buffer.concat([
            ...[Buffer.from(begin), Buffer.from(wrong, 'latin1'), Buffer.from(after)],
          ]);
          const column = [...begin].length + 1;
          expect(mistake(bytes)).toBe(`line 1, column ${column}: the bytes are not UTF-8`);
        },
      ),
      { numRuns },
    );
  });
});
