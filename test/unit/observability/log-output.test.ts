import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EVENTS } from '../../../src/features/events.ts';
import { auditLines, createLog } from '../../../src/observability/log.ts';
import { createLogOutput } from '../../../src/observability/log-output.ts';
import { sampled } from '../../support/sizes.ts';
import { handClock } from '../cache/fakes.ts';

const SOURCE = JSON.stringify(
  new URL('../../../src/observability/log-output.ts', import.meta.url).href,
);

/** A program that has an `output`. */
const programOf = (text: string) => `
  import { writeSync } from 'node:fs';
  import { createLogOutput, openUnblocked, unblock } from ${SOURCE};
  unblock(1);
  unblock(2);
  const fd = openUnblocked(1);
  const still = new Int32Array(new SharedArrayBuffer(4));
  const output = createLogOutput({
    write: (bytes) => writeSync(fd, bytes),
    isAudit: () => false,
    onExit: (flush) => void process.on('exit', flush),
    clock: performance,
    pause: (milliseconds) => void Atomics.wait(still, 0, 0, milliseconds),
  });
  ${text}`;
const argumentsOf = (program: string) => ['--input-type=module', '-e', programOf(program)];

/** Runs a program, and resolves to what it wrote. */
async function run(program: string): Promise<string> {
  const child = spawn(process.execPath, argumentsOf(program), {
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
  test.each(
    sampled(
      [
        ['is ended in the middle of a turn', 'process.exit(3);'],
        ['fails with an error that nobody catches', "throw new Error('oops');"],
        ['comes to its end', ''],
        [
          'fails with a rejection that nobody handles',
          "void Promise.reject(new Error('oops')); await new Promise(() => setInterval(() => {}, 1000));",
        ],
        [
          'is told to stop',
          "process.once('SIGTERM', () => process.exit(0)); process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000);",
        ],
      ],
      2,
    ),
  )('when the process %s', async (_how, end) => {
    expect(await run(`${WRITE}\n${end}`)).toBe(numbered(2_000).join(''));
  });

  test('when its reader is slow', async () => {
    // More than a pipe holds.
    const lines = await run(`${WRITE}${WRITE}${WRITE}process.exit(0);`);
    const once = numbered(2_000).join('');
    expect(lines.length).toBeGreaterThan(900_000);
    expect(lines).toBe(once + once + once);
  });
});

test.each([
  ['comes to its end', '', 0],
  ['fails with an error that nobody catches', "throw new Error('oops');", 1],
  [
    'is warned',
    "for (let i = 0; i < 1000; i += 1) process.emitWarning('w'.repeat(1000)); setImmediate(() => process.exit(0));",
    0,
  ],
])(
  'no process whose outputs are one pipe that nobody reads stands still when it %s',
  async (_how, end, code) => {
    const folder = mkdtempSync(join(tmpdir(), 'log-output-'));
    const path = join(folder, 'log');
    execFileSync('mkfifo', [path]);
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writer = openSync(path, constants.O_WRONLY);
    const child = spawn(process.execPath, argumentsOf(`${WRITE}${end}`), {
      stdio: ['ignore', writer, writer],
    });
    expect((await once(child, 'exit'))[0]).toBe(code);
    closeSync(writer);
    closeSync(reader);
    rmSync(folder, { recursive: true });
  },
);

/** A pipe that holds so many bytes until it is read. */
function pipe(capacity = 65_536) {
  const clock = handClock();
  const state = { room: capacity, problem: 'EAGAIN', read: '', pauses: 0 };
  let atExit = () => {};
  const output = createLogOutput({
    isAudit: auditLines(EVENTS),
    write(piece) {
      const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
      // As POSIX has it: so few bytes are taken at once or not at all.
      if (state.room === 0 || (bytes.length <= 4_096 && bytes.length > state.room))
        throw Object.assign(new Error('no room'), { code: state.problem });
      const taken = Math.min(bytes.length, state.room);
      state.room -= taken;
      state.read += bytes.toString('latin1', 0, taken);
      return taken;
    },
    onExit: (flush) => (atExit = flush),
    clock,
    pause(milliseconds) {
      state.pauses += 1;
      clock.advance(milliseconds);
    },
  });
  const lines = () => Buffer.from(state.read, 'latin1').toString().split('\n').slice(0, -1);
  return {
    output,
    state,
    lines,
    exit: () => atExit(),
    /** What is written now or later is read. */
    openUp(room = Infinity) {
      state.room = room;
      jest.advanceTimersByTime(100);
    },
  };
}

/** As pino writes to it. */
function audited(output: object, write: () => void): void {
  const about = output as { lastMsg: unknown };
  about.lastMsg = 'purged';
  write();
  about.lastMsg = undefined;
}

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

describe('the lines of one turn', () => {
  test('are written when it ends, or at the exit before, and once', () => {
    const { output, lines, exit } = pipe();
    output.write('a\n');
    output.write('b\n');
    expect(lines()).toEqual([]);
    jest.runAllTimers();
    expect(lines()).toEqual(['a', 'b']);
    output.write('c\n');
    exit();
    expect(lines()).toEqual(['a', 'b', 'c']);
    jest.runAllTimers();
    expect(lines()).toEqual(['a', 'b', 'c']);
  });

  test('are written before that when there are many, and a long one is whole', () => {
    const { output, state, exit } = pipe();
    const long = `${'é'.repeat(10_000)}\n`;
    const all = [...numbered(100), long, ...numbered(3)];
    for (const line of all) output.write(line);
    expect(state.read.length).toBeGreaterThan(10_000);
    expect(state.read.endsWith('\n')).toBe(true);
    exit();
    expect(Buffer.from(state.read, 'latin1').toString()).toBe(all.join(''));
  });
});

describe('while the reader stalls', () => {
  /** More than one pipe and the room for waiting lines hold. */
  const LINES = Array.from({ length: 3_000 }, (_none, i) => `${i} ${'x'.repeat(1_000)}`);
  const numberOf = (line: string) => Number(line.split(' ')[0]);

  test('lines wait, and come in their order when it is back', () => {
    const { output, lines, openUp } = pipe(10_000);
    const some = LINES.slice(0, 500);
    for (const line of some) output.write(`${line}\n`);
    jest.advanceTimersByTime(10_000);
    expect(lines().length).toBeLessThan(10);
    openUp(100_000);
    expect(lines().length).toBeLessThan(110);
    openUp();
    expect(lines()).toEqual(some);
  });

  test.each([
    ['not reading', 'EAGAIN'],
    ['gone', 'EPIPE'],
    ['a full disk', 'ENOSPC'],
  ])('no more than a mebibyte waits, and the gap is told: %s', (_how, problem) => {
    const { output, lines, state, openUp } = pipe(0);
    state.problem = problem;
    for (const line of LINES) output.write(`${line}\n`);
    openUp();
    const kept = lines();
    const told = JSON.parse(kept.pop() ?? '') as { lines: number };
    expect(kept).toEqual(LINES.slice(0, kept.length));
    expect(kept.join('\n').length).toBeLessThanOrEqual(1_048_576);
    expect(kept.length).toBeGreaterThan(1_000);
    expect(told).toMatchObject({
      level: 'warn',
      msg: 'log-lines-dropped',
      lines: LINES.length - kept.length,
      audit: 0,
    });
    output.write('next\n');
    jest.runAllTimers();
    expect(lines().at(-1)).toBe('next');
  });

  test('what is missing is missing in one place, until half of the room is free', () => {
    const { output, lines, openUp } = pipe(0);
    for (const line of LINES) output.write(`${line}\n`);
    openUp(300_000);
    output.write('too early\n');
    openUp(300_000);
    output.write('late enough\n');
    openUp();
    const kept = lines();
    const gap = kept.findIndex((line) => line.startsWith('{'));
    expect(JSON.parse(kept[gap] ?? '')).toMatchObject({ lines: LINES.length - gap + 1 });
    expect(kept.slice(gap + 1)).toEqual(['late enough']);
  });

  test('audit lines are kept when others are dropped, in their place among them', () => {
    const { output, lines, openUp } = pipe(0);
    LINES.forEach((line, i) => {
      if (i % 100 === 0) audited(output, () => output.write(`${line}\n`));
      else output.write(`${line}\n`);
    });
    openUp();
    const kept = lines();
    const told = JSON.parse(kept.pop() ?? '') as { lines: number };
    const numbers = kept.map(numberOf);
    expect(numbers).toEqual(numbers.toSorted((one, other) => one - other));
    expect(numbers.filter((number) => number % 100 === 0)).toHaveLength(30);
    expect(told).toMatchObject({ lines: LINES.length - kept.length, audit: 0 });
  });

  test('an audit line is dropped when nothing else waits, and no sooner', () => {
    const { output, lines, openUp } = pipe(0);
    for (const line of LINES.slice(0, 900)) output.write(`${line}\n`);
    audited(output, () => {
      for (const line of LINES.slice(900)) output.write(`${line}\n`);
    });
    openUp();
    const kept = lines();
    const told = JSON.parse(kept.pop() ?? '') as { lines: number; audit: number };
    const [first = ''] = kept;
    expect(numberOf(first)).toBe(900);
    expect(kept).toEqual(LINES.slice(900, 900 + kept.length));
    expect(kept.join('\n').length).toBeLessThanOrEqual(2 * 1_048_576);
    expect(kept.length).toBeGreaterThan(2_050);
    expect(told).toMatchObject({
      lines: LINES.length - kept.length,
      audit: LINES.length - 900 - kept.length,
    });
  });

  test('a long line that is written in part is written to its end before anything else', () => {
    const { output, lines, openUp } = pipe(5_000);
    const long = 'é'.repeat(10_000);
    output.write(`${long}\n`);
    for (const line of LINES) output.write(`${line}\n`);
    audited(output, () => {
      for (const line of LINES) output.write(`${line}\n`);
    });
    openUp();
    expect(lines()[0]).toBe(long);
    expect(lines()[1]).toBe(LINES[0]);
  });

  test('a process that ends waits for it for a second, and not longer', () => {
    const { output, state, exit } = pipe(0);
    output.write('a\n');
    exit();
    expect(state.pauses).toBe(100);
    expect(state.read).toBe('');
  });

  test('a process that ends writes what it can when it is back in time', () => {
    const { output, state, lines, exit } = pipe(0);
    for (const line of LINES) output.write(`${line}\n`);
    Object.defineProperty(state, 'room', {
      get: () => (state.pauses < 50 ? 0 : Infinity),
      set() {},
    });
    exit();
    expect(state.pauses).toBe(50);
    expect(lines().at(-1)).toContain('log-lines-dropped');
    expect(lines().length).toBeGreaterThan(1_000);
  });

  test('a process that ends does not wait for a reader that is gone', () => {
    const { output, state, exit } = pipe(0);
    state.problem = 'EPIPE';
    output.write('a\n');
    exit();
    expect(state.pauses).toBe(0);
  });
});

test('purges and changes of roles and datasets are told in audit lines, and nothing else is', () => {
  const { output, lines, openUp } = pipe(0);
  const on = createLog(EVENTS, { level: 'debug', slow: 0, statements: 'off' }, output).on;
  for (let i = 0; i < 6_000; i += 1)
    on({ type: 'warning', message: `so that there is no room ${'x'.repeat(200)}` });
  const answered = {
    type: 'api-answered',
    id: 'a',
    principal: 'ADMIN',
    operation: 'createRole',
    subject: 'role Sales',
    status: 200,
    reason: undefined,
    error: undefined,
    milliseconds: 1,
  } as const;
  on({ ...answered, changes: true });
  on({ ...answered, changes: false });
  on({ type: 'purge-refused', principal: 'alice', why: 'no purger' });
  on({
    type: 'purged',
    id: 'p',
    scope: { kind: 'everything' } as never,
    principal: 'ADMIN',
    cause: 'clear-cache',
    result: 'cleared',
    replicas: 1,
    waited: 0,
    known: true,
    engine_calls: 0,
    milliseconds: 1,
  });
  on({ type: 'users-loaded', count: 1 });
  openUp();
  const messages = lines().map((line) => (JSON.parse(line) as { msg: string }).msg);
  expect(messages.filter((msg) => !msg.startsWith('so that'))).toEqual([
    'api-answered',
    'purge-refused',
    'purged',
    'log-lines-dropped',
  ]);
});
