import { describe, expect, test } from '@jest/globals';
import { createBodiesInUse, createMemoryTier } from '../../../../src/cache/memory-tier.ts';
import { bodyAccount, handClock, storedAnswer } from '../fakes.ts';

const KEYS = ['one', 'two', 'three'];

function house(maxBytes = 3_500) {
  const account = bodyAccount();
  const inUse = createBodiesInUse(account);
  const memory = createMemoryTier({ maxBytes, clock: handClock(), inUse });
  const answers = KEYS.map(() => storedAnswer({ body: Buffer.alloc(500) }));
  const keep = (which: number) => memory.set(KEYS[which]!, answers[which]!, 'digests');
  const sending = () => account.usage().bytes.sending;
  return { inUse, memory, answers, keep, sending, body: answers[0]!.body };
}

describe('a body that is sent', () => {
  test('counts once, however many clients get it, until the last one has it', () => {
    const { inUse, body, sending } = house();
    const all = [inUse.hold(body), inUse.hold(body), inUse.hold(body)];
    expect(sending()).toBe(500);
    for (const letGo of all.slice(1)) letGo();
    for (const letGo of all.slice(1)) letGo();
    expect(sending()).toBe(500);
    all[0]?.();
    expect(sending()).toBe(0);
  });

  test('does not count as long as the memory tier counts it, and counts when that drops it for others', () => {
    const { inUse, keep, body, sending } = house();
    keep(0);
    const letGo = inUse.hold(body);
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
    const letGo = all.inUse.hold(all.body);
    drop(all);
    expect(all.sending()).toBe(500);
    letGo();
    expect(all.sending()).toBe(0);
  });

  test('counts where the memory tier has no place for it', () => {
    for (const maxBytes of [0, 1_000]) {
      const { inUse, keep, body, sending } = house(maxBytes);
      const letGo = inUse.hold(body);
      keep(0);
      expect(sending()).toBe(500);
      letGo();
      expect(sending()).toBe(0);
    }
  });

  test('does not count when the memory tier takes it afterwards, or gives it a variant', () => {
    const { inUse, memory, keep, answers, body, sending } = house();
    const tail = Buffer.alloc(300);
    const variant = { bytes: 400, body, tail, tailCrc: 0, tailShift: 0, headCrc: 0 };
    const holds = [inUse.hold(body), inUse.hold(tail)];
    expect(sending()).toBe(800);
    keep(0);
    memory.gzipOf('one', answers[0]!)?.keep(variant);
    expect(sending()).toBe(0);
    memory.clear();
    expect(sending()).toBe(800);
    for (const letGo of holds) letGo();
    expect(sending()).toBe(0);
  });
});
