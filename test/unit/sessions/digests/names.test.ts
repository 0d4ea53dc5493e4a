import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import {
  createSessionDigests,
  sessionName,
  sessionSpelling,
} from '../../../../src/sessions/digests.ts';
import { sizes } from '../../../support/sizes.ts';
import { codePoint } from '../../../support/code-point.ts';

/** Texts that look like the encoding they are put into. */
const text = fc.oneof(
  fc.constantFrom('', '"', '","', '\\', '\\"', '[', '\uD800'),
  fc.string({ unit: codePoint, maxLength: 4 }),
);
const name = fc.record({ endpoint: text, id: text });
const named = (id: string) => sessionName({ endpoint: 'engine', id });

test('two spellings are equal only when endpoint and id are', () => {
  fc.assert(
    fc.property(name, name, (one, other) => {
      const equal = one.endpoint === other.endpoint && one.id === other.id;
      expect(sessionSpelling(one) === sessionSpelling(other)).toBe(equal);
    }),
    { numRuns: sizes.propertyRuns },
  );
  expect(sessionSpelling({ endpoint: 'a","b', id: 'c' })).not.toBe(
    sessionSpelling({ endpoint: 'a', id: 'b","c' }),
  );
});

describe('the name of a session', () => {
  const GUID = '5e55a9c0-0000-4000-8000-00000000000f';
  test.each([
    GUID.toUpperCase(),
    `{${GUID}}`,
    ` {${GUID}}\t`,
    `{ ${GUID} }`,
    `\uFF5B${GUID}\uFF5D`,
    `\u00A0${GUID}`,
    GUID.replace('f', '\uFF46'),
  ])('is the same for %j', (id) => {
    expect(named(id)).toBe(named(GUID));
  });

  test('is the same in all places', () => {
    expect(sessionName({ endpoint: 'another', id: GUID })).toBe(named(GUID));
  });

  test('is another for other ids', () => {
    const all = [GUID, GUID.replace('5', '6'), `{${GUID}}x`, GUID.replaceAll('-', ''), 'a b', 'ab'];
    expect(new Set(all.map(named)).size).toBe(all.length);
  });

  test('is the same with braces, in all forms of Unicode, and for ASCII in all letter cases', () => {
    fc.assert(
      fc.property(fc.string({ unit: codePoint }), fc.string(), (id, ascii) => {
        for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD']) {
          expect(named(`{${id.normalize(form)}}`)).toBe(named(id));
        }
        expect(named(ascii.toUpperCase())).toBe(named(ascii));
      }),
      { numRuns: sizes.propertyRuns },
    );
  });

  test('is short, and shows nothing of the id, however long that is', () => {
    const long = `secret${'x'.repeat(1_000_000)}`;
    for (const digest of [named(long), sessionSpelling({ endpoint: 'engine', id: long })]) {
      expect(digest).toMatch(/^[\w-]{43}$/);
    }
  });
});

test('digests that are remembered are those of this very place and id', () => {
  const digestsOf = createSessionDigests();
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 6 }), (names) => {
      for (const one of [...names, ...names]) {
        expect(digestsOf(one)).toMatchObject({
          key: sessionName(one),
          spelling: sessionSpelling(one),
        });
      }
    }),
    { numRuns: sizes.propertyRuns },
  );
});
