import { expect, test } from '@jest/globals';
import { MAX_HEADERS, unclearHead } from '../../../src/http/request-checks.ts';

const headOf = (headers: number) => ({
  rawHeaders: Array.from({ length: headers }, (_, i) =>
    i === 0 ? ['Host', 'x'] : ['X', 'a'],
  ).flat(),
});

test('a head is unclear when headers may have been left away behind those that were kept', () => {
  expect(unclearHead(headOf(MAX_HEADERS - 1))).toBeUndefined();
  expect(unclearHead(headOf(MAX_HEADERS))).toMatchObject({
    reason: 'bad-request',
    message: 'The request has 200 headers or more; fewer are allowed.',
    headers: { connection: 'close' },
  });
});

test('a head of HTTP/1.0 needs no Host', () => {
  expect(unclearHead({ rawHeaders: [] })).toBeUndefined();
});
