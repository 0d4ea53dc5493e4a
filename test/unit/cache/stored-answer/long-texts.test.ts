import { describe, expect, jest, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import * as fc from 'fast-check';
import {
  bytesOf,
  type Cut,
  type Deflated,
  gzipWithSession,
  inflatedWithSession,
  keepText,
  LONG,
} from '../../../../src/cache/stored-answer.ts';
import { sizes } from '../../../support/sizes.ts';
import { bytesIn, keptText } from './session-documents.ts';

const START = 64 * 1024;

/** Texts that compress, no two alike, with what is cut out of their start. */
const cases = fc
  .record({
    noise: fc.uint8Array({ minLength: 1, maxLength: 500 }),
    length: fc.integer({ min: LONG + 1, max: 2 * LONG }),
    ends: fc.uniqueArray(fc.nat({ max: START }), { minLength: 2, maxLength: 2 }),
    leavesGap: fc.boolean(),
    isCut: fc.boolean(),
    pieces: fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 5 }),
    id: fc.stringMatching(/^[\w-]{0,40}$/),
  })
  .map(({ noise, length, ends, leavesGap, isCut, pieces, id }) => {
    const text = Buffer.alloc(length, '<Cell CellOrdinal="1"/>');
    text.set(noise, length >> 1);
    text.set(noise, START - (noise.length >> 1));
    const [start = 0, end = 0] = ends.sort((a, b) => a - b);
    const cut: Cut | undefined = isCut
      ? { start, end, leavesGap: leavesGap && start > 0 }
      : undefined;
    return { text, cut, pieces, id };
  });

async function keepInPieces(text: Buffer, pieces: readonly number[], cut: Cut | undefined) {
  const kept = keepText(() => {});
  for (let at = 0, i = 0; at < text.length; i += 1) {
    const next = at + (pieces[i % pieces.length] ?? 1);
    kept.write(text.subarray(at, next));
    at = next;
  }
  const made = await kept.end(cut);
  if (Buffer.isBuffer(made)) throw new Error('it is not compressed');
  return made;
}

const without = (text: Buffer, cut: Cut | undefined) =>
  cut === undefined ? text : Buffer.concat([text.subarray(0, cut.start), text.subarray(cut.end)]);

/** What a client with this id is sent, decompressed. */
const expected = (text: Buffer, cut: Cut | undefined, id: string) =>
  cut?.leavesGap === true
    ? Buffer.concat([text.subarray(0, cut.start), Buffer.from(id), text.subarray(cut.end)])
    : without(text, cut);

const shownBy = (body: Deflated, cut: Cut | undefined) => ({
  body,
  session: cut?.leavesGap === true ? ({ at: cut.start, encoding: 'utf-8' } as const) : undefined,
});

describe('a long text', () => {
  test('is kept to the last byte, whatever its pieces and what is cut out of it', async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ text, cut, pieces, id }) => {
        const body = await keepInPieces(text, pieces, cut);
        expect(bytesIn(body).equals(without(text, cut))).toBe(true);
        expect(body.length).toBe(without(text, cut).length);
        const shown = shownBy(body, cut);
        const whole = expected(text, cut, id);
        expect(gunzipSync(Buffer.concat(gzipWithSession(shown, id))).equals(whole)).toBe(true);
        const { pieces: inflated, length } = inflatedWithSession(shown, id);
        expect(Buffer.concat(await Array.fromAsync(inflated())).equals(whole)).toBe(true);
        expect(length).toBe(whole.length);
      }),
      { numRuns: Math.ceil(sizes.propertyRuns / 4) },
    );
  });

  test('is read alike by another program', async () => {
    const [one] = fc.sample(cases, 1);
    if (one === undefined) throw new Error('no case');
    const { text, cut, pieces, id } = one;
    const body = await keepInPieces(text, pieces, cut);
    const input = Buffer.concat(gzipWithSession(shownBy(body, cut), id));
    const { status, stdout } = spawnSync('gzip', ['-dc'], { input, maxBuffer: 2 ** 30 });
    expect([status, stdout.equals(expected(text, cut, id))]).toEqual([0, true]);
  });

  test('that does not compress takes hardly more memory than it has bytes', async () => {
    const kept = await keptText(randomBytes(2 * LONG));
    expect(bytesOf(kept) - 2 * LONG).toBeLessThan(1_000);
  });

  test('is put together at its end with one copy of what was compressed', async () => {
    const kept = keepText(() => {});
    kept.write(randomBytes(16 * LONG));
    const concat = jest.spyOn(Buffer, 'concat');
    const copied = () => concat.mock.results.map(({ value }) => (value as Buffer).length);
    const body = await kept.end(undefined);
    expect(bytesOf(body)).toBeGreaterThan(16 * LONG);
    expect(Math.max(...copied())).toBeLessThan(2 * START);
    concat.mockRestore();
  });

  test('needs room for what is still to be compressed, half a megabyte of it together, and no more', async () => {
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const kept = keepText(() => {
      if (kept.usage().done === 3 * LONG) resolve();
    });
    expect(kept.usage()).toEqual({ done: 0, made: 0 });
    for (let i = 0; i < 4; i += 1) kept.write(Buffer.alloc(LONG, '<Cell/>'));
    await done;
    expect(kept.usage().made).toBeLessThan(2 * START);
    kept.stop();
  });

  test('goes to the compressor in few parts, of which one at a time is copied', async () => {
    const MEBIBYTE = 1024 * 1024;
    let parts = 0;
    const copied: number[] = [];
    const kept = keepText(() => (parts += 1));
    for (let i = 0; i < 128; i += 1) {
      kept.write(Buffer.alloc(START, randomBytes(START)));
      copied.push(kept.usage().made);
    }
    await kept.end(undefined);
    expect(parts).toBeLessThanOrEqual((128 * START) / (MEBIBYTE / 2));
    expect(Math.max(...copied)).toBeLessThan(MEBIBYTE);
  });

  test('that is given up in the middle is no failure, and cannot be had', async () => {
    const kept = keepText(() => {});
    kept.write(Buffer.alloc(2 * LONG, '<Cell/>'));
    kept.stop();
    await expect(kept.end(undefined)).rejects.toThrow('Premature close');
  });
});

test('a text is compressed from the first byte on that a short one may not have', async () => {
  const [short, long] = [LONG, LONG + 1].map((length) => Buffer.alloc(length, '<Cell/>'));
  expect(Buffer.isBuffer(await keptText(short ?? Buffer.of()))).toBe(true);
  expect(Buffer.isBuffer(await keptText(long ?? Buffer.of()))).toBe(false);
});
