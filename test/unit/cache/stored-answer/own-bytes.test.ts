import { describe, expect, test } from '@jest/globals';
import { decodeEntry, encodeEntry } from '../../../../src/cache/shared-entries.ts';
import { type AnswerText, ownBytes } from '../../../../src/cache/stored-answer.ts';
import { createSealer, NO_SEALER } from '../../../../src/common/sealing.ts';
import {
  engineAnswer,
  queryOf,
  rowset,
  sessionElement,
  sessionOf,
  storedAnswer,
} from '../fakes.ts';
import { bytesIn, keptText } from './session-documents.ts';
import { KEY, TOKENS } from '../shared-entries/hand-made-entry.ts';
import { fakeEngine, replica } from '../purge/replica.ts';

/** Bytes that stay in memory with it, beside its own. */
function beside(body: AnswerText): number {
  const kept = Buffer.isBuffer(body) ? [body] : [body.front, body.tail];
  return kept.reduce((sum, { buffer, length }) => sum + buffer.byteLength - length, 0);
}

test('pieces in a row are the same bytes', () => {
  const pieces = ['a', '', 'bc'].map((text) => Buffer.from(text));
  expect(ownBytes(pieces)).toEqual(Buffer.from('abc'));
  expect(ownBytes([])).toEqual(Buffer.alloc(0));
  // More than a function takes as arguments.
  expect(ownBytes(Array<Buffer>(300_000).fill(Buffer.from('x'))).length).toBe(300_000);
});

describe('a body that is kept keeps nothing else in memory', () => {
  test.each([
    ['without a session', undefined, ''],
    ['with the place of a session', sessionOf('mine'), sessionElement('mine')],
    ['from which a session was cut out', undefined, sessionElement('begun by the engine')],
  ])('when it came from the engine: %s', async (_what, session, header) => {
    const one = replica();
    const engine = fakeEngine(() => engineAnswer(rowset('text', header), one.clock));
    await one.answer(queryOf(engine.ask, session && { session }));
    const [kept] = one.memory.peekRecent(2);
    if (kept === undefined) throw new Error('it was not kept');
    expect(beside(kept.answer.body)).toBe(0);
  });

  test.each([100, 2_000, 5_000, 40_000, 65_536, 65_537, 200_000, 400_000])(
    'when it came from Redis: %i bytes',
    async (length) => {
      for (const sealer of [NO_SEALER, createSealer('a secret of more than thirty-two letters')]) {
        const body = Buffer.alloc(length, '<Cell/>');
        const kept = storedAnswer({ body: await keptText(body) });
        const value = await encodeEntry(KEY, kept, TOKENS, sealer);
        // As it comes: in the middle of whatever was read from the network.
        const read = Buffer.concat([Buffer.alloc(100), value, Buffer.alloc(100_000)]);
        const found = await decodeEntry(
          KEY,
          read.subarray(100, 100 + value.length),
          length,
          sealer,
        );
        if (typeof found === 'string') throw new Error(found);
        expect(body.equals(bytesIn(found.body))).toBe(true);
        expect(beside(found.body)).toBeLessThan(64);
      }
    },
  );
});
