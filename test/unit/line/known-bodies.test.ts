import { describe, expect, test } from '@jest/globals';
import { likelyLayout, templateOf, type Layout } from '../../../src/line/template.ts';
import {
  createKnownBodies,
  type FoundAnswer,
  type KnownBodies,
  type KnownHead,
} from '../../../src/line/memo.ts';
import type { UnderstoodRequest } from '../../../src/line/understand.ts';

const head = (prefix: string): KnownHead => ({
  prefix,
  login: { principal: { name: 'alice' }, counts: () => true },
  sessionIdle: undefined,
  path: { kind: 'xmla', project: undefined, search: '' },
  wishes: { takesGzip: false, asksForCaps: false, program: '' },
  layouts: [],
});
const answer = (key: string): FoundAnswer => ({
  key: { key, captured: { scopes: [], tokens: [], keySecret: '' }, ttl: 1, digests: '' },
  roles: undefined,
  session: undefined,
});
/** What was understood does not matter here. */
const asked = {} as UnderstoodRequest;

function learn(bodies: KnownBodies, under: KnownHead, body: string, key: string): void {
  const layout = likelyLayout(body) ?? [];
  const template = templateOf(Buffer.from(body), layout);
  if (template === undefined) throw new Error('no template');
  bodies.note(under, layout, template, { asked, answer: answer(key) });
}

/** The key under which the answer of a body is looked for. */
function keyOf(bodies: KnownBodies, under: KnownHead, body: string): string | undefined {
  return bodies.find(under, Buffer.from(body))?.answer?.key.key;
}

/** A body whose only gap has so many letters. */
const withId = (length: number, letter = '0') =>
  `<q><Timeout>${letter.repeat(length)}</Timeout></q>`;

describe('what was learnt under one head', () => {
  test('is not known under another that has bodies of the same shape', () => {
    const bodies = createKnownBodies();
    const [alices, bobs] = [head('1h'), head('2h')];
    learn(bodies, alices, '<q>one</q>', 'a');
    learn(bodies, bobs, '<q>two</q>', 'b');
    expect(keyOf(bodies, alices, '<q>two</q>')).toBeUndefined();
    expect(keyOf(bodies, bobs, '<q>one</q>')).toBeUndefined();
    expect(keyOf(bodies, bobs, '<q>two</q>')).toBe('b');
    expect(keyOf(bodies, alices, '<q>one</q>')).toBe('a');
  });

  test('makes its sessions known under that head only', () => {
    const bodies = createKnownBodies();
    const handle = { find: () => undefined };
    bodies.noteSession(head('1h'), 'id', handle);
    expect(bodies.session(head('1h'), 'id')).toBe(handle);
    expect(bodies.session(head('2h'), 'id')).toBeUndefined();
    expect(bodies.session(head('1h'), 'other')).toBeUndefined();
  });
});

describe('the layouts of one head', () => {
  test('each have their own templates', () => {
    const bodies = createKnownBodies();
    const one = head('1h');
    // The first has no gap, and the very text that is left of the second when its gap is taken out.
    learn(bodies, one, '<q><Timeout></Timeout></q>', 'none');
    learn(bodies, one, withId(8), 'eight');
    learn(bodies, one, withId(9), 'nine');
    expect(keyOf(bodies, one, '<q><Timeout></Timeout></q>')).toBe('none');
    expect(keyOf(bodies, one, withId(8, 'f'))).toBe('eight');
    expect(keyOf(bodies, one, withId(9, 'f'))).toBe('nine');
    expect(keyOf(bodies, one, withId(10))).toBeUndefined();
  });

  test('are eight, of which the oldest gives way; what was learnt in it is never found in another', () => {
    const bodies = createKnownBodies();
    const one = head('1h');
    const lengths = [8, 9, 10, 11, 12, 13, 14, 15, 16];
    for (const length of lengths) learn(bodies, one, withId(length), `${length}`);
    const known = () => lengths.map((length) => keyOf(bodies, one, withId(length, 'f')));
    expect(known()).toEqual([undefined, ...lengths.slice(1).map(String)]);
    learn(bodies, one, withId(8), 'anew');
    expect(known()).toEqual(['anew', undefined, ...lengths.slice(2).map(String)]);
    expect(one.layouts).toHaveLength(8);
  });
});

test('another query takes the place of one that is known, and of no other', () => {
  const bodies = createKnownBodies();
  const one = head('1h');
  learn(bodies, one, withId(8), 'before');
  expect(bodies.replace(one, Buffer.from(withId(8, 'f')), answer('after'))).toBe(true);
  expect(bodies.replace(one, Buffer.from(withId(9)), answer('strange'))).toBe(false);
  expect(bodies.replace(head('2h'), Buffer.from(withId(8)), answer('strange'))).toBe(false);
  expect(keyOf(bodies, one, withId(8))).toBe('after');
  expect(keyOf(bodies, one, withId(9))).toBeUndefined();
});

describe('a gap holds', () => {
  const LAYOUT = likelyLayout(withId(8)) ?? [];
  const session = (value: string, quotes = '""') =>
    `<h SessionId=${quotes[0] ?? ''}${value}${quotes[1] ?? ''}/><q/>`;
  const SESSION = likelyLayout(session('a1b2')) ?? [];
  const isTaken = (body: string, layout: Layout) =>
    templateOf(Buffer.from(body, 'latin1'), layout) !== undefined;

  test('hexadecimal digits and what is around GUIDs, and no word of MDX or XMLA', () => {
    for (const value of ['01234567', 'abcdefAB', '{0-9a-F}', '--------']) {
      expect(isTaken(withId(1, value), LAYOUT)).toBe(true);
    }
    for (const value of [
      'Compatib',
      '0123456g',
      '012 4567',
      '012&4567',
      '0123;567',
      '0123\xe94567',
    ]) {
      expect(isTaken(withId(1, value), LAYOUT)).toBe(false);
    }
  });

  test('of a session the letters of ids, and nothing that means something to XML', () => {
    for (const value of ['qZ-_', '{09}']) expect(isTaken(session(value), SESSION)).toBe(true);
    for (const value of ['a b2', 'a&b2', 'a;b2', 'a<b2', 'a\xe9b2']) {
      expect(isTaken(session(value), SESSION)).toBe(false);
    }
  });

  test('a number with more or fewer digits than before, and nothing but digits', () => {
    const number = likelyLayout('<p>one</p><q><Timeout>4711</Timeout></q>') ?? [];
    const templates = ['0', '77', '32768', '9876543210'].map(
      (value) => templateOf(Buffer.from(withId(1, value)), number)?.text,
    );
    expect(new Set(templates)).toEqual(new Set(['<q><Timeout></Timeout></q>']));
    for (const value of ['', 'a', '4a', '-1', '1 ', '01234567890']) {
      expect(isTaken(withId(1, value), number)).toBe(false);
    }
  });

  test('its own number, also where others around it have other lengths', () => {
    const two = (a: string, b: string) =>
      `<q><Timeout>${a}</Timeout><CommitTimeout>${b}</CommitTimeout></q>`;
    const layout = likelyLayout(two('1', '2')) ?? [];
    expect(layout).toHaveLength(2);
    for (const body of [two('12', '345'), two('1234567', '1')]) {
      expect(templateOf(Buffer.from(body), layout)?.text).toBe(two('', ''));
    }
  });

  test('no session behind a property: where it stands would not be certain', () => {
    expect(likelyLayout(`<Timeout>4711</Timeout>${session('a1b2')}`)).toBeUndefined();
    expect(likelyLayout(`${session('a1b2')}<Timeout>4711</Timeout>`)).toHaveLength(2);
  });

  test('a whole value, between its tags or its quotes', () => {
    expect(isTaken(withId(9), LAYOUT)).toBe(false);
    expect(isTaken('<q><Timeout>01234567 /Timeout></q>', LAYOUT)).toBe(false);
    expect(isTaken(session('a1b2', "''"), SESSION)).toBe(true);
    for (const quotes of [`"'`, `'"`, '""'.replace('"', ' '), '  ']) {
      expect(isTaken(session('a1b2', quotes), SESSION)).toBe(false);
    }
    expect(isTaken(session('a1b23'), SESSION)).toBe(false);
  });

  test('what stands in the body, and in no other gap', () => {
    expect(isTaken('01234567', LAYOUT)).toBe(false);
    expect(isTaken('', LAYOUT)).toBe(false);
    const both = likelyLayout('<h SessionId="a1b2c3d4"/><Timeout>01234567</Timeout>') ?? [];
    expect(both).toHaveLength(2);
    // The second gap would begin inside of the first, or in front of it.
    for (const short of [`<h SessionId="a1b2c3d4"`, `>01234567<`.padEnd(14 + 8 + 1, '"')]) {
      expect(isTaken(short, both)).toBe(false);
    }
  });

  test('the session of a body that names one, not two', () => {
    expect(likelyLayout(`${session('a1b2')}${session('c3d4')}`)).toBeUndefined();
    expect(templateOf(Buffer.from(session('c3d4')), SESSION)?.session).toBe('c3d4');
  });
});
