import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import {
  kindAt,
  MDX,
  mdxTokens,
  startAt,
  textAt,
  unquoted,
} from '../../../../src/xmla/mdx/mdx-tokens.ts';
import type { MdxTokens } from '../../../../src/xmla/mdx/mdx-tokens.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

/** Names of the kinds as they stand below: `singleQuoted` is `single-quoted`. */
const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(MDX).map(([name, kind]) => [
    kind,
    name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`),
  ]),
);

function nameAt(all: MdxTokens, index: number): string | undefined {
  const kind = kindAt(all, index) ?? -1;
  const isMark = kind === MDX.otherMark || kind === textAt(all, index).charCodeAt(0);
  return isMark ? 'mark' : NAMES.get(kind);
}

const numbersOf = ({ count }: MdxTokens) => Array.from({ length: count }, (_, at) => at);

/** The tokens, then the comments. */
function tokens(text: string): string[] {
  const all = mdxTokens(text);
  const named = numbersOf(all).map((index) => `${nameAt(all, index)} ${textAt(all, index)}`);
  return [...named, ...all.comments.map((comment) => `comment ${comment}`)];
}

describe('every kind of token', () => {
  test.each<[string, string[]]>([
    [' \t\n\r\f', []],
    ['a-- b\nc', ['word a', 'word c', 'comment -- b']],
    ['a// b', ['word a', 'comment // b']],
    ['/* a\n*/b', ['word b', 'comment /* a\n*/']],
    ['/* /* */ */', ['mark *', 'mark /', 'comment /* /* */']],
    ['/*/ a */', ['comment /*/ a */']],
    ["'a''b'", ["single-quoted 'a''b'"]],
    ["''''", ["single-quoted ''''"]],
    ['"a""b"', ['double-quoted "a""b"']],
    ["'a\"b'", ["single-quoted 'a\"b'"]],
    ['[a]]b].[c]', ['bracketed [a]]b]', 'mark .', 'bracketed [c]']],
    ["[it's -- ok]", ["bracketed [it's -- ok]"]],
    ["'-- no comment'", ["single-quoted '-- no comment'"]],
    ['&[k]&Key', ['mark &', 'bracketed [k]', 'mark &', 'word Key']],
    ['VBA!Now', ['word VBA', 'mark !', 'word Now']],
    ['1 2.50 1e-3 .5', ['number 1', 'number 2.50', 'number 1e-3', 'number .5']],
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
    expect(tokens(`x ${text}`)).toEqual(['word x', `unterminated ${text}`]);
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

test('between the tokens of any text stand its comments and white space, and nothing else', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const all = mdxTokens(text);
      const numbers = numbersOf(all);
      const starts = numbers.map((at) => startAt(all, at));
      const ends = [0, ...numbers.map((at) => (starts[at] ?? 0) + textAt(all, at).length)];
      const between = [...starts, text.length].map((start, at) => text.slice(ends[at], start));
      let rest = between.join('\n');
      for (const comment of all.comments) {
        const [before = '', ...after] = rest.split(comment);
        expect(before).toMatch(/^[ \t\n\r\f]*$/);
        rest = after.join(comment);
      }
      expect(rest).toMatch(/^[ \t\n\r\f]*$/);
      expect(numbers.every((index) => textAt(all, index) !== '')).toBe(true);
      const kinds = numbers.map((at) => kindAt(all, at));
      expect(kinds.slice(0, -1)).not.toContain(MDX.unterminated);
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
  ['comment', /\/\*[^]*?\*\//y],
  ['unterminated', /(?:[['"]|\/\*)[^]*/y],
  ['space', /[ \t\n\r\f]+/y],
  ['comment', /(?:--|\/\/)[^\n]*/y],
  ['number', /(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y],
  ['word', /(?:[A-Za-z0-9_]|[^\0-\x7F\s])+/y],
  ['mark', /[^]/y],
];

function byRules(text: string): string[] {
  const found: string[] = [];
  const comments: string[] = [];
  let position = 0;
  while (position < text.length) {
    for (const [kind, pattern] of RULES) {
      pattern.lastIndex = position;
      const [token] = pattern.exec(text) ?? [];
      if (token === undefined) continue;
      if (kind === 'comment') comments.push(`${kind} ${token}`);
      else if (kind !== 'space') found.push(`${kind} ${token}`);
      position += token.length;
      break;
    }
  }
  return [...found, ...comments];
}
