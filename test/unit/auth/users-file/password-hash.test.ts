import { describe, expect, test } from '@jest/globals';
import {
  bcryptCost,
  comparePassword,
  createDecoyHash,
  isComparable,
} from '../../../../src/auth/users-file.ts';
import { HASHES, PASSWORDS } from '../support.ts';

describe('comparing passwords', () => {
  test.each(Object.entries(PASSWORDS))(
    'the password of %s is right, others are wrong',
    async (hash, password) => {
      expect(await comparePassword(password, hash)).toBe(true);
      expect(await comparePassword(`${password} `, hash)).toBe(password.length === 72);
      expect(await comparePassword(password.slice(1), hash)).toBe(false);
      expect(await comparePassword('', hash)).toBe(false);
    },
  );

  test('a password of 72 bytes can be compared, a longer one cannot, whatever its characters', () => {
    expect(isComparable('a'.repeat(72))).toBe(true);
    expect(isComparable('a'.repeat(73))).toBe(false);
    expect(isComparable('ä'.repeat(36))).toBe(true);
    expect(isComparable('ä'.repeat(37))).toBe(false);
    expect(isComparable('')).toBe(true);
    expect(isComparable('a\0b')).toBe(false);
  });
});

describe('the cost of a hash', () => {
  test.each([
    [HASHES.fastCars, 4],
    [HASHES.slow, 6],
    [HASHES.a, 4],
    [HASHES.b.replace('$04$', '$31$'), 31],
    ['', undefined],
    [HASHES.fastCars.slice(0, -1), undefined],
    [`${HASHES.fastCars}.`, undefined],
    [`${HASHES.fastCars}\n`, undefined],
    [HASHES.fastCars.replace('$2y$', '$2x$'), undefined],
    [HASHES.fastCars.replace('$04$', '$4$'), undefined],
    // Bits that 23 bytes of digest do not have.
    [`${HASHES.fastCars.slice(0, -1)}v`, undefined],
    ['$apr1$SFtxQwZk$4VTCk5jE6hmEYFr8RUmAY0', undefined],
  ])('of %j is %s', (hash, cost) => {
    expect(bcryptCost(hash)).toBe(cost);
  });
});

describe('the decoy', () => {
  test.each([4, 10, 15])('is a well-formed hash of cost %d', (cost) => {
    expect(bcryptCost(createDecoyHash(cost))).toBe(cost);
  });

  test('is compared in earnest, and nothing is right', async () => {
    const decoy = createDecoyHash(4);
    for (const password of ['', 'fast cars', decoy]) {
      expect(await comparePassword(password, decoy)).toBe(false);
    }
  });

  test('differs from one to the next', () => {
    expect(createDecoyHash(4)).not.toBe(createDecoyHash(4));
  });
});
