import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { mdxTokens, unquoted } from '../../../src/xmla/mdx-tokens.ts';
import { sizes } from '../../support/sizes.ts';

function tokens(text: string): string[] {
  return [...mdxTokens(text)].map((token) => `${token.kind} ${token.text}`);
}

describe('every kind of token', () => {
  test.each<[string, string[]]>([
    [' \t\n\r\f', ['space  \t\n\r\f']],
    ['a-- b\nc', ['word a', 'line-comment -- b', 'space \n', 'word c']],
    ['a// b', ['word a', 'line-comment // b']],
    ['/* a\n*/b', ['block-comment /* a\n*/', 'word b']],
    ['/* /* */ */', ['block-comment /* /* */', 'space  ', 'mark *', 'mark /']],
    ['/*/ a */', ['block-comment /*/ a */']],
    ["'a''b'", ["single-quoted 'a''b'"]],
    ["''''", ["single-quoted ''''"]],
    ['"a""b"', ['double-quoted "a""b"']],
    ["'a\"b'", ["single-quoted 'a\"b'"]],
    ['[a]]b].[c]', ['bracketed [a]]b]', 'mark .', 'bracketed [c]']],
    ["[it's -- ok]", ["bracketed [it's -- ok]"]],
    ["'-- no comment'", ["single-quoted '-- no comment'"]],
    ['&[k]&Key', ['mark &', 'bracketed [k]', 'mark &', 'word Key']],
    ['VBA!Now', ['word VBA', 'mark !', 'word Now']],
    [
      '1 2.50 1e-3 .5',
      ['number 1', 'space  ', 'number 2.50', 'space  ', 'number 1e-3', 'space  ', 'number .5'],
    ],
    ['1.a', ['number 1', 'mark .', 'word a']],
    ['Größe_1', ['word Größe_1']],
    ['a\u00A0b', ['word a', 'mark \u00A0', 'word b']],
    ['1-2', ['number 1', 'mark -', 'number 2']],
    ['a/b', ['word a', 'mark /', 'word b']],
  ])('%j', (text, expected) => {
    expect(tokens(text)).toEqual(expected);
  });
});

describe('what never ends is the last token', () => {
  test.each(["'a", '"a', '[a', '/* a', "'''", '[a]]', "'a''"])('%s', (text) => {
    expect(tokens(`x ${text}`)).toEqual(['word x', 'space  ', `unterminated ${text}`]);
  });
});

test('the text inside quotes has its doubled quotes made single', () => {
  const [single] = mdxTokens("'a''b\"\"'");
  const [double] = mdxTokens('"a""b\'\'"');
  expect(single && unquoted(single)).toBe('a\'b""');
  expect(double && unquoted(double)).toBe("a\"b''");
});

test('the tokens of any text, joined, are the text', () => {
  const awkward = fc.string({
    unit: fc.constantFrom(
      "'",
      '"',
      '[',
      ']',
      '/',
      '*',
      '-',
      '\n',
      '\r',
      ' ',
      '&',
      ';',
      'a',
      '1',
      '.',
      'é',
      '\u00A0',
    ),
  });
  fc.assert(
    fc.property(fc.oneof(awkward, fc.string({ unit: 'binary' })), (text) => {
      const all = [...mdxTokens(text)];
      expect(all.map((token) => token.text).join('')).toBe(text);
      expect(all.every((token) => token.text !== '')).toBe(true);
      expect(all.slice(0, -1).every((token) => token.kind !== 'unterminated')).toBe(true);
    }),
    { numRuns: sizes.propertyRuns * 5 },
  );
});
