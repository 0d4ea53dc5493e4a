import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { foldCase } from '../../../src/common/fold-case.ts';
import { membershipBody, roleBody } from '../../../src/roles/role.ts';
import { sizes } from '../../support/sizes.ts';
import { codePoint } from '../../support/code-point.ts';

const ROLE = { name: 'Sales', description: '', contains: [] };
const alice = { type: 'user', name: 'alice' };

/** `path message` of each problem. */
function problems(schema: typeof roleBody | typeof membershipBody, body: unknown): string[] {
  const result = schema.safeParse(body);
  return (result.error?.issues ?? []).map(({ path, message }) => `${path.join('.')} ${message}`);
}

describe('a role', () => {
  test('is taken as it is, without what is not named', () => {
    const contains = [{ ...alice, id: 7 }];
    const body = JSON.parse(JSON.stringify({ ...ROLE, contains, extra: 1 }));
    expect(roleBody.parse(body)).toEqual({ ...ROLE, contains: [alice] });
  });

  test.each([
    ['no object', null, [' must be a JSON object']],
    ['an array', [ROLE], [' must be a JSON object']],
    ['a string', 'Sales', [' must be a JSON object']],
    ['empty', {}, ['name is missing', 'description is missing', 'contains is missing']],
    [
      'full of nulls',
      { name: null, description: null, contains: null },
      ['name must be a string', 'description must be a string', 'contains must be an array'],
    ],
    [
      'full of wrong members',
      { ...ROLE, contains: [alice, 1, {}, { type: 'group', name: '' }] },
      [
        'contains.1 must be an object with type and name',
        'contains.2.type is missing',
        'contains.2.name is missing',
        'contains.3.type must be "user"',
        'contains.3.name must not be empty',
      ],
    ],
    [
      'given a role as a member',
      { ...ROLE, contains: [{ type: 'User', name: 'alice' }] },
      ['contains.0.type must be "user"'],
    ],
  ])('that is %s is refused with every problem', (_what, body, expected) => {
    expect(problems(roleBody, body)).toEqual(expected);
  });
});

describe('a name', () => {
  const named = (name: string) => problems(roleBody, { ...ROLE, name });
  const user = (name: string) =>
    problems(roleBody, { ...ROLE, contains: [{ type: 'user', name }] });

  test.each([
    ['a'],
    ['a b  c'],
    ['Verkäufe 東京 مبيعات'],
    ['👩‍👩‍👧'],
    ['%_\\\'";--'],
    ['e\u0301'],
    ['a\u200bb'],
    ['\u0301'],
    ['\u200f\u0634'],
    ['\u{1f469}\u200d'],
    ['\ue000'],
    ['x'.repeat(128)],
    ['👍'.repeat(128)],
  ])('may be %j', (name) => {
    expect([named(name), user(name)]).toEqual([[], []]);
  });

  test.each([
    ['', 'must not be empty'],
    [' a', 'must not begin or end with white space'],
    ['a\u00a0', 'must not begin or end with white space'],
    ['\u3000', 'must not begin or end with white space'],
    ['\ufeffa', 'must not begin or end with white space'],
    ...['a\0b', 'a\tb', 'a\nb', 'a\u007fb', 'a\u0085b', 'a\u2028b', 'a\u2029b', 'a\ud800b'].map(
      (name) => [
        name,
        'must not hold control characters, line breaks or halves of surrogate pairs',
      ],
    ),
    ...[
      '\u200b',
      '\u200d\ufe0f',
      '\u2060',
      '\u00ad',
      '\u3164',
      '\u2800',
      '\u{e0020}',
      '\u200b \u200b',
    ].map((name) => [name, 'must hold a visible character']),
    ...[
      '\u202a',
      '\u202b',
      '\u202c',
      '\u202d',
      '\u202e',
      '\u2066',
      '\u2067',
      '\u2068',
      '\u2069',
    ].map((control) => [
      `a${control}b`,
      'must not hold controls of the direction of text (U+202A to U+202E, U+2066 to U+2069)',
    ]),
  ])('must not be %j', (name, problem) => {
    expect(named(name)).toEqual([`name ${problem}`]);
    expect(user(name)).toEqual([`contains.0.name ${problem}`]);
  });

  test('of a role ends at 128 characters, of a user at 255, whatever they take in memory', () => {
    for (const character of ['x', '👍', 'ß']) {
      expect(named(character.repeat(129))).toEqual(['name must have at most 128 characters']);
      expect(user(character.repeat(255))).toEqual([]);
      expect(user(character.repeat(256))).toEqual([
        'contains.0.name must have at most 255 characters',
      ]);
    }
  });

  test('has several problems, and all are told', () => {
    expect(named(`${'x'.repeat(129)}\n`)).toHaveLength(3);
  });
});

describe('a description', () => {
  const described = (description: unknown) => problems(roleBody, { ...ROLE, description });

  test.each([[''], [' \n\t\0 '], ['👍'.repeat(2_000)], ['<script>'], ['\u2028']])(
    'may be any text (%j)',
    (description) => expect(described(description)).toEqual([]),
  );

  test.each([
    ['x'.repeat(2_001), 'must have at most 2000 characters'],
    ['👍'.repeat(2_001), 'must have at most 2000 characters'],
    ['a\udc00', 'must not hold halves of surrogate pairs'],
    [7, 'must be a string'],
    [false, 'must be a string'],
  ])('must be text that is not too long', (description, problem) => {
    expect(described(description)).toEqual([`description ${problem}`]);
  });
});

describe('members', () => {
  test('that are wrong by the thousands are not all looked at', () => {
    const contains = Array(10_000).fill(0);
    const told = problems(roleBody, { ...ROLE, contains });
    expect(told).toHaveLength(100);
    expect(told[99]).toBe('contains.99 must be an object with type and name');
  });

  const membersOf = (names: readonly string[]) => {
    const contains = names.map((name) => ({ type: 'user', name }));
    return roleBody.parse({ ...ROLE, contains }).contains.map(({ name }) => name);
  };

  test('that differ in case or in how accents are composed are one, as first spelt', () => {
    expect(membersOf(['Bob', 'é', 'bob', 'alice', 'BOB', 'E\u0301', 'ß', 'SS'])).toEqual([
      'Bob',
      'é',
      'alice',
      'ß',
    ]);
  });

  test('stay in their order, each once', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'A', 'b', 'ß', 'ss', 'SS', 'ẞ')), (names) => {
        const kept = membersOf(names);
        const first = (folded: string) => names.find((name) => foldCase(name) === folded);
        expect(kept).toEqual([...new Set(names.map(foldCase))].map(first));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});

describe('the body of add and remove user', () => {
  test('names the role and one user; a description may be there', () => {
    const read = { roleName: 'Sales', member: alice };
    expect(membershipBody.parse({ name: 'Sales', contains: [alice] })).toEqual(read);
    expect(membershipBody.parse({ ...ROLE, contains: [alice] })).toEqual(read);
  });

  test.each([
    [{}, ['name is missing', 'contains is missing']],
    [{ ...ROLE, description: 1, contains: [alice] }, ['description must be a string']],
    [ROLE, ['contains must hold exactly 1 user']],
    [
      { ...ROLE, contains: [alice, 1] },
      ['contains must hold exactly 1 user', 'contains.1 must be an object with type and name'],
    ],
    [{ ...ROLE, contains: [alice, alice] }, ['contains must hold exactly 1 user']],
    [{ ...ROLE, contains: alice }, ['contains must be an array']],
    [{ ...ROLE, contains: [{ type: 'role', name: 'a' }] }, ['contains.0.type must be "user"']],
    [null, [' must be a JSON object']],
  ])('is refused with every problem (%j)', (body, expected) => {
    expect(problems(membershipBody, body)).toEqual(expected);
  });
});

test('whatever JSON holds is taken or refused, and never anything else', () => {
  const field = fc.oneof(fc.jsonValue(), fc.string({ unit: codePoint }));
  const member = fc.record({ type: fc.constantFrom('user', 'x', 1), name: field });
  const body = fc.oneof(
    fc.jsonValue(),
    fc.record(
      { name: field, description: field, contains: fc.oneof(field, fc.array(member)) },
      { requiredKeys: [] },
    ),
  );
  fc.assert(
    fc.property(body, (value) => {
      const { success, data, error } = roleBody.safeParse(value);
      if (!success) return expect(error.issues.length).toBeGreaterThan(0);
      expect([...data.name].length).toBeLessThanOrEqual(128);
      expect([...data.description].length).toBeLessThanOrEqual(2_000);
      expect(roleBody.parse(data)).toEqual(data);
    }),
    { numRuns: sizes.propertyRuns },
  );
});
