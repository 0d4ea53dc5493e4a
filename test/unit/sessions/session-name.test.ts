import { expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { sessionName } from '../../../src/sessions/session-name.ts';
import { sizes } from '../../support/sizes.ts';

/** Texts that look like the encoding they are put into. */
const text = fc.oneof(
  fc.constantFrom('', '"', '","', '\\', '\\"', '[', '\uD800'),
  fc.string({ unit: 'binary', maxLength: 4 }),
);
const name = fc.record({ place: text, id: text });

test('names are equal only when place and id are', () => {
  fc.assert(
    fc.property(name, name, (one, other) => {
      const equal = one.place === other.place && one.id === other.id;
      expect(sessionName(one) === sessionName(other)).toBe(equal);
    }),
    { numRuns: sizes.propertyRuns },
  );
  expect(sessionName({ place: 'a","b', id: 'c' })).not.toBe(
    sessionName({ place: 'a', id: 'b","c' }),
  );
});
