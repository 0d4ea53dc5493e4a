import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { entryScopes, projectScope, purgedScopes } from '../../../../src/cache/projects.ts';
import { sizes } from '../../../support/sizes.ts';

const SAME_PROJECT: readonly (readonly [what: string, ...spellings: string[]])[] = [
  ['case', 'FoodMart', 'foodmart', 'FOODMART'],
  ['outer space', 'FoodMart', ' FoodMart', 'FoodMart\t', '\u00A0FoodMart\uFEFF'],
  ['composition', 'Caf\u00E9', 'Cafe\u0301', 'CAF\u00C9', 'CAFE\u0301'],
  ['sharp s', 'stra\u00DFe', 'STRA\u1E9EE', 'STRASSE', 'strasse', 'Stra\u1E9Ee'],
  ['final sigma', '\u03A3\u0391\u03A3', '\u03C3\u03B1\u03C2', '\u03C3\u03B1\u03C3'],
  ['ligature', 'o\uFB03ce', 'OFFICE'],
  ['Kelvin sign', '\u212A', 'k', 'K'],
  ['width', 'FoodMart', 'ＦｏｏｄＭａｒｔ', 'foodｍart'],
  ['kana', 'カタログ', 'かたろぐ', 'ｶﾀﾛｸﾞ'],
  ['what cannot be seen', 'FoodMart', 'Food\u00adMart'],
  ['capital i with dot', '\u0130', 'i\u0307', 'I\u0307'],
];

describe('the scope of a project', () => {
  test.each(SAME_PROJECT)('is one for spellings that differ by %s', (_what, ...spellings) => {
    expect(new Set(spellings.map(projectScope)).size).toBe(1);
  });

  test('is one for a name and its upper case, lower case and decomposed form, for any name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (name) => {
        const scope = projectScope(name);
        expect(projectScope(name.toUpperCase())).toBe(scope);
        expect(projectScope(name.toLowerCase())).toBe(scope);
        expect(projectScope(name.normalize('NFD'))).toBe(scope);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is one for a letter and its other cases, for every letter there is', () => {
    const split: string[] = [];
    for (let code = 1; code <= 0x1ffff; code += 1) {
      if (code >= 0xd800 && code <= 0xdfff) continue;
      const name = `a${String.fromCodePoint(code)}b`;
      const scope = projectScope(name);
      const others = [name.toUpperCase(), name.toLowerCase(), name.toLowerCase().toUpperCase()];
      if (others.some((other) => projectScope(other) !== scope)) split.push(code.toString(16));
    }
    expect(split).toEqual([]);
  });

  test('is another one for another name', () => {
    const names = ['a', 'b', 'ab', 'a b', 'a/b', 'a:b', '', 'everything', 'unassigned', '\u0131x'];
    expect(new Set(names.map(projectScope)).size).toBe(names.length);
  });

  test('is never the scope of everything nor of the unassigned', () => {
    expect(projectScope('everything')).toBe('project:everything');
    expect(projectScope('unassigned')).toBe('project:unassigned');
  });
});

const meets = (entry: readonly string[], purged: readonly string[]) =>
  entry.some((scope) => purged.includes(scope));

describe('the scopes of an entry', () => {
  test('are everything and each project it names, once and in one order', () => {
    const scopes = ['everything', 'project:a', 'project:b'];
    expect(entryScopes(['B', 'a'], false)).toEqual(scopes);
    expect(entryScopes(['a', ' A ', 'b'], false)).toEqual(scopes);
  });

  test('hold the unassigned when it names no project or may span several', () => {
    expect(entryScopes([], false)).toEqual(['everything', 'unassigned']);
    expect(entryScopes(['a'], true)).toEqual(['everything', 'project:a', 'unassigned']);
  });

  test('meet the scopes of every purge that concerns it, and of no other', () => {
    const project = fc.constantFrom('a', 'A', 'b', 'c', '\u00DF', 'SS');
    fc.assert(
      fc.property(fc.array(project), fc.boolean(), project, (named, spans, purged) => {
        const entry = entryScopes(named, spans);
        const concerned =
          spans || named.length === 0 || named.map(projectScope).includes(projectScope(purged));
        expect(meets(entry, purgedScopes({ project: purged }))).toBe(concerned);
        expect(meets(entry, purgedScopes('everything'))).toBe(true);
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});

describe('a name that is too long', () => {
  const long = 'x'.repeat(256);

  test('has no scope of its own, whatever names it', () => {
    expect(projectScope(long)).toBe('unassigned');
    expect(projectScope('\uFDFA'.repeat(8))).toBe('unassigned');
    expect(projectScope('x'.repeat(255))).toBe(`project:${'x'.repeat(255)}`);
  });

  test('is one scope in each entry that names it; its purge is one of everything', () => {
    expect(entryScopes([long, 'b', `${long}y`], true)).toEqual([
      'everything',
      'project:b',
      'unassigned',
    ]);
    // It may be another spelling of a name under which entries are kept.
    expect(purgedScopes({ project: long })).toEqual(['everything', 'unassigned']);
  });
});
