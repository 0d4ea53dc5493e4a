import { describe, expect, test } from '@jest/globals';
import * as fc from 'fast-check';
import { inPieces } from '../../../../src/query-cache/fill/in-pieces.ts';
import { sizes } from '../../../support/sizes.ts';
import { fakeClient } from '../fake-client.ts';
import { engineAnswer, handClock, queryOf, rowset } from '../fakes.ts';
import { fakeEngine, replica } from '../purge/replica.ts';

const LARGEST = 64 * 1024;

async function* bodyOf(chunks: readonly Buffer[], left?: () => void) {
  try {
    yield* chunks;
  } finally {
    left?.();
  }
}

describe('a body in pieces', () => {
  test('has the same bytes in the same order, in pieces that are never too long', async () => {
    const length = fc.oneof(
      fc.nat({ max: 10 }),
      fc.integer({ min: LARGEST - 1, max: 2 * LARGEST + 1 }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(length, { maxLength: 4 }), async (lengths) => {
        const chunks = lengths.map((bytes, i) => Buffer.alloc(bytes, `${i}.`));
        const pieces = await Array.fromAsync(inPieces(bodyOf(chunks)));
        expect(Buffer.concat(pieces).equals(Buffer.concat(chunks))).toBe(true);
        expect(pieces.every((piece) => piece.length > 0 && piece.length <= LARGEST)).toBe(true);
      }),
      { numRuns: Math.min(sizes.propertyRuns, 300) },
    );
  });

  test('lets others have their turn between two pieces of one chunk', async () => {
    const seen: string[] = [];
    const pieces = inPieces(bodyOf([Buffer.alloc(3 * LARGEST)]));
    for await (const piece of pieces) {
      seen.push(`piece of ${piece.length}`);
      setImmediate(() => seen.push('turn'));
    }
    const piece = `piece of ${LARGEST}`;
    expect(seen.slice(0, 5)).toEqual([piece, 'turn', piece, 'turn', piece]);
  });

  test('ends the body when nobody wants more of it, and fails as the body does', async () => {
    let left = false;
    const body = bodyOf([Buffer.alloc(3 * LARGEST)], () => (left = true));
    for await (const piece of inPieces(body)) if (piece.length > 0) break;
    expect(left).toBe(true);
    async function* broken() {
      yield Buffer.from('x');
      throw new Error('broken off');
    }
    await expect(Array.fromAsync(inPieces(broken()))).rejects.toThrow('broken off');
  });
});

describe('an answer that comes in one large chunk', () => {
  test('reaches its client in order, and is kept whole', async () => {
    const clock = handClock();
    const { answer } = replica({ clock });
    const whole = rowset('0123456789'.repeat(40_000));
    const engine = fakeEngine(() => ({
      ...engineAnswer(whole, clock),
      body: bodyOf([whole]),
    }));
    const first = await answer(queryOf(engine.ask));
    expect(first.body === `${whole}`).toBe(true);
    const hit = await answer(queryOf(engine.ask));
    expect(hit.answer?.body.equals(whole)).toBe(true);
  });

  test('keeps nobody else waiting while it is looked at', async () => {
    const clock = handClock();
    const { answer } = replica({ clock });
    const whole = rowset('0123456789'.repeat(40_000));
    const engine = fakeEngine(() => ({ ...engineAnswer(whole, clock), body: bodyOf([whole]) }));
    const client = fakeClient();
    let turns = 0;
    const count = () => {
      turns += 1;
      if (!client.ended) setImmediate(count);
    };
    setImmediate(count);
    await answer(queryOf(engine.ask), client);
    expect(turns).toBeGreaterThanOrEqual(Math.floor(whole.length / LARGEST));
  });
});
