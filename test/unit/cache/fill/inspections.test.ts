import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createInspections } from '../../../../src/cache/fill.ts';
import { sizes } from '../../../support/sizes.ts';

const SLICE = 64 * 1024;
const ROOM = 16 * 1024 * 1024;

/** Notes what it is given. */
function notingInspector(seen: Buffer[] = []) {
  return { inspect: (slice: Buffer) => void seen.push(Buffer.from(slice)), seen };
}

const USUAL = { announced: 0, atOnce: false } as const;
const ANNOUNCED = { announced: SLICE + 1, atOnce: false } as const;

describe('the inspection of answers', () => {
  test('a short answer is inspected as it comes, a long one when it is its turn', async () => {
    const { inspect, seen } = notingInspector();
    const inspection = createInspections().begin(inspect, USUAL);
    inspection.write(Buffer.alloc(SLICE - 1));
    expect(inspection.done()).toBeUndefined();
    expect(seen).toHaveLength(1);
    inspection.write(Buffer.alloc(2));
    inspection.write(Buffer.alloc(1));
    expect(seen).toHaveLength(1);
    await inspection.done();
    expect(seen.map(({ length }) => length)).toEqual([SLICE - 1, 2, 1]);
    expect(inspection.done()).toBeUndefined();
  });

  test('an answer that is announced as long is not inspected while it comes', async () => {
    const { inspect, seen } = notingInspector();
    const inspection = createInspections().begin(inspect, ANNOUNCED);
    inspection.write(Buffer.alloc(10));
    expect(seen).toHaveLength(0);
    await inspection.done();
    expect(seen).toHaveLength(1);
  });

  test('as long as more comes, nothing is inspected, unless much waits', async () => {
    const { inspect, seen } = notingInspector();
    const inspection = createInspections().begin(inspect, ANNOUNCED);
    for (let turn = 0; turn < 10; turn += 1) {
      inspection.write(Buffer.alloc(SLICE));
      await nextTurn();
    }
    expect(seen).toHaveLength(0);
    for (let turn = 0; turn < 100; turn += 1) {
      inspection.write(Buffer.alloc(SLICE));
      await nextTurn();
    }
    expect(seen.length).toBeGreaterThan(10);
    await inspection.done();
    expect(seen).toHaveLength(110);
  });

  test('every byte of every answer is inspected once and in order, however they are cut and mixed', async () => {
    const pieces = fc.array(
      fc.tuple(fc.nat(2), fc.oneof(fc.nat(100), fc.nat(3 * SLICE)), fc.boolean()),
      { maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(pieces, async (written) => {
        const inspections = createInspections();
        const all = [0, 1, 2].map(() => {
          const { inspect, seen } = notingInspector();
          return {
            seen,
            whole: [] as Buffer[],
            inspection: inspections.begin(inspect, USUAL),
          };
        });
        let filler = 0;
        for (const [which, length, pause] of written) {
          const piece = Buffer.alloc(length, `${(filler += 1)}.`);
          all[which]?.whole.push(piece);
          all[which]?.inspection.write(piece);
          if (pause) await nextTurn();
        }
        for (const { seen, whole, inspection } of all) {
          await inspection.done();
          expect(Buffer.concat(seen).equals(Buffer.concat(whole))).toBe(true);
          expect(seen.every(({ length }) => length <= SLICE)).toBe(true);
        }
      }),
      { numRuns: Math.min(sizes.propertyRuns, 300) },
    );
  });

  test('however many answers wait, no turn of the event loop inspects more than one slice', async () => {
    const seen: Buffer[] = [];
    const inspections = createInspections();
    const all = Array.from({ length: 5 }, () =>
      inspections.begin(notingInspector(seen).inspect, USUAL),
    );
    for (const inspection of all) inspection.write(Buffer.alloc(3 * SLICE));
    const inTurns: number[] = [];
    while (seen.length < 15) {
      const before = seen.length;
      await nextTurn();
      inTurns.push(seen.length - before);
    }
    expect(Math.max(...inTurns)).toBe(1);
  });

  test('short pieces share a turn, and those of an answer that was given up cost none', async () => {
    const seen: Buffer[] = [];
    const inspections = createInspections();
    const [given, other] = [1, 2].map(() =>
      inspections.begin(notingInspector(seen).inspect, ANNOUNCED),
    );
    for (let piece = 0; piece < 1_000; piece += 1) given?.write(Buffer.alloc(SLICE / 4));
    for (let piece = 0; piece < 16; piece += 1) other?.write(Buffer.alloc(SLICE / 8));
    given?.stop();
    for (const inspected of [8, 16]) {
      await nextTurn();
      expect(seen).toHaveLength(inspected);
    }
    expect(other?.done()).toBeUndefined();
  });

  test('of one that must be kept before its client has it, all is inspected as it comes', () => {
    const { inspect, seen } = notingInspector();
    const how = { announced: 10 * SLICE, atOnce: true };
    const inspection = createInspections().begin(inspect, how);
    for (let piece = 0; piece < 10; piece += 1) inspection.write(Buffer.alloc(SLICE));
    expect([seen.length, inspection.done()]).toEqual([10, undefined]);
  });

  test('after a stop nothing more of that answer is inspected', async () => {
    const seen: Buffer[] = [];
    const inspection = createInspections().begin((slice) => {
      seen.push(slice);
      inspection.stop();
    }, USUAL);
    inspection.write(Buffer.alloc(3 * SLICE));
    await inspection.done();
    inspection.write(Buffer.from('more'));
    await inspection.done();
    expect(seen).toHaveLength(1);
  });

  test('where too much waits, those who write are told to wait until there is room', async () => {
    const { inspect, seen } = notingInspector();
    const inspections = createInspections();
    const inspection = inspections.begin(inspect, USUAL);
    inspection.write(Buffer.alloc(ROOM));
    expect(inspections.room()).toBeUndefined();
    inspection.write(Buffer.alloc(2 * SLICE));
    const room = inspections.room();
    expect(room).toBeDefined();
    await room;
    expect(seen).toHaveLength(2);
    expect(inspections.room()).toBeUndefined();
    await inspection.done();
  });

  test('what an inspector throws reaches who waits for the end, and nobody else', async () => {
    const inspections = createInspections();
    const broken = inspections.begin(() => {
      throw new Error('a mistake');
    }, USUAL);
    const { inspect, seen } = notingInspector();
    const other = inspections.begin(inspect, USUAL);
    broken.write(Buffer.alloc(3 * SLICE));
    other.write(Buffer.alloc(2 * SLICE));
    await expect(broken.done()).rejects.toThrow('a mistake');
    await other.done();
    expect(seen).toHaveLength(2);
    await expect(broken.done()).rejects.toThrow('a mistake');
  });
});
