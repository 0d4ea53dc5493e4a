import { describe, expect, test } from '@jest/globals';
import { createProgress } from '../../../../src/cli/copy-store.ts';

const MIB = 1024 * 1024;

/** A watched command whose clock the test holds. */
function watch(isTTY: boolean) {
  const written: string[] = [];
  const clock = { now: 1_000 };
  const output = { isTTY, write: (text: string) => written.push(text) };
  const progress = createProgress('import-store', output, () => clock.now);
  return { progress, written, clock };
}

describe('the progress of a long command', () => {
  test('is one line of a terminal, rewritten', () => {
    const { progress, written, clock } = watch(true);
    progress.add({ bytes: 10 * MIB });
    clock.now += 100;
    progress.add({ records: 1 });
    progress.expect({ records: 2 });
    progress.expect({ bytes: 20 * MIB });
    clock.now += 99;
    progress.add({ bytes: 5 * MIB });
    clock.now += 1;
    progress.add({ records: 1, bytes: 5 * MIB });
    progress.end(true);
    expect(written).toEqual([
      '\rmdx-gateway import-store: 1 records, 10.0 MiB',
      '\rmdx-gateway import-store: 2 of 2 records, 20.0 of 20.0 MiB',
      '\rmdx-gateway import-store: 2 of 2 records, 20.0 of 20.0 MiB',
      '\n',
    ]);
  });

  test('is a line now and then elsewhere', () => {
    const { progress, written, clock } = watch(false);
    progress.expect({ records: 200 });
    for (let record = 1; record <= 200; record += 1) {
      clock.now += 100;
      progress.add({ records: 1, bytes: 1_000 });
    }
    progress.end(false);
    expect(written).toEqual([
      'mdx-gateway import-store: 50 of 200 records, 0.0 MiB\n',
      'mdx-gateway import-store: 100 of 200 records, 0.1 MiB\n',
      'mdx-gateway import-store: 150 of 200 records, 0.1 MiB\n',
      'mdx-gateway import-store: 200 of 200 records, 0.2 MiB\n',
    ]);
  });

  test('of a command that failed at once is nothing', () => {
    const { progress, written } = watch(true);
    progress.end(false);
    expect(written).toEqual([]);
  });
});
