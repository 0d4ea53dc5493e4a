import { describe, expect, test } from '@jest/globals';
import {
  CHANGING_NAMES,
  isChanging,
  KNOWN_FUNCTIONS,
} from '../../../../src/xmla/mdx/known-functions.ts';
import { judging } from '../../../../src/xmla/mdx/statement-policy.ts';

const OUT = CHANGING_NAMES.flatMap(([, names]) => names.split(' '));

const judgementOf = (formula: string) => {
  const { bypass, unknown } = judging(
    `WITH MEMBER [Measures].[x] AS ${formula} SELECT {[Measures].[x]} ON 0 FROM [Sales]`,
  )
    .finish()
    .result();
  return bypass ?? unknown.join(' ');
};

/** As a statement calls them; functions of texts with one literal, which alone can be searched. */
const CALLS = [...KNOWN_FUNCTIONS].flatMap(([name, standing]) => {
  const call = `${name}("[a].[b]", 1)`;
  if (standing === 'keyword') return [call, `'${call}'`];
  const inBrackets = `[${name.toUpperCase()}]("[a]")`;
  return [call, `'${call}'`, inBrackets, standing === 'method' ? `[a].${call}` : inBrackets];
});

describe('the table of known functions', () => {
  test('has hundreds of them, and none that was taken out', () => {
    expect(KNOWN_FUNCTIONS.size).toBeGreaterThan(280);
    expect([...KNOWN_FUNCTIONS.keys()].filter(isChanging)).toEqual([]);
    expect([...KNOWN_FUNCTIONS.keys()].filter((name) => !/^[a-z0-9_]+$/.test(name))).toEqual([]);
  });

  test('lets each of them be called: plainly, in a formula in quotes, and in brackets', () => {
    expect(CALLS.filter((call) => judgementOf(call) !== '')).toEqual([]);
  });

  test('lets none but methods stand behind a name and a dot', () => {
    const others = [...KNOWN_FUNCTIONS].flatMap(([name, one]) => (one === 'method' ? [] : [name]));
    expect(others.filter((name) => judgementOf(`Own.${name}("[a]")`) === '')).toEqual([]);
  });

  test('lets none of 200 invented ones pass for known', () => {
    const letters = 'abcdefghijklmnopqrstuvwxyz';
    const invented = Array.from({ length: 200 }, (_, i) => {
      const known = [...KNOWN_FUNCTIONS.keys()][i] ?? '';
      const letter = letters.charAt(i % letters.length);
      return i % 2 === 0 ? `${known}${letter}q` : `x${letter}${known}`;
    });
    const calls = invented.flatMap((name) => [`${name}()`, `[${name}](1)`, `'1 + ${name} (2)'`]);
    const expected = invented.flatMap((name) => [name, name, name]);
    expect(calls.map(judgementOf)).toEqual(expected);
  });
});

test('what was taken out is found wherever it is called, and nobody can declare it stable', () => {
  expect(OUT.filter((name) => judgementOf(`${name}("a")`) !== 'volatile')).toEqual([]);
  expect(
    OUT.filter((name) => judgementOf(`Own.${name.toUpperCase()}("a")`) !== 'volatile'),
  ).toEqual([]);
  const names = [...OUT, 'NOW', 'VBA.Now', 'uſerName', 'PredictTimeSeries'];
  expect(names.filter((name) => !isChanging(name))).toEqual([]);
  expect(['Today', 'Nowhere', 'Assembly.Fn', 'Now.Fn'].filter(isChanging)).toEqual([]);
});
