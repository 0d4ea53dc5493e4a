import * as fc from 'fast-check';

const SURROGATES = { first: 0xd800, count: 0x800 };

/**
 * Any one character of Unicode, as the unit of an `fc.string`. The unit `binary` of fast-check is the same, but makes a
 * table of all characters in each suite, which takes seconds.
 */
export const codePoint = fc.integer({ min: 0, max: 0x10ffff - SURROGATES.count }).map(
  (index) => String.fromCodePoint(index < SURROGATES.first ? index : index + SURROGATES.count),
  (character) => {
    const [one, ...more] = typeof character === 'string' ? character : [];
    const code = one?.codePointAt(0);
    if (code === undefined || more.length > 0) throw new Error('not one character');
    return code < SURROGATES.first ? code : code - SURROGATES.count;
  },
);
