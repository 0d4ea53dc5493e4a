import { expect, test } from '@jest/globals';
import { createCors } from '../../../../src/features/cors/cors.ts';

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
