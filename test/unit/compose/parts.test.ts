import { expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { createIds } from '../../../src/compose/parts.ts';

test('ids are of 128 random bits and more, each used once, and fetched many at one time', () => {
  let calls = 0;
  const newId = createIds({
    randomBytes(count) {
      calls += 1;
      return randomBytes(count);
    },
  });
  const ids = Array.from({ length: 10_000 }, newId);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(/^[\w-]{22}$/);
  expect(calls).toBe(Math.ceil(ids.length / 256));
});

test('no byte of one id stands in another', () => {
  let next = 0;
  const newId = createIds({
    randomBytes: (count) => Buffer.from(Array.from({ length: count }, () => (next += 1) % 251)),
  });
  const ids = Array.from({ length: 600 }, () => [...Buffer.from(newId(), 'base64url')]);
  expect(ids).toEqual(ids.map((bytes, id) => bytes.map((_byte, i) => (18 * id + i + 1) % 251)));
});
