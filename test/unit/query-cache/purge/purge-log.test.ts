import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createMemoryPurgeLog } from '../../../../src/query-cache/purge/memory-purge-log.ts';
import type {
  PurgeLine,
  PurgeLines,
  PurgeRecord,
} from '../../../../src/query-cache/purge/purge-log.ts';
import { createSharedPurgeLog } from '../../../../src/query-cache/purge/shared-purge-log.ts';
import { checkpoint, quiet } from '../fakes.ts';

function purge(at: number, changed: Partial<PurgeRecord> = {}): PurgeRecord {
  return {
    id: `id ${at}`,
    at,
    principal: 'ADMIN',
    cause: 'clear-cache',
    scope: { project: 'a' },
    result: 'cleared',
    replicas: 1,
    waited: 0,
    engine_calls: 0,
    ...changed,
  };
}

const times = (purges: readonly PurgeRecord[]) => purges.map(({ at }) => at);

describe('the log of a gateway that is alone', () => {
  test('gives the latest first, and no more than asked for', async () => {
    const log = createMemoryPurgeLog();
    for (const at of [1, 2, 3]) await log.add(purge(at));
    expect(await log.latest(2)).toEqual({ complete: true, purges: [purge(3), purge(2)] });
  });

  test('gives the one first that was added later, of two in one millisecond', async () => {
    const log = createMemoryPurgeLog();
    await log.add(purge(1, { id: 'first' }));
    await log.add(purge(1, { id: 'second' }));
    expect((await log.latest(9)).purges.map(({ id }) => id)).toEqual(['second', 'first']);
  });

  test('holds a thousand and forgets the oldest', async () => {
    const log = createMemoryPurgeLog();
    for (let at = 1; at <= 1_001; at += 1) await log.add(purge(at));
    const { purges } = await log.latest(5_000);
    expect([purges.length, purges.at(-1)?.at]).toEqual([1_000, 2]);
  });
});

/** What gateways share, as in Redis. */
function sharedLines() {
  const kept: PurgeLine[] = [];
  const shared = {
    kept,
    reachable: true,
    /** Whether it fails after it has taken the lines. */
    swallowing: false,
    beforeAdd: async () => {},
    adds: 0,
  };
  const lines: PurgeLines = {
    async add(added, most) {
      shared.adds += 1;
      await shared.beforeAdd();
      if (!shared.reachable) throw new Error('out of reach');
      kept.push(...added);
      kept.splice(0, Math.max(0, kept.length - most));
      if (shared.swallowing) throw new Error('no reply');
    },
    async all(most) {
      if (!shared.reachable) throw new Error('out of reach');
      return kept.slice(-most);
    },
  };
  return { shared, lines };
}

function gateway(lines: PurgeLines, name: string) {
  const errors: unknown[] = [];
  let made = 0;
  const log = createSharedPurgeLog({
    lines,
    own: createMemoryPurgeLog(),
    newLine: () => `${name} ${(made += 1)}`,
    onError: (error) => errors.push(error),
  });
  return { ...log, errors };
}

describe('the log that gateways share', () => {
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('gives the purges of all, the latest first', async () => {
    const { lines } = sharedLines();
    const [one, other] = [gateway(lines, 'one'), gateway(lines, 'other')];
    await one.add(purge(1));
    await other.add(purge(2));
    await one.add(purge(3));
    for (const log of [one, other]) {
      expect(await log.latest(2)).toEqual({ complete: true, purges: [purge(3), purge(2)] });
    }
  });

  test('gives those of this gateway when the others cannot be known, and says so', async () => {
    const { lines, shared } = sharedLines();
    const [one, other] = [gateway(lines, 'one'), gateway(lines, 'other')];
    await other.add(purge(1));
    await one.add(purge(2));
    shared.reachable = false;
    expect(await one.latest(9)).toEqual({ complete: false, purges: [purge(2)] });
    expect(one.errors).toHaveLength(1);
    one.close();
  });

  test('carries over what was not taken, with the next purge, in its place by time', async () => {
    const { lines, shared } = sharedLines();
    const [one, other] = [gateway(lines, 'one'), gateway(lines, 'other')];
    shared.reachable = false;
    await one.add(purge(1));
    await one.add(purge(2));
    shared.reachable = true;
    await other.add(purge(3));
    await one.add(purge(4));
    expect(times((await other.latest(9)).purges)).toEqual([4, 3, 2, 1]);
    expect([one.pending(), jest.getTimerCount()]).toEqual([[], 0]);
  });

  test('carries it over by itself when it is taken again', async () => {
    const { lines, shared } = sharedLines();
    const one = gateway(lines, 'one');
    shared.reachable = false;
    await one.add(purge(1));
    await jest.advanceTimersByTimeAsync(60_000);
    expect([shared.kept, one.pending().length]).toEqual([[], 1]);
    shared.reachable = true;
    await jest.advanceTimersByTimeAsync(10_000);
    expect(shared.kept.map(({ record }) => record.at)).toEqual([1]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('gives what is on its way, too', async () => {
    const { lines, shared } = sharedLines();
    const one = gateway(lines, 'one');
    const held = checkpoint();
    shared.beforeAdd = held.arrive;
    const adding = [one.add(purge(1)), one.add(purge(2))];
    await held.arrived;
    expect(times((await one.latest(9)).purges)).toEqual([2, 1]);
    held.release();
    await Promise.all(adding);
    await quiet();
    expect(shared.kept.map(({ record }) => record.at)).toEqual([1, 2]);
  });

  test('gives a purge once that was taken without a reply, and was carried over', async () => {
    const { lines, shared } = sharedLines();
    const one = gateway(lines, 'one');
    shared.swallowing = true;
    await one.add(purge(1));
    expect(times((await one.latest(9)).purges)).toEqual([1]);
    shared.swallowing = false;
    await one.add(purge(2));
    expect(shared.kept).toHaveLength(3);
    expect(times((await one.latest(9)).purges)).toEqual([2, 1]);
  });

  test('keeps a thousand waiting, and forgets the oldest', async () => {
    const { lines, shared } = sharedLines();
    const one = gateway(lines, 'one');
    shared.reachable = false;
    for (let at = 1; at <= 1_001; at += 1) await one.add(purge(at));
    expect([one.pending().length, one.pending()[0]?.record.at]).toEqual([1_000, 2]);
    one.close();
  });

  test('hands over what was not taken to the log that takes its place', async () => {
    const { lines, shared } = sharedLines();
    const [before, after] = [gateway(lines, 'before'), gateway(lines, 'after')];
    shared.reachable = false;
    await before.add(purge(1));
    shared.reachable = true;
    after.carry(before.pending());
    before.close();
    await quiet();
    expect(shared.kept.map(({ record }) => record.at)).toEqual([1]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('tries nothing after it was closed', async () => {
    const { lines, shared } = sharedLines();
    const one = gateway(lines, 'one');
    shared.reachable = false;
    await one.add(purge(1));
    one.close();
    expect(jest.getTimerCount()).toBe(0);
  });
});
