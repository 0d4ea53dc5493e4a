import { describe, expect, test } from '@jest/globals';
import { gapsIn } from '../../../../src/line/gaps.ts';
import { createKnownBodies, type Layouts } from '../../../../src/line/memo.ts';

const NO_GAPS = { session: undefined, ids: [] };
const bytes = (body: string) => Buffer.from(body, 'latin1');

/** Whether each of the others is recognised by what is known of the first. */
function isRecognised(first: string, ...others: readonly string[]): boolean {
  const bodies = createKnownBodies<object>();
  const layouts: Layouts = [];
  const gaps = gapsIn(bytes(first));
  if (gaps === undefined) throw new Error('it may name two sessions');
  bodies.keep(layouts, gaps, bytes(first), {});
  if (bodies.find(layouts, bytes(first)) === undefined) throw new Error('it is not known itself');
  return others.every((one) => bodies.find(layouts, bytes(one)) !== undefined);
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

  test('by its own bytes, not by zeros where others of its client have a gap', () => {
    const bodies = createKnownBodies<{ readonly body: string }>();
    const layouts: Layouts = [];
    const keep = (body: string) =>
      bodies.keep(layouts, gapsIn(bytes(body)) ?? NO_GAPS, bytes(body), { body });
    keep(withId('0123456a'));
    keep('<q/>');
    expect(bodies.find(layouts, bytes(withId('\0'.repeat(8))))).toBeUndefined();
    expect(bodies.find(layouts, bytes(withId('fedcba98')))?.value.body).toBe(withId('0123456a'));
    expect(bodies.find(layouts, bytes('<q/>'))?.value.body).toBe('<q/>');
  });

  test('with a statement of any length by one layout, and by the one used last of very many', () => {
    const bodies = createKnownBodies<{ readonly value: number }>();
    const layouts: Layouts = [];
    const body = (statement: string, id: string) => bytes(`<s>${statement}</s>${withId(id)}`);
    const keep = (one: Buffer, value: number) => {
      const gaps = gapsIn(one);
      if (gaps !== undefined) bodies.keep(layouts, gaps, one, { value });
    };
    for (let i = 0; i < 100; i += 1) keep(body('a'.repeat(i), '0123456a'), i);
    expect(layouts).toHaveLength(1);
    expect(bodies.find(layouts, body('a'.repeat(50), 'ffffffff'))?.value.value).toBe(50);
    for (let i = 1; i <= 100; i += 1) keep(body('b', '1'.repeat(i)), i);
    expect(layouts).toHaveLength(16);
    expect(bodies.find(layouts, body('b', '2'.repeat(100)))?.value.value).toBe(100);
    // One that is used stays, though it has the fewest gaps.
    const plain = bytes('<q/>');
    keep(plain, -1);
    for (let i = 1; i <= 40; i += 1) {
      expect(bodies.find(layouts, plain)?.value.value).toBe(-1);
      keep(body('c', '1'.repeat(i)), i);
    }
    expect(bodies.find(layouts, body('c', '2'.repeat(40)))?.value.value).toBe(40);
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
