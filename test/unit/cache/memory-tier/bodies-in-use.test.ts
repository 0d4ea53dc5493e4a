import { describe, expect, test } from '@jest/globals';
import { deflated } from '../../../../src/cache/stored-answer.ts';
import { createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import { bodyAccount, handClock, quiet, storedAnswer } from '../fakes.ts';

const TAIL = Buffer.alloc(300);
const VARIANT = deflated(500, Buffer.alloc(0), TAIL, 0);
const KEYS = ['one', 'two', 'three'];

function house(maxBytes = 3_500) {
  const account = bodyAccount();
  const compress = async () => VARIANT;
  const memory = createMemoryTier({ maxBytes, clock: handClock(), account, compress });
  const answers = KEYS.map(() => storedAnswer({ body: Buffer.alloc(500) }));
  const keep = (which: number) => memory.set(KEYS[which]!, answers[which]!, 'digests');
  const sending = () => account.usage().bytes.sending;
  return { memory, answers, keep, sending, body: answers[0]!.body };
}

describe('a body that is sent', () => {
  test('counts once, however many clients get it, until the last one has it', () => {
    const { memory, body, sending } = house();
    const all = [memory.hold(body), memory.hold(body), memory.hold(body)];
    expect(sending()).toBe(500);
    for (const letGo of all.slice(1)) letGo();
    for (const letGo of all.slice(1)) letGo();
    expect(sending()).toBe(500);
    all[0]?.();
    expect(sending()).toBe(0);
  });

  test('does not count as long as the memory tier counts it, and counts when that drops it for others', () => {
    const { memory, keep, body, sending } = house();
    keep(0);
    const letGo = memory.hold(body);
    keep(1);
    expect(sending()).toBe(0);
    keep(2);
    expect(sending()).toBe(500);
    letGo();
    expect(sending()).toBe(0);
  });

  test.each([
    ['a purge', ({ memory }: ReturnType<typeof house>) => memory.clear()],
    [
      'another answer in its place',
      ({ memory }: ReturnType<typeof house>) =>
        memory.set('one', storedAnswer({ requestedAt: 1_700_000_000_001 }), 'digests'),
    ],
    [
      'one that is too large in its place',
      ({ memory }: ReturnType<typeof house>) =>
        memory.set(
          'one',
          storedAnswer({ requestedAt: 1_700_000_000_001, body: Buffer.alloc(9_000) }),
          'digests',
        ),
    ],
  ])('counts after %s', (_what, drop) => {
    const all = house();
    all.keep(0);
    const letGo = all.memory.hold(all.body);
    drop(all);
    expect(all.sending()).toBe(500);
    letGo();
    expect(all.sending()).toBe(0);
  });

  test('counts where the memory tier has no place for it', () => {
    for (const maxBytes of [0, 1_000]) {
      const { memory, keep, body, sending } = house(maxBytes);
      const letGo = memory.hold(body);
      keep(0);
      expect(sending()).toBe(500);
      letGo();
      expect(sending()).toBe(0);
    }
  });

  test('does not count when the memory tier takes it afterwards, or gives it a variant', async () => {
    const { memory, sending } = house();
    const answer = storedAnswer({ body: Buffer.alloc(1_100) });
    const holds = [memory.hold(answer.body), memory.hold(TAIL)];
    expect(sending()).toBe(1_400);
    memory.set('one', answer, 'digests');
    memory.textOf('one', answer, true);
    await quiet();
    expect(memory.textOf('one', answer, true)).toMatchObject({ tail: TAIL });
    expect(sending()).toBe(0);
    memory.clear();
    expect(sending()).toBe(1_400);
    for (const letGo of holds) letGo();
    expect(sending()).toBe(0);
  });
});
