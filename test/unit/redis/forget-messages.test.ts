import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { readAcknowledgement, readForget } from '../../../src/redis/forget-messages.ts';
import { sizes } from '../../support/sizes.ts';

const SCOPES = ['project:a', 'unassigned'];

describe('a message that tells gateways to forget', () => {
  test('names the purge, its scopes, and who wants to know that it was handled', () => {
    const message = JSON.stringify({ purge: 'aB-_9', scopes: SCOPES, from: 'x' });
    expect(readForget(message)).toEqual({ purge: 'aB-_9', scopes: SCOPES, from: 'x' });
  });

  test('of an older gateway is the list of scopes alone', () => {
    const forget = { scopes: SCOPES, purge: undefined, from: undefined };
    expect(readForget(JSON.stringify(SCOPES))).toEqual(forget);
  });

  test('may hold more than this gateway knows', () => {
    const message = JSON.stringify({ purge: 'p', scopes: [], from: 'x', tokens: ['token'] });
    expect(readForget(message)).toEqual({ purge: 'p', scopes: [], from: 'x' });
  });

  test.each([['no id'], [''], ['{mdx}:epoch'], ['x'.repeat(101)], [1], [null]])(
    'is handled, but not acknowledged, when an id in it cannot be one (%j)',
    (id) => {
      const forget = readForget(JSON.stringify({ purge: 'p', scopes: SCOPES, from: id }));
      expect(forget).toEqual({ scopes: SCOPES, purge: 'p', from: undefined });
    },
  );

  test.each(['', 'nonsense', '1', 'null', '{}', '[1]', '{"scopes":{}}', '{"scopes":["a",1]}'])(
    'is not what this is: %s',
    (message) => {
      expect(readForget(message)).toBeUndefined();
    },
  );
});

test('an acknowledgement names purge and replica, or is none', () => {
  expect(readAcknowledgement('{"purge":"p","replica":"r"}')).toEqual({ purge: 'p', replica: 'r' });
  for (const message of ['', '[]', '{}', '{"purge":"p"}', '{"purge":"p","replica":"a b"}']) {
    expect(readAcknowledgement(message)).toBeUndefined();
  }
});

test('whatever is read, it is scopes that are texts, and ids', () => {
  const message = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .record(
        { purge: fc.jsonValue(), scopes: fc.array(fc.jsonValue()), from: fc.jsonValue() },
        { requiredKeys: [] },
      )
      .map((said) => JSON.stringify(said)),
  );
  fc.assert(
    fc.property(message, (text) => {
      readAcknowledgement(text);
      const forget = readForget(text);
      if (forget === undefined) return;
      expect(forget.scopes.every((scope) => typeof scope === 'string')).toBe(true);
      for (const id of [forget.purge, forget.from]) {
        if (id !== undefined) expect(id).toMatch(/^[\w-]{1,100}$/);
      }
    }),
    { numRuns: sizes.propertyRuns },
  );
});
