import { describe, expect, test } from '@jest/globals';
import { readOrder } from './arguments.ts';

const read = (...words: readonly string[]) => readOrder(words, ['restart', 'minute'], () => 42);

describe('the words of the drill', () => {
  test('choose scenes, size and seed', () => {
    expect(read()).toEqual({ names: [], size: 'full', seed: 42, help: false });
    const words = ['--small', '--scene', 'minute', '--seed', '7', '--scene', 'restart', '--help'];
    expect(read(...words)).toEqual({
      ...{ names: ['minute', 'restart'], size: 'small', seed: 7, help: true },
    });
  });

  test.each([
    [['--fast'], '--fast is no option. Options: --small, --scene, --seed, --help'],
    [['--scene', 'noon'], '--scene takes one of restart, minute, not noon'],
    [['--scene'], '--scene takes one of restart, minute, not nothing'],
    [['--seed', '1.5'], '--seed takes a whole number from 0 to 4294967295, not 1.5'],
    [['--seed'], '--seed takes a whole number from 0 to 4294967295, not nothing'],
  ])('are refused in one line: %j', (words, message) => {
    expect(() => read(...words)).toThrow(message);
  });
});
