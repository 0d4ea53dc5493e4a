import { expect, test } from '@jest/globals';
import { unclearHead } from '../../../../src/http/request-head.ts';

test('a head of HTTP/1.0 needs no Host', () => {
  expect(unclearHead({ httpVersion: '1.0', headers: {}, rawHeaders: [] })).toBeUndefined();
});

test('one of HTTP/1.1 needs one, and its connection ends', () => {
  expect(unclearHead({ httpVersion: '1.1', headers: {}, rawHeaders: ['x', 'host'] })).toMatchObject(
    {
      reason: 'bad-request',
      headers: { connection: 'close' },
    },
  );
});
