import { describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { createLogOutput } from '../../../src/observability/log-output.ts';

const SOURCE = new URL('../../../src/observability/log-output.ts', import.meta.url).href;

/** Runs a program that has an `output`, and resolves to what it wrote. */
async function run(program: string): Promise<string> {
  const text = `import { createLogOutput } from ${JSON.stringify(SOURCE)};
    const output = createLogOutput({ onExit: (flush) => void process.on('exit', flush) });
    ${program}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => (out += piece));
  await new Promise((resolve) => child.once('close', resolve));
  return out;
}

const numbered = (count: number) =>
  Array.from({ length: count }, (_none, i) => `{"line":${i},"text":"${'x'.repeat(i % 300)}"}\n`);
const WRITE = `for (let i = 0; i < 2000; i += 1) output.write('{"line":' + i + ',"text":"' + 'x'.repeat(i % 300) + '"}\\n');`;

describe('the output of the log loses no line, and keeps their order', () => {
  test.each([
    ['comes to its end', ''],
    ['is ended in the middle of a turn', 'process.exit(3);'],
    ['fails with an error that nobody catches', "throw new Error('oops');"],
    [
      'fails with a rejection that nobody handles',
      "void Promise.reject(new Error('oops')); await new Promise(() => setInterval(() => {}, 1000));",
    ],
    [
      'is told to stop',
      "process.once('SIGTERM', () => process.exit(0)); process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000);",
    ],
  ])('when the process %s', async (_how, end) => {
    expect(await run(`${WRITE}\n${end}`)).toBe(numbered(2_000).join(''));
  });

  test('when whoever reads it is slow', async () => {
    // More than a pipe holds.
    const lines = await run(`${WRITE}${WRITE}${WRITE}process.exit(0);`);
    const once = numbered(2_000).join('');
    expect(lines.length).toBeGreaterThan(900_000);
    expect(lines).toBe(once + once + once);
  });
});

describe('the lines of one turn', () => {
  function file() {
    const folder = mkdtempSync(join(tmpdir(), 'log-output-'));
    const path = join(folder, 'log');
    const fd = openSync(path, 'a');
    let atExit = () => {};
    const output = createLogOutput({ fd, onExit: (flush) => (atExit = flush) });
    return {
      output,
      written: () => readFileSync(path, 'utf8'),
      exit: () => atExit(),
      close() {
        closeSync(fd);
        rmSync(folder, { recursive: true });
      },
    };
  }

  test('are written when it ends, or at the exit before, and once', async () => {
    const { output, written, exit, close } = file();
    output.write('a\n');
    output.write('b\n');
    expect(written()).toBe('');
    await setImmediate();
    await setImmediate();
    expect(written()).toBe('a\nb\n');
    output.write('c\n');
    exit();
    expect(written()).toBe('a\nb\nc\n');
    await setImmediate();
    await setImmediate();
    expect(written()).toBe('a\nb\nc\n');
    close();
  });

  test('are written before that when there are many, and a long one is whole', () => {
    const { output, written, exit, close } = file();
    const long = `${'é'.repeat(10_000)}\n`;
    const lines = [...numbered(100), long, ...numbered(3)];
    for (const line of lines) output.write(line);
    const early = written();
    expect(early.length).toBeGreaterThan(10_000);
    expect(early.endsWith('\n')).toBe(true);
    exit();
    expect(written()).toBe(lines.join(''));
    close();
  });
});
