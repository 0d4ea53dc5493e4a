import { describe, expect, test } from '@jest/globals';
import { createCors, dropCors, isPreflight, varyByOrigin } from '../../../src/http/cors.ts';

const cors = createCors({
  origins: ['https://bi.example', 'http://localhost:3000'],
  max_age: 1500,
});

test('where no origin is listed, there is nothing to ask', () => {
  expect(createCors({ origins: [], max_age: 1 })).toBeUndefined();
});

test('a listed origin is told itself, and one that is not listed nothing', () => {
  expect(cors?.('http://localhost:3000')).toEqual({
    headers: {
      'access-control-allow-origin': 'http://localhost:3000',
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': 'Cache-Status, Age, Retry-After, X-Request-Id',
    },
    preflight: {
      'access-control-allow-methods': 'POST',
      'access-control-allow-headers':
        'authorization, content-type, soapaction, cache-control, x-request-id, x-as-sessionid, traceparent, x-requested-with',
      'access-control-max-age': '1',
    },
  });
  const others = [undefined, '', 'null', 'https://bi.example, https://bi.example', 'constructor'];
  for (const origin of others) {
    expect([origin, cors?.(origin)]).toEqual([origin, { headers: {}, preflight: undefined }]);
  }
});

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
  dropCors(headers);
  expect(Object.keys(headers)).toEqual(['x-access-control-allow-origin', 'vary']);
});
