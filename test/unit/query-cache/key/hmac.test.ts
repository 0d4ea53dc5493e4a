import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createHmac } from 'node:crypto';
import { hmac } from '../../../../src/query-cache/key/hmac.ts';
import { sizes } from '../../../support/sizes.ts';

const byNode = (secret: string, text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url');

describe('the digest of a key', () => {
  test('is HMAC-SHA-256, whatever the secret and the text are', () => {
    const secrets = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 70 }),
      fc.string({ unit: 'binary-ascii', minLength: 60, maxLength: 70 }),
      fc.constantFrom('', 'a'.repeat(64), 'a'.repeat(65), '\0', '\x7f'),
    );
    const texts = fc.string({ unit: 'binary', maxLength: 300 });
    fc.assert(
      fc.property(secrets, fc.array(texts, { maxLength: 3 }), (secret, all) => {
        for (const text of all) expect(hmac(secret, text)).toBe(byNode(secret, text));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is that of its own secret where several take turns', () => {
    for (const secret of ['one', 'other', 'ö'.repeat(40), 'one', 'x'.repeat(100), 'other']) {
      expect(hmac(secret, 'text')).toBe(byNode(secret, 'text'));
    }
  });
});
