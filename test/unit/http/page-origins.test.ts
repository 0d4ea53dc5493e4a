import { describe, expect, test } from '@jest/globals';
import { dropOriginHeaders, isPreflight, varyByOrigin } from '../../../src/http/page-origins.ts';

describe('a browser asks first', () => {
  const headers = { origin: 'https://bi.example', 'access-control-request-method': 'POST' };
  test.each([
    [true, { method: 'OPTIONS', headers }],
    [true, { method: 'OPTIONS', headers: { ...headers, origin: 'null' } }],
    [false, { method: 'POST', headers }],
    [false, { method: 'OPTIONS', headers: { origin: headers.origin } }],
    [false, { method: 'OPTIONS', headers: { 'access-control-request-method': 'POST' } }],
  ])('%j: %j', (expected, request) => {
    expect(isPreflight(request)).toBe(expected);
  });
});

test.each([
  [undefined, 'origin'],
  ['', 'origin'],
  ['Origin', 'origin'],
  ['accept-encoding', 'accept-encoding, origin'],
  ['Accept-Encoding,ORIGIN , X-Origin', 'Accept-Encoding, X-Origin, origin'],
  ['*', '*, origin'],
  [['Accept', 'Origin'], 'Accept, origin'],
])('an answer that varies by %j varies by the origin too, once', (vary, expected) => {
  expect(varyByOrigin(vary)).toBe(expected);
});

test('what an engine says of origins is dropped, and nothing else', () => {
  const headers = {
    'access-control-allow-origin': '*',
    'access-control-anything': ['a', 'b'],
    'x-access-control-allow-origin': '*',
    vary: 'Origin',
  };
  dropOriginHeaders(headers);
  expect(Object.keys(headers)).toEqual(['x-access-control-allow-origin', 'vary']);
});
