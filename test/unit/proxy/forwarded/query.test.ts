import { describe, expect, test } from '@jest/globals';
import { forwardedQuery } from '../../../../src/proxy/forwarded.ts';

test('a query loses what names a login, and nothing else', () => {
  expect(forwardedQuery('a=1&UserName=x&b&%70assword=y&userid&c=username&username2=1&=x')).toEqual([
    'a=1',
    'b',
    'c=username',
    'username2=1',
    '=x',
  ]);
  expect(forwardedQuery('')).toEqual([]);
});

/** Each is read as the name of a login by some engine. */
const SPELLINGS: readonly (readonly [attack: string, parameter: string])[] = [
  ['a user', 'username=bob'],
  ['a user in capitals', 'USERNAME=bob'],
  ['a user in percent-encoding', '%55%53%45rname=bob'],
  ['a user with the long s, which Java takes for an s', 'u%C5%BFername=bob'],
  ['a password', 'PassWord=x'],
  ['a password with two long s', 'pa%C5%BF%C5%BFword=x'],
  ['the id of a user', 'userId=7'],
  ['the id of a user with a dotless i, which Java takes for an i', 'user%C4%B1d=7'],
  ['a user without a value', 'username'],
];

describe('a query', () => {
  test.each(SPELLINGS)('never carries %s (%s)', (_attack, parameter) => {
    expect(forwardedQuery(`a=1&${parameter}&b=2`)).toEqual(['a=1', 'b=2']);
  });
});
