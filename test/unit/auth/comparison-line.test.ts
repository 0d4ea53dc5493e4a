import { describe, expect, test } from '@jest/globals';
import { createComparisonLine } from '../../../src/auth/comparison-line.ts';
import { settle } from './support.ts';

/** Comparisons that stay open until the test ends them by password. */
function createOpenEnded() {
  const open = new Map<string, PromiseWithResolvers<boolean>>();
  const begun: string[] = [];
  return {
    begun,
    compare: (password: string): Promise<boolean> => {
      const ending = Promise.withResolvers<boolean>();
      open.set(password, ending);
      begun.push(password);
      return ending.promise;
    },
    end: (password: string) => open.get(password)?.resolve(true),
    fail: (password: string) => open.get(password)?.reject(new Error('broken')),
  };
}

describe('the line before the comparisons', () => {
  test('no more than so many run at once, the others in the order in which they came', async () => {
    const { begun, compare, end } = createOpenEnded();
    const line = createComparisonLine({ compare, atOnce: 2, waiting: 10 });
    for (const password of ['a', 'b', 'c', 'd']) void line.compare(password, 'h', false);
    await settle();
    expect(begun).toEqual(['a', 'b']);
    end('b');
    await settle();
    expect(begun).toEqual(['a', 'b', 'c']);
    end('a');
    await settle();
    expect(begun).toEqual(['a', 'b', 'c', 'd']);
  });

  test('a full line refuses at once and takes in again when it has moved', async () => {
    const { begun, compare, end } = createOpenEnded();
    const line = createComparisonLine({ compare, atOnce: 1, waiting: 1 });
    void line.compare('running', 'h', false);
    void line.compare('waiting', 'h', false);
    expect(line.compare('refused', 'h', false)).toBeUndefined();
    await settle();
    end('running');
    await settle();
    expect(line.compare('later', 'h', false)).toBeDefined();
    end('waiting');
    await settle();
    expect(begun).toEqual(['running', 'waiting', 'later']);
  });

  test('who was right before finds room in a full line and goes first', async () => {
    const { begun, compare, end } = createOpenEnded();
    const line = createComparisonLine({ compare, atOnce: 1, waiting: 1 });
    void line.compare('running', 'h', false);
    void line.compare('guess', 'h', false);
    expect(line.compare('known', 'h', true)).toBeDefined();
    await settle();
    end('running');
    await settle();
    end('known');
    await settle();
    expect(begun).toEqual(['running', 'known', 'guess']);
  });

  test('a comparison that fails rejects and makes room', async () => {
    const { begun, compare, fail } = createOpenEnded();
    const line = createComparisonLine({ compare, atOnce: 1, waiting: 1 });
    const failing = line.compare('fails', 'h', false);
    void line.compare('next', 'h', false);
    await settle();
    fail('fails');
    await expect(failing).rejects.toThrow('broken');
    expect(begun).toEqual(['fails', 'next']);
  });

  test('a place that is free again is used by those who come later', async () => {
    const { begun, compare, end } = createOpenEnded();
    const line = createComparisonLine({ compare, atOnce: 1, waiting: 0 });
    for (const password of ['a', 'b', 'c']) {
      const result = line.compare(password, 'h', false);
      await settle();
      end(password);
      expect(await result).toBe(true);
    }
    expect(begun).toEqual(['a', 'b', 'c']);
  });
});
