import { describe, expect, test } from '@jest/globals';
import { createCheckLine } from '../../../src/auth/authenticator.ts';
import { settle } from './support.ts';

/** Checks that stay open until the test ends them by name. */
function createOpenEnded() {
  const open = new Map<string, PromiseWithResolvers<boolean>>();
  const begun: string[] = [];
  return {
    begun,
    check: (name: string) => (): Promise<boolean> => {
      const ending = Promise.withResolvers<boolean>();
      open.set(name, ending);
      begun.push(name);
      return ending.promise;
    },
    end: (name: string) => open.get(name)?.resolve(true),
    fail: (name: string) => open.get(name)?.reject(new Error('broken')),
  };
}

describe('the line before the checks', () => {
  test('no more than so many run at once, the others in the order in which they came', async () => {
    const { begun, check, end } = createOpenEnded();
    const line = createCheckLine(2, 10);
    for (const name of ['a', 'b', 'c', 'd']) void line(check(name), false);
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
    const { begun, check, end } = createOpenEnded();
    const line = createCheckLine(1, 1);
    void line(check('running'), false);
    void line(check('waiting'), false);
    expect(await line(check('refused'), false)).toBeUndefined();
    await settle();
    end('running');
    await settle();
    void line(check('later'), false);
    end('waiting');
    await settle();
    expect(begun).toEqual(['running', 'waiting', 'later']);
  });

  test('who was right before finds room in a full line and goes first', async () => {
    const { begun, check, end } = createOpenEnded();
    const line = createCheckLine(1, 1);
    void line(check('running'), false);
    void line(check('guess'), false);
    void line(check('known'), true);
    await settle();
    end('running');
    await settle();
    end('known');
    await settle();
    expect(begun).toEqual(['running', 'known', 'guess']);
  });

  test('a check that fails rejects and makes room', async () => {
    const { begun, check, fail } = createOpenEnded();
    const line = createCheckLine(1, 1);
    const failing = line(check('fails'), false);
    void line(check('next'), false);
    await settle();
    fail('fails');
    await expect(failing).rejects.toThrow('broken');
    expect(begun).toEqual(['fails', 'next']);
  });

  test('a place that is free again is used by those who come later', async () => {
    const { begun, check, end } = createOpenEnded();
    const line = createCheckLine(1, 0);
    for (const name of ['a', 'b', 'c']) {
      const result = line(check(name), false);
      await settle();
      end(name);
      expect(await result).toBe(true);
    }
    expect(begun).toEqual(['a', 'b', 'c']);
  });
});
