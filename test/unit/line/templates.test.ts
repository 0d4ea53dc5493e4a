import { describe, expect, test } from '@jest/globals';
import { templateOf } from '../../../src/line/memo.ts';

const template = (body: string) => templateOf(Buffer.from(body, 'latin1'));
const isOneTemplate = (...bodies: readonly string[]) =>
  new Set(bodies.map((body) => template(body)?.text)).size === 1;

/** A body whose only gap holds this. */
const withId = (value: string) => `<PropertyList><Timeout>${value}</Timeout></PropertyList>`;
const session = (value: string, quotes = '""') =>
  `<h SessionId=${quotes[0] ?? ''}${value}${quotes[1] ?? ''}/><q/>`;

describe('bodies are alike', () => {
  test('that differ in the values of gaps alone', () => {
    expect(isOneTemplate(withId('0000abcd'), withId('{f-f-0-}'))).toBe(true);
    expect(isOneTemplate(session('a1b2'), session('qZ-_'))).toBe(true);
    const both = (id: string, value: string) => session(id) + withId(value);
    expect(isOneTemplate(both('a', '0123456F'), both('b', 'F0123456'))).toBe(true);
    expect(isOneTemplate(both('a', '01'), withId('01'))).toBe(false);
  });

  test.each([
    [withId('0123456a'), withId('0123456ab')],
    [withId('0123456a'), withId('')],
    [withId('0123456a'), withId('12')],
    [withId('0123456a'), '<PropertyList><Timeout></Timeout></PropertyList>'],
    [withId('0123456a'), '<PropertyList><Timeout>\0\b</Timeout></PropertyList>'],
    [withId('1'), '<PropertyList><Timeout>\0\0</Timeout></PropertyList>'],
    [session('ab'), session('abc')],
    [session('ab'), session('ab', "''")],
    [session('ab'), session('\0\x02')],
  ])('and not %j and %j', (one, other) => {
    expect(isOneTemplate(one, other)).toBe(false);
  });

  test('not where they hold what stands for a gap', () => {
    expect(template('<q>\0</q>')).toBeUndefined();
  });
});

describe('a gap holds', () => {
  const isGap = (value: string) =>
    isOneTemplate(withId(value), withId('0'.padStart(value.length, 'a')));
  const isSession = (body: string) => template(body)?.session !== undefined;

  test('hexadecimal digits and what is around GUIDs, and no word of MDX or XMLA', () => {
    for (const value of ['0123456a', 'abcdefAB', '{0-9a-F}', '--------']) {
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
    for (const value of ['qZ-_', '{09}']) expect(template(session(value))?.session).toBe(value);
    for (const value of ['a b2', 'a&b2', 'a;b2', 'a<b2', 'a\xe9b2', '']) {
      expect(isSession(session(value))).toBe(false);
    }
  });

  test('a number with more or fewer digits than before, and nothing but digits', () => {
    expect(isOneTemplate(...['0', '77', '32768', '9876543210'].map(withId))).toBe(true);
    for (const value of ['', 'a', '4a', '-1', '1 ', '01234567890']) {
      expect(isOneTemplate(withId(value), withId('1'))).toBe(false);
    }
  });

  test('its own number, also where others around it have other lengths', () => {
    const two = (a: string, b: string) =>
      `<PropertyList><Timeout>${a}</Timeout><CommitTimeout>${b}</CommitTimeout></PropertyList>`;
    expect(isOneTemplate(two('1', '2'), two('12', '345'), two('1234567', '1'))).toBe(true);
  });

  test('a whole value, between its tags or its quotes', () => {
    expect(isGap('01234567 ')).toBe(false);
    expect(isOneTemplate('<Timeout>0123456a /Timeout>', '<Timeout>1123456a /Timeout>')).toBe(false);
    expect(isOneTemplate('<X>1</X>', '<X>2</X>')).toBe(false);
    expect(isSession(session('a1b2', "''"))).toBe(true);
    for (const quotes of [`" `, ` "`, '  ']) expect(isSession(session('a1b2', quotes))).toBe(false);
  });

  test('the session of a body that names one, not two', () => {
    expect(template(session('a1b2') + session('c3d4'))).toBeUndefined();
    expect(template(session('a1b2') + session('a1b2'))).toBeUndefined();
  });
});

test('what looks like a gap in a statement is a part of it', () => {
  const withStatement = (value: string) => `<Statement><Timeout>${value}</Timeout></Statement>`;
  const body = (value: string) => withStatement(value) + withId('1');
  expect(isOneTemplate(body('0123456a'), body('0123456b'))).toBe(false);
});
