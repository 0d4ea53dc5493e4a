/*
 * The CRC-32 of two texts in a row, from the CRC-32 of each. Such a checksum is the remainder of a polynomial
 * over GF(2); a text that follows shifts the one before by its length, which is to multiply by a power of x.
 * Polynomials stand in 32 bits as CRC-32 has them (RFC 1952 section 8): the highest bit is x^0.
 */

/** What the remainders are of, less x^32. */
const DIVISOR = 0xedb88320;
const ONE = 0x80000000;
const X = 0x40000000;
/** x to the power of 2 ** index. x ** (2 ** 32) is x again, so there are no more. */
const POWERS = powersOfX();

/**
 * What to multiply a checksum by when `length` bytes follow. Worth keeping where the same bytes follow again and
 * again: it costs more than `joinCrc`.
 */
export function crcShift(length: number): number {
  let shift = ONE;
  // The powers that add up to 8 * length bits: the third stands for one byte.
  for (let left = length, index = 3; left > 0; left = Math.floor(left / 2), index += 1) {
    if (left % 2 === 1) shift = multiply(POWERS[index % POWERS.length] ?? ONE, shift);
  }
  return shift;
}

/** @param shift `crcShift` of the length of the second text */
export function joinCrc(first: number, second: number, shift: number): number {
  return (multiply(shift, first) ^ second) >>> 0;
}

function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if ((a & bit) !== 0) product ^= shifted;
    shifted = (shifted & 1) === 0 ? shifted >>> 1 : (shifted >>> 1) ^ DIVISOR;
  }
  return product >>> 0;
}

function powersOfX(): readonly number[] {
  const powers = [X];
  while (powers.length < 32) {
    const last = powers.at(-1) ?? X;
    powers.push(multiply(last, last));
  }
  return powers;
}
