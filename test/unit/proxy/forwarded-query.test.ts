import { expect, test } from '@jest/globals';
import { forwardedQuery } from '../../../src/proxy/forwarded-query.ts';

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
