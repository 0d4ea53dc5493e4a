import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createSealer, NO_SEALER } from '../../../src/common/sealing.ts';
import { sizes } from '../../support/sizes.ts';

const SECRET = 'a secret of more than thirty-two letters';
const sealer = createSealer(SECRET);
const other = createSealer(`${SECRET} `);

const bytes = fc.uint8Array({ maxLength: 300 }).map((list) => Buffer.from(list));
const context = fc.oneof(fc.string(), bytes);
const text = fc.string({ unit: 'grapheme' });
const runs = { numRuns: sizes.propertyRuns };

/** The bytes with one bit of them turned. */
function spoilt(whole: Buffer, at: number, bit: number): Buffer {
  const copy = Buffer.from(whole);
  copy.writeUInt8(copy.readUInt8(at % copy.length) ^ (1 << bit), at % copy.length);
  return copy;
}

describe('sealed bytes', () => {
  test('open under the same secret and context, also in another process', () => {
    fc.assert(
      fc.property(bytes, context, (plain, where) => {
        const sealed = sealer.seal(plain, where);
        expect(createSealer(SECRET).open(sealed, where)).toEqual(plain);
        expect(sealed.length).toBe(plain.length + 28);
      }),
      runs,
    );
  });

  test('do not open under another secret', () => {
    fc.assert(
      fc.property(bytes, context, (plain, where) => {
        expect(other.open(sealer.seal(plain, where), where)).toBeUndefined();
      }),
      runs,
    );
  });

  test('do not open under another context', () => {
    fc.assert(
      fc.property(bytes, context, context, (plain, where, elsewhere) => {
        fc.pre(!Buffer.from(where).equals(Buffer.from(elsewhere)));
        expect(sealer.open(sealer.seal(plain, where), elsewhere)).toBeUndefined();
      }),
      runs,
    );
  });

  test('do not open when any bit is another', () => {
    const sealed = sealer.seal(Buffer.from('what was sealed'), 'context');
    for (let at = 0; at < sealed.length; at += 1) {
      for (let bit = 0; bit < 8; bit += 1) {
        expect(sealer.open(spoilt(sealed, at, bit), 'context')).toBeUndefined();
      }
    }
  });

  test('do not open when they were cut, or something hangs on to them', () => {
    const sealed = sealer.seal(Buffer.from('what was sealed'), 'context');
    for (let length = 0; length < sealed.length; length += 1) {
      expect(sealer.open(sealed.subarray(0, length), 'context')).toBeUndefined();
    }
    expect(sealer.open(Buffer.concat([sealed, Buffer.of(0)]), 'context')).toBeUndefined();
  });

  test('that never were sealed do not open, whatever they are', () => {
    fc.assert(
      fc.property(bytes, context, (plain, where) => {
        expect(sealer.open(plain, where)).toBeUndefined();
      }),
      runs,
    );
  });

  test('are others every time, so that nobody sees that a value came back', () => {
    const all = Array.from({ length: 1_000 }, () =>
      sealer.seal(Buffer.from('same'), 'context').toString('hex'),
    );
    expect(new Set(all.map((one) => one.slice(0, 24))).size).toBe(all.length);
    expect(new Set(all.map((one) => one.slice(24))).size).toBe(all.length);
  });
});

describe('a sealed text', () => {
  test('opens under the same secret and context', () => {
    fc.assert(
      fc.property(text, fc.string(), (plain, where) => {
        expect(createSealer(SECRET).openText(sealer.sealText(plain, where), where)).toBe(plain);
      }),
      runs,
    );
  });

  test('is equal exactly when text and context are', () => {
    const some = fc.constantFrom('', 'a', 'ab', 'b', 'é');
    fc.assert(
      fc.property(some, some, some, some, (one, here, another, there) => {
        const equal = sealer.sealText(one, here) === sealer.sealText(another, there);
        expect(equal).toBe(one === another && here === there);
      }),
      runs,
    );
    expect(sealer.sealText('text', 'context')).not.toBe(other.sealText('text', 'context'));
  });

  test('opens neither under another secret nor under another context', () => {
    fc.assert(
      fc.property(text, fc.string(), fc.string(), (plain, where, elsewhere) => {
        const sealed = sealer.sealText(plain, where);
        expect(other.openText(sealed, where)).toBeUndefined();
        if (elsewhere !== where) expect(sealer.openText(sealed, elsewhere)).toBeUndefined();
      }),
      runs,
    );
  });

  test('does not open when any letter of it is another, is missing, or is one more', () => {
    const sealed = sealer.sealText('["alice","http://engine",""]', 'who');
    for (let at = 0; at < sealed.length; at += 1) {
      const [front, letter, back] = [sealed.slice(0, at), sealed[at], sealed.slice(at + 1)];
      for (const changed of ['A', 'B', 'z', '9', '-', '_', '=', ' ', '']) {
        if (changed === letter) continue;
        expect(sealer.openText(`${front}${changed}${back}`, 'who')).toBeUndefined();
      }
    }
    for (const more of ['=', ' ', '\n', 'A']) {
      expect(sealer.openText(sealed + more, 'who')).toBeUndefined();
    }
  });

  test('never opens as sealed bytes, and these never as a text: their keys are apart', () => {
    const sealedText = sealer.sealText('text', 'context');
    expect(sealer.open(Buffer.from(sealedText, 'base64url'), 'context')).toBeUndefined();
    const sealed = sealer.seal(Buffer.from('text'), 'context').toString('base64url');
    expect(sealer.openText(sealed, 'context')).toBeUndefined();
  });

  test('is none of a text that UTF-8 cannot hold', () => {
    expect(() => sealer.sealText('half a \uD800 pair', 'context')).toThrow(RangeError);
  });
});

test('without a key everything stays as it is', () => {
  const plain = Buffer.from('plain');
  expect(NO_SEALER.open(NO_SEALER.seal(plain, 'one'), 'other')).toEqual(plain);
  expect(NO_SEALER.openText(NO_SEALER.sealText('plain', 'one'), 'other')).toBe('plain');
});
