import { expect, test } from '@jest/globals';
import { readSettled } from '../../../src/config/config-file.ts';

const WHOLE = 'engine:\n  url: http://engine.example/xmla\ncache:\n  share: user\n';

/** Each reading gives the next of these, written one after the other, and the last one for ever; an Error is thrown. */
function fileThatGives(...contents: (string | Error)[]) {
  let readings = 0;
  let slept = 0;
  return {
    read() {
      const written = Math.min(readings, contents.length - 1);
      const content = contents[written] ?? '';
      readings += 1;
      if (content instanceof Error) throw content;
      return { written, content: Buffer.from(content) };
    },
    async sleep(milliseconds: number) {
      slept += milliseconds;
    },
    count: () => ({ readings, slept }),
  };
}

const text = async (file: ReturnType<typeof fileThatGives>) => {
  const bytes = await readSettled('gateway.yaml', file);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString();
};

test('a file at rest is read twice, a tenth of a second apart', async () => {
  const file = fileThatGives(WHOLE);
  expect(await text(file)).toBe(WHOLE);
  expect(file.count()).toEqual({ readings: 2, slept: 100 });
});

test.each([
  ['that its writer has just emptied', ['']],
  ['of which half is written', ['', WHOLE.slice(0, 40)]],
  ['that grows line by line', ['a', 'ab', 'abc', 'abcd']],
  ['that was whole between two readings that found it empty', ['', '']],
  ['that is being replaced, and not there for a moment', [new Error('ENOENT')]],
])('a file %s is waited for', async (_, before) => {
  expect(await text(fileThatGives(...before, WHOLE))).toBe(WHOLE);
});

test('a file that stays empty is taken as it is', async () => {
  expect(await text(fileThatGives(''))).toBe('');
});

test('a file that stays away is nothing, and so the reader says why', async () => {
  expect(await text(fileThatGives(new Error('ENOENT')))).toBeUndefined();
});

test('a file that never comes to rest is refused with what to do', async () => {
  let count = 0;
  const read = () => ({ written: (count += 1), content: Buffer.from(WHOLE) });
  const file = { read, sleep: async () => {} };
  await expect(readSettled('gateway.yaml', file)).rejects.toThrow(
    'gateway.yaml: is still being written after 10 seconds; signal again when it is complete',
  );
  expect(count).toBe(100);
});
