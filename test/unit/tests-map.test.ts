import { describe, expect, test } from '@jest/globals';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Suites directly in test/unit that hold the repository as a whole. */
const REPOSITORY = new Set(['architecture', 'oracle-mutants', 'tests-map', 'words']);

const files = readdirSync(join(ROOT, 'test/unit'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .sort();
const isTest = (path: string) => path.endsWith('.test.ts');
const nameOf = (path: string) => path.replace(/(\.sized)?\.test\.ts$/, '');

/** `src/a/b.ts`, or `bench/b.ts` and `scripts/b.ts` beside src. */
const isSource = (name: string) =>
  ['src/', ''].some((root) =>
    ['.ts', '.tsx'].some((extension) => existsSync(join(ROOT, `${root}${name}${extension}`))),
  );

describe('test/unit', () => {
  test('has each test at the path of its source, or in a folder of that name', () => {
    const lost = files
      .filter(isTest)
      .map(nameOf)
      .filter((name) => {
        const isMapped = isSource(name) || isSource(dirname(name));
        return !isMapped && !REPOSITORY.has(name);
      });
    expect(lost).toEqual([]);
  });

  test('has each helper beside a test', () => {
    const folders = new Set(files.filter(isTest).map(dirname));
    const lost = files.filter((path) => !isTest(path) && !folders.has(dirname(path)));
    expect(lost).toEqual([]);
  });
});
