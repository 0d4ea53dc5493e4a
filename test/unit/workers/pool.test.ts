import { describe, expect, test } from '@jest/globals';
import { createWorkerPool, WORKER } from '../../../src/workers/pool.ts';
import { linkPair, type LinkPair } from '../../support/link-pair.ts';
import { handClock, quiet } from '../cache/fakes.ts';

interface FakeWorker {
  readonly pair: LinkPair;
  readonly member: ReturnType<typeof createMember>;
  /** Resolves when it is told to stop. */
  readonly stopped: Promise<void>;
  /** Configurations that it went over to. */
  readonly reloads: (string | undefined)[];
  killed: boolean;
  end(exit: number | string): void;
}

/** What a worker answers when it is told to start. */
function createMember() {
  const told = Promise.withResolvers<{ text: unknown; workers: unknown }>();
  const outcome = Promise.withResolvers<string | undefined>();
  const say = async (problem?: string) => {
    await told.promise;
    outcome.resolve(problem);
    await quiet();
  };
  return {
    start(text: unknown, workers: unknown) {
      told.resolve({ text, workers });
      return outcome.promise;
    },
    configuration: () => told.promise,
    ready: () => say(),
    failed: say,
  };
}

function poolOf(workers: number, { text = 'text', reload = async (_text?: string) => {} } = {}) {
  const clock = handClock();
  const made: FakeWorker[] = [];
  const lines: unknown[] = [];
  const attached = new Set<unknown>();
  const pauses: { milliseconds: number; over: () => void }[] = [];
  let refusing: Error | undefined;
  const pool = createWorkerPool({
    workers,
    text,
    fork() {
      if (refusing !== undefined) throw refusing;
      const ended = Promise.withResolvers<number | string>();
      const pair = linkPair();
      const reloads: (string | undefined)[] = [];
      const stopped = Promise.withResolvers<void>();
      const worker: FakeWorker = {
        stopped: stopped.promise,
        pair,
        reloads,
        killed: false,
        end: ended.resolve,
        member: createMember(),
      };
      pair.worker.serve(WORKER, {
        start: worker.member.start,
        async reload(next: string) {
          reloads.push(next);
          await reload(next);
        },
        stop: stopped.resolve,
      });
      made.push(worker);
      return {
        id: made.length,
        pid: 100 + made.length,
        link: pair.primary,
        ended: ended.promise,
        kill() {
          worker.killed = true;
          ended.resolve('SIGKILL');
        },
      };
    },
    attach(link) {
      attached.add(link);
      return () => attached.delete(link);
    },
    clock,
    sleep: (milliseconds, signal) =>
      new Promise((resolve, reject) => {
        pauses.push({ milliseconds, over: () => resolve(undefined) });
        signal.addEventListener('abort', () => reject(new Error('aborted')));
      }),
    log: {
      info: (line: unknown, msg?: unknown) => void lines.push({ msg, ...(line as object) }),
      error: (line: unknown, msg?: unknown) => void lines.push({ msg, ...(line as object) }),
    },
    url: () => 'http://here:1',
  });
  return {
    pool,
    clock,
    made,
    lines,
    attached,
    pauses,
    refuse: (error: Error) => (refusing = error),
  };
}

/** All workers listen. */
async function started(workers: number, options: Parameters<typeof poolOf>[1] = {}) {
  const house = poolOf(workers, options);
  const starting = house.pool.start();
  for (const { member } of house.made) await member.ready();
  await starting;
  return house;
}

describe('the start of workers', () => {
  test('is over when all of them listen', async () => {
    const { pool, made, lines } = poolOf(3);
    let over = false;
    void pool.start().then(() => (over = true));
    for (const { member } of made.slice(1)) await member.ready();
    await quiet();
    expect(over).toBe(false);
    await made[0]?.member.ready();
    await quiet();
    expect([over, lines]).toEqual([true, []]);
  });

  test('gives each the same configuration, also where there is no file', async () => {
    const { made } = await started(2);
    for (const { member } of made) {
      expect(await member.configuration()).toEqual({ text: 'text', workers: 2 });
    }
  });

  test('fails as a whole with the line of the first that cannot, and leaves none', async () => {
    const { pool, made, attached } = poolOf(3);
    const starting = pool.start();
    await made[0]?.member.ready();
    await made[1]?.member.failed('the port is taken');
    made[1]?.end(1);
    await expect(starting).rejects.toThrow(/^the port is taken$/);
    expect(made.map(({ killed }) => killed)).toEqual([true, false, true]);
    expect([made.length, attached.size]).toEqual([3, 0]);
  });

  test('fails when one ends that was ready before the others', async () => {
    const { pool, made } = poolOf(2);
    const starting = pool.start();
    await made[0]?.member.ready();
    made[0]?.end('SIGKILL');
    await expect(starting).rejects.toThrow('a worker ended with SIGKILL before it listened');
    expect(made[1]?.killed).toBe(true);
  });

  test('fails when one ends without a word, or the system makes none', async () => {
    const silent = poolOf(2);
    const starting = silent.pool.start();
    silent.made[0]?.end('SIGSEGV');
    await expect(starting).rejects.toThrow('a worker ended with SIGSEGV before it listened');
    const { pool, refuse } = poolOf(2);
    refuse(new Error('no more processes'));
    await expect(pool.start()).rejects.toThrow('no more processes');
  });
});

describe('a worker that ends', () => {
  test('is replaced, the first time after a second, and longer each time when it dies at once', async () => {
    const { made, lines, pauses, clock, attached } = await started(1);
    const expected = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    for (const milliseconds of expected) {
      made.at(-1)?.end(1);
      await quiet();
      expect(pauses.at(-1)?.milliseconds).toBe(milliseconds);
      const before = made.length;
      expect(attached.size).toBe(0);
      pauses.at(-1)?.over();
      await quiet();
      expect([made.length, attached.size]).toEqual([before + 1, 1]);
    }
    clock.advance(30_000);
    await made.at(-1)?.member.failed('this time with words');
    made.at(-1)?.end('SIGKILL');
    await quiet();
    expect(lines.at(-1)).toEqual({
      msg: 'worker-ended',
      worker: 8,
      pid: 108,
      exit: 'SIGKILL',
      problem: 'this time with words',
      pause: 0,
    });
    pauses.at(-1)?.over();
    await quiet();
    await made.at(-1)?.member.ready();
    expect(lines.at(-1)).toMatchObject({ msg: 'worker-listens', worker: 9, pid: 109 });
  });

  test('does not hold up another one', async () => {
    const { made, pauses } = await started(2);
    made[0]?.end(1);
    await quiet();
    made[1]?.end(1);
    await quiet();
    expect(pauses.map(({ milliseconds }) => milliseconds)).toEqual([1_000, 1_000]);
  });

  test('is replaced also when the system makes none at first', async () => {
    const { made, lines, pauses, refuse } = await started(1);
    refuse(new Error('no more processes'));
    made[0]?.end('SIGKILL');
    await quiet();
    pauses.at(-1)?.over();
    await quiet();
    expect(lines.at(-1)).toMatchObject({ exit: 'not forked', problem: 'no more processes' });
    expect(pauses.at(-1)?.milliseconds).toBe(2_000);
  });
});

describe('a reload', () => {
  test('reaches all, those that start too, and those that start later', async () => {
    const { pool, made, pauses } = await started(2);
    made[0]?.end(1);
    await quiet();
    pauses.at(-1)?.over();
    await quiet();
    expect(await pool.reload('next')).toEqual([]);
    expect(made.map(({ reloads }) => reloads)).toEqual([[], ['next'], ['next']]);
    expect(await made[2]?.member.configuration()).toEqual({ text: 'text', workers: 2 });
    made[2]?.end(1);
    await quiet();
    pauses.at(-1)?.over();
    await quiet();
    expect(await made[3]?.member.configuration()).toEqual({ text: 'next', workers: 2 });
  });

  test('names each worker that stays as it was, and why', async () => {
    const { pool } = await started(2, {
      reload: () => Promise.reject(new Error('its users file is gone')),
    });
    const problem = 'its users file is gone';
    expect(await pool.reload('next')).toEqual([
      { worker: 1, problem },
      { worker: 2, problem },
    ]);
  });

  test('does not name a worker that ended meanwhile', async () => {
    const { pool, made } = await started(1, { reload: () => new Promise(() => {}) });
    const reloading = pool.reload('next');
    while (made[0]?.reloads.length === 0) await quiet();
    made[0]?.end('SIGKILL');
    expect(await reloading).toEqual([]);
  });
});

describe('a shutdown', () => {
  test('tells all to stop, waits for them, and replaces none', async () => {
    const { pool, made, lines } = await started(2);
    let over = false;
    const stopping = pool.stop(60_000).then(() => (over = true));
    await Promise.all(made.map(({ stopped }) => stopped));
    made[0]?.end(0);
    await quiet();
    expect(over).toBe(false);
    made[1]?.end(0);
    await stopping;
    expect([made.length, lines, made.map(({ killed }) => killed)]).toEqual([2, [], [false, false]]);
  });

  test('starts nobody whose place is empty', async () => {
    const { pool, made } = await started(2);
    made[0]?.end(1);
    await quiet();
    const stopping = pool.stop(60_000);
    made[1]?.end(0);
    await stopping;
    await quiet();
    expect(made).toHaveLength(2);
  });

  test('kills who does not end in time', async () => {
    const { pool, made } = await started(2);
    made[0]?.pair.toWorker.hold();
    const stopping = pool.stop(1);
    await stopping;
    expect(made.map(({ killed }) => killed)).toEqual([true, true]);
  });
});
