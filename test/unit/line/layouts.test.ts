import { describe, expect, test } from '@jest/globals';
import { gapsIn } from '../../../src/line/gaps.ts';
import type { Circumstances } from '../../../src/line/circumstances.ts';
import { addLayout, layoutOf, type Layouts, nameOf } from '../../../src/line/layouts.ts';

const bytes = (body: string) => Buffer.from(body, 'latin1');

function layoutFor(body: string) {
  const gaps = gapsIn(bytes(body));
  if (gaps === undefined) throw new Error('it may name two sessions');
  return layoutOf({} as Circumstances, gaps);
}

/** Whether each of the others has the name of the first, by its layout. */
function isRecognised(first: string, ...others: readonly string[]): boolean {
  const layout = layoutFor(first);
  const name = nameOf(bytes(first), layout);
  if (name === undefined) throw new Error('it has no name itself');
  return others.every((one) => nameOf(bytes(one), layout) === name);
}

/** A body whose only gap holds this. */
const withId = (value: string) => `<PropertyList><Timeout>${value}</Timeout></PropertyList>`;
const session = (value: string, quotes = '""') =>
  `<h SessionId=${quotes[0] ?? ''}${value}${quotes[1] ?? ''}/><q/>`;

describe('a body is recognised', () => {
  test('that differs in the values of gaps alone', () => {
    expect(isRecognised(withId('0000abcd'), withId('{f-f-0-}'))).toBe(true);
    expect(isRecognised(withId('1'), withId('2'))).toBe(true);
    expect(isRecognised(session('a1b2'), session('qZ-_'))).toBe(true);
    const both = (id: string, value: string) => session(id) + withId(value);
    expect(isRecognised(both('a', '0123456F'), both('b', 'F0123456'))).toBe(true);
  });

  test.each([
    [withId('0123456a'), withId('0123456ab')],
    [withId('0123456a'), withId('')],
    [withId('0123456a'), withId('12')],
    [withId('12'), withId('0123456a')],
    [withId('0123456a'), withId('\0'.repeat(8))],
    [withId('1'), withId('\0')],
    [withId('1'), withId('')],
    [session('ab'), session('abc')],
    [session('ab'), session('ab', "''")],
    [session('ab'), session('\0\0')],
    [session('a') + withId('01'), withId('01')],
    [withId('0123456a'), `${withId('0123456a')} `],
    ['<q/>', ''],
    [withId('0123456789'), '<'],
  ])('and not, where %j is known, %j', (one, other) => {
    expect(isRecognised(one, other)).toBe(false);
  });

  test('by its own bytes, not by zeros where others have a gap', () => {
    const layout = layoutFor(withId('0123456a'));
    expect(nameOf(bytes(withId('\0'.repeat(8))), layout)).toBeUndefined();
    expect(nameOf(bytes(withId('fedcba98')), layout)).toBe(
      nameOf(bytes(withId('0123456a')), layout),
    );
  });

  test('with a statement of any length by one layout', () => {
    const body = (statement: string, id: string) => bytes(`<s>${statement}</s>${withId(id)}`);
    const layouts = [0, 1, 50, 99].map((length) => gapsIn(body('a'.repeat(length), '0123456a')));
    for (const one of layouts) expect(one).toEqual(layouts[0]);
  });

  test('by a digest where it is long, which tells all bytes but those of its gaps', () => {
    const long = (letters: string, id: string) => `<s>${letters.repeat(30_000)}</s>${withId(id)}`;
    expect(isRecognised(long('abc', '01'), long('abc', '2f'))).toBe(true);
    expect(isRecognised(long('abc', '01'), long('abd', '01'))).toBe(false);
    expect(isRecognised(long('abc', '01'), long('abc', '0g'))).toBe(false);
    expect(nameOf(bytes(long('abc', '01')), layoutFor(long('abc', '01')))).toHaveLength(43);
  });
});

describe('a gap holds', () => {
  const isGap = (value: string) => isRecognised(withId('0'.repeat(value.length)), withId(value));
  const sessionIn = (body: string) => {
    const gap = gapsIn(bytes(body))?.session;
    return gap && body.slice(gap.at, gap.at + gap.length);
  };

  test('hexadecimal digits and what is around GUIDs, and no word of MDX or XMLA', () => {
    for (const value of ['0123456a', 'abcdefAB', '{0-9a-F}', '--------', '4711']) {
      expect(isGap(value)).toBe(true);
    }
    for (const value of [
      'Compatib',
      '0123456g',
      '012 4567',
      '012&4567',
      '0123;567',
      '0123\xe94567',
    ]) {
      expect(isGap(value)).toBe(false);
    }
  });

  test('of a session the letters of ids, and nothing that means something to XML', () => {
    for (const value of ['qZ-_', '{09}']) expect(sessionIn(session(value))).toBe(value);
    for (const value of ['a b2', 'a&b2', 'a;b2', 'a<b2', 'a\xe9b2', '']) {
      expect(sessionIn(session(value))).toBeUndefined();
      if (value !== '') expect(isRecognised(session('a1b2'), session(value))).toBe(false);
    }
  });

  test('a whole value, between its tags or its quotes', () => {
    expect(isGap('01234567 ')).toBe(false);
    expect(isRecognised('<Timeout>0123456a /Timeout>', '<Timeout>1123456a /Timeout>')).toBe(false);
    expect(isRecognised('<X>1</X>', '<X>2</X>')).toBe(false);
    expect(sessionIn(session('a1b2', "''"))).toBe('a1b2');
    for (const quotes of [`" `, ` "`, '  ']) {
      expect(sessionIn(session('a1b2', quotes))).toBeUndefined();
    }
  });

  test('the session of a body that names one, not two', () => {
    expect(gapsIn(bytes(session('a1b2') + session('c3d4')))).toBeUndefined();
    expect(gapsIn(bytes(session('a1b2') + session('a1b2')))).toBeUndefined();
  });
});

test('a body with more than 32 gaps has none', () => {
  const ids = (count: number) => bytes(`<PropertyList>${'<Timeout>1</Timeout>'.repeat(count)}`);
  expect(gapsIn(ids(32))?.ids).toHaveLength(32);
  expect(gapsIn(ids(33))).toBeUndefined();
});

test('what looks like a gap in a statement is a part of it', () => {
  const withStatement = (value: string) => `<Statement><Timeout>${value}</Timeout></Statement>`;
  const body = (value: string) => withStatement(value) + withId('1');
  expect(isRecognised(body('0123456a'), body('0123456b'))).toBe(false);
});

test('a head keeps sixteen layouts, those with most gaps first, and drops the one that was used first', () => {
  const layouts: Layouts = [];
  const add = (body: string, used: number) => addLayout(layouts, { ...layoutFor(body), used });
  const plain = layoutFor('<q/>');
  expect(addLayout(layouts, { ...plain, used: 1_000 })).toBe(true);
  for (let length = 1; length <= 40; length += 1) {
    expect(add(withId('1'.repeat(length)), length)).toBe(true);
  }
  expect(layouts).toHaveLength(16);
  expect(layouts.at(-1)?.prefix).toEqual(plain.prefix);
  const lengths = layouts.slice(0, 15).map(({ gaps }) => gaps.ids[0]?.length);
  expect(lengths).toEqual(Array.from({ length: 15 }, (_, at) => 26 + at));
  expect(add(withId('2'.repeat(40)), 1)).toBe(false);
  expect(layouts).toHaveLength(16);
});
