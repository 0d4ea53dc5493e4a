import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { MDX, mdxTokens, textAt, unquoted } from '../../../../src/xmla/mdx/mdx-tokens.ts';
import type { MdxTokens } from '../../../../src/xmla/mdx/mdx-tokens.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

/** Names of the kinds as they stand below: `lineComment` is `line-comment`. */
const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(MDX).map(([name, kind]) => [
    kind,
    name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`),
  ]),
);

function nameAt({ kinds, text, starts }: MdxTokens, index: number): string | undefined {
  const kind = kinds[index] ?? -1;
  const isMark = kind === MDX.otherMark || kind === text.charCodeAt(starts[index] ?? -1);
  return isMark ? 'mark' : NAMES.get(kind);
}

function tokens(text: string): string[] {
  const all = mdxTokens(text);
  return [...Array(all.count).keys()].map((index) => `${nameAt(all, index)} ${textAt(all, index)}`);
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
  expect(unquoted("'a''b\"\"'")).toBe('a\'b""');
  expect(unquoted('"a""b\'\'"')).toBe("a\"b''");
});

const awkward = fc.string({
  unit: fc.constantFrom(
    ...`'"[]/*-\n\r\t\f\v &;!+$(){}a1._eE\0é\u00A0\u200B\u2028👍`,
    ...["''", '--', '//', '/*', '*/', ']]', '1.5e-3', 'word'],
  ),
});
const anyText = fc.oneof(awkward, fc.string({ unit: codePoint }));

test('the tokens of any text, joined, are the text', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const all = mdxTokens(text);
      const numbers = [...Array(all.count).keys()];
      expect(numbers.map((index) => textAt(all, index)).join('')).toBe(text);
      expect(numbers.every((index) => textAt(all, index) !== '')).toBe(true);
      expect(numbers.slice(0, -1).every((index) => all.kinds[index] !== MDX.unterminated)).toBe(
        true,
      );
    }),
    { numRuns: sizes.propertyRuns * 5 },
  );
});

test('any text has the tokens that the rules of the language, tried one after the other, give it', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      expect(tokens(text)).toEqual(byRules(text));
    }),
    { numRuns: sizes.propertyRuns * 5 },
  );
});

/** The first that matches is the token, and what none matches is a mark: plain to see, and slow. */
const RULES: readonly (readonly [string, RegExp])[] = [
  ['bracketed', /\[(?:[^\]]|\]\])*\](?!\])/y],
  ['single-quoted', /'(?:[^']|'')*'(?!')/y],
  ['double-quoted', /"(?:[^"]|"")*"(?!")/y],
  ['block-comment', /\/\*[^]*?\*\//y],
  ['unterminated', /(?:[['"]|\/\*)[^]*/y],
  ['space', /[ \t\n\r\f]+/y],
  ['line-comment', /(?:--|\/\/)[^\n]*/y],
  ['number', /(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y],
  ['word', /(?:[A-Za-z0-9_]|[^\0-\x7F\s])+/y],
  ['mark', /[^]/y],
];

function byRules(text: string): string[] {
  const found: string[] = [];
  let position = 0;
  while (position < text.length) {
    for (const [kind, pattern] of RULES) {
      pattern.lastIndex = position;
      const [token] = pattern.exec(text) ?? [];
      if (token === undefined) continue;
      found.push(`${kind} ${token}`);
      position += token.length;
      break;
    }
  }
  return found;
}
