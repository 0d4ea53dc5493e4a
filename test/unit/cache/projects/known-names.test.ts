import { beforeEach, describe, expect, test } from '@jest/globals';
import { createKnownNames, type KnownNames } from '../../../../src/cache/projects.ts';
import { load } from '../../config/fake-files.ts';
import { handClock, type HandClock } from '../fakes.ts';

const HOUR = 3_600_000;

let clock: HandClock;
let names: KnownNames;

function configure(limit: number, projects: string): void {
  names.configure(load({ yaml: `limits: { names_per_user: ${limit} }\nprojects: ${projects}` }));
}
/** So many names that nobody used before. */
let made = 0;
const invented = (count = 1) => Array.from({ length: count }, () => `invented ${(made += 1)}`);

beforeEach(() => {
  clock = handClock();
  names = createKnownNames({ clock });
  configure(3, '{ Ours: {} }');
});

describe('new names', () => {
  test('are admitted up to the limit, of each user by himself', () => {
    expect([names.admit('a', invented(2)), names.admit('a', invented())]).toEqual([true, true]);
    expect([names.admit('a', invented()), names.admit('b', invented(3))]).toEqual([false, true]);
  });

  test('of one request are admitted together or not at all, and then cost nothing', () => {
    expect(names.admit('a', invented(4))).toBe(false);
    expect(names.admit('a', invented(3))).toBe(true);
  });

  test('are new once, whoever names them again, and however they are spelt', () => {
    const name = 'Caf\u00E9';
    names.admit('a', [name, name, ` ${name.toUpperCase()}`]);
    expect(names.admit('b', ['cafe\u0301', ...invented(3)])).toBe(true);
    expect(names.admit('a', invented(2))).toBe(true);
    expect(names.admit('a', [name])).toBe(true);
  });

  test('are counted for an hour from the first one on', () => {
    names.admit('a', invented());
    clock.advance(HOUR / 2);
    names.admit('a', invented(2));
    clock.advance(HOUR / 2 - 1);
    expect(names.admit('a', invented())).toBe(false);
    clock.advance(1);
    expect([names.admit('a', invented(3)), names.admit('a', invented())]).toEqual([true, false]);
  });

  test('are not given back when the engine has answered them', () => {
    const all = invented(3);
    names.admit('a', all);
    names.answered(all);
    expect([names.admit('a', all), names.admit('a', invented())]).toEqual([true, false]);
  });

  test('cost nothing where a request is only explained', () => {
    for (let times = 0; times < 5; times += 1) expect(names.wouldAdmit('a', invented())).toBe(true);
    expect(names.wouldAdmit('a', invented(4))).toBe(false);
    expect(names.admit('a', invented(3))).toBe(true);
  });

  test('are counted by the limit of the latest configuration', () => {
    names.admit('a', invented(3));
    configure(4, '{}');
    expect([names.admit('a', invented()), names.admit('a', invented())]).toEqual([true, false]);
  });
});

describe('names of the configuration, and those that the engine has answered', () => {
  test('are free for every user', () => {
    names.answered(['Sales']);
    names.admit('a', invented(3));
    expect(names.admit('a', ['ours', ' SALES '])).toBe(true);
    configure(3, '{ Stock: {} }');
    expect([names.admit('a', ['Stock']), names.admit('a', ['Ours'])]).toEqual([true, false]);
  });

  test('are found in one spelling', () => {
    names.answered(['sales', 'Sales', 'OURS']);
    expect(names.find('SALES')).toEqual({ spelling: 'sales', configured: false });
    expect(names.find('ours')).toEqual({ spelling: 'Ours', configured: true });
    names.admit('a', ['Stock']);
    expect(names.find('Stock')).toBeUndefined();
  });
});

describe('names that one user invents', () => {
  /** Of them a quarter of the table has no room for so many. */
  const MANY = 4_000;

  test("take the place of that user's own, and leave those of others known", () => {
    configure(1_000_000, '{}');
    names.admit('bob', ['Sales', 'Stock']);
    names.answered(['Sales']);
    const [first = '', ...rest] = invented(MANY);
    names.admit('alice', [first]);
    names.admit('alice', rest);
    names.answered(rest);
    expect(names.find('sales')).toEqual({ spelling: 'Sales', configured: false });
    configure(1, '{}');
    expect(names.admit('carol', ['Sales', 'Stock', rest.at(-1) ?? ''])).toBe(true);
    // Which was forgotten is charged again.
    expect(names.admit('carol', [first, ...invented()])).toBe(false);
  });

  test('are bounded by bytes, however long they are', () => {
    configure(1_000_000, '{}');
    const short = invented(MANY / 2);
    const long = invented(MANY / 2).map((name) => `${name} ${'x'.repeat(200)}`);
    for (const name of short) names.admit('alice', [name]);
    for (const name of long) names.admit('bob', [name]);
    configure(1, '{}');
    const isKnown = (name = '') => names.wouldAdmit('carol', [name, ...invented()]);
    expect([short[0], short.at(-1), long[0], long.at(-1)].map(isKnown)).toEqual([
      ...[true, true],
      ...[false, true],
    ]);
  });
});

test('of users a bounded number is remembered', () => {
  configure(1, '{}');
  names.admit('a', invented());
  for (let user = 0; user < 20_000; user += 1) names.admit(`user ${user}`, invented());
  expect(names.wouldAdmit('a', invented())).toBe(true);
});
