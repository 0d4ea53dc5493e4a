import { afterEach, describe, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { encodeEntry } from '../../../../src/cache/shared-entries.ts';
import { createSweep, type SweepStore } from '../../../../src/cache/purge/sweep.ts';
import type { FleetStore } from '../../../../src/freshness/fleet.ts';
import { NO_SEALER } from '../../../../src/common/sealing.ts';
import { checkpoint, handClock, quiet, storedAnswer } from '../fakes.ts';
import { PLAIN } from '../shared-entries/older-entries.ts';

const BATCH = 3;

interface HandStore extends SweepStore, Pick<FleetStore, 'hold' | 'leave'> {
  readonly entries: Map<string, Buffer>;
  readonly tokensInForce: Set<string>;
  /** What was asked of it, in order. */
  readonly asked: string[];
  sweeper: 'here' | 'elsewhere' | undefined;
  /** Held here before each batch is handed on. */
  beforeBatch: () => Promise<void>;
}

function handStore(): HandStore {
  const asked: string[] = [];
  const entries = new Map<string, Buffer>();
  const tokensInForce = new Set(['everything', 'Sales', 'HR']);
  const inBatches = function* <T>(all: readonly T[]) {
    for (let at = 0; at < all.length; at += BATCH) yield all.slice(at, at + BATCH);
  };
  return {
    asked,
    entries,
    tokensInForce,
    sweeper: undefined,
    beforeBatch: async () => {},
    async hold() {
      if (this.sweeper === undefined) asked.push('take');
      this.sweeper ??= 'here';
      return this.sweeper === 'here';
    },
    async leave() {
      asked.push('leave');
      if (this.sweeper === 'here') this.sweeper = undefined;
    },
    async *tokens() {
      asked.push('tokens');
      yield* inBatches([...tokensInForce]);
    },
    async *heads(bytes) {
      asked.push('heads');
      for (const batch of inBatches([...entries])) {
        await this.beforeBatch();
        yield batch.map(([name, value]) => ({ name, head: value.subarray(0, bytes) }));
      }
    },
    async drop(names) {
      asked.push(`drop ${names.length}`);
      return names.filter((name) => entries.delete(name)).length;
    },
  };
}

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

function house(sleep = async (_milliseconds: number) => {}) {
  const store = handStore();
  const clock = handClock();
  const events: GatewayEvent[] = [];
  const sweep = createSweep({
    ...{ store, fleet: store, clock, sleep },
    emit: (event) => events.push(event),
  });
  open.push(sweep);
  /** An entry that was filled under these epochs, so long ago (ms). */
  async function add(name: string, tokens: readonly string[], ago = 1_000) {
    const answer = storedAnswer({ requestedAt: clock.wall() - ago });
    const key = randomBytes(32).toString('base64url');
    store.entries.set(name, await encodeEntry(key, answer, tokens, NO_SEALER));
  }
  const left = () => [...store.entries.keys()];
  return { store, clock, events, sweep, add, left };
}

describe('a sweep', () => {
  test('drops the entries of purged epochs, and leaves the others', async () => {
    const { store, events, sweep, add, left } = house();
    for (let i = 0; i < 10; i += 1) {
      await add(`old ${i}`, ['everything', i % 2 === 0 ? 'Sales of before' : 'Sales']);
      await add(`of two ${i}`, ['everything', 'HR', 'Sales']);
    }
    await add('all of before', ['everything of before', 'Sales']);
    sweep.request();
    await quiet();
    const [odd, all] = [
      [1, 3, 5, 7, 9],
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ];
    const stays = [...odd.map((i) => `old ${i}`), ...all.map((i) => `of two ${i}`)];
    expect(left().sort()).toEqual(stays.sort());
    expect(events).toEqual([{ type: 'swept', scanned: 21, unlinked: 6 }]);
    expect(store.sweeper).toBeUndefined();
  });

  test('leaves what began since it did: its epochs may be newer than those that were read', async () => {
    const { sweep, add, left } = house();
    await add('of now', ['a new one'], 0);
    await add('of a clock that runs ahead', ['a new one'], -5_000);
    await add('of before', ['an old one'], 1);
    sweep.request();
    await quiet();
    expect(left()).toEqual(['of now', 'of a clock that runs ahead']);
  });

  test('leaves what is of another layout, or nothing that it knows', async () => {
    const { store, sweep, left } = house();
    store.entries.set('older', Buffer.from(PLAIN, 'base64'));
    store.entries.set('foreign', Buffer.from('foreign'));
    store.entries.set('empty', Buffer.of());
    store.entries.set('noise', randomBytes(1_000));
    sweep.request();
    await quiet();
    expect(left()).toHaveLength(4);
  });

  test('rests between its batches', async () => {
    const pauses: number[] = [];
    const { sweep, add } = house(async (milliseconds) => void pauses.push(milliseconds));
    for (let i = 0; i < 9; i += 1) await add(`entry ${i}`, ['of before']);
    sweep.request();
    await quiet();
    // One batch of tokens, three of entries.
    expect(pauses).toEqual([20, 20, 20, 20]);
  });

  test('asked for while one is under way follows it once, however often it is asked for', async () => {
    const { store, events, sweep, add } = house();
    await add('entry', ['of before']);
    const held = checkpoint();
    store.beforeBatch = held.arrive;
    sweep.request();
    await held.arrived;
    for (let i = 0; i < 5; i += 1) sweep.request();
    await quiet();
    expect(store.asked).toEqual(['take', 'tokens', 'heads']);
    held.release();
    await quiet();
    const once = ['take', 'tokens', 'heads', 'drop 1', 'leave'];
    expect(store.asked).toEqual([...once, 'take', 'tokens', 'heads', 'leave']);
    expect(events).toHaveLength(2);
  });

  test('of an epoch that was purged meanwhile is made up for by the next one', async () => {
    const { store, sweep, add, left } = house();
    await add('of Sales', ['everything', 'Sales']);
    const held = checkpoint();
    store.beforeBatch = held.arrive;
    sweep.request();
    await held.arrived;
    store.tokensInForce.delete('Sales');
    sweep.request();
    held.release();
    await quiet();
    expect(left()).toEqual([]);
  });

  test('waits while another gateway sweeps', async () => {
    const held = checkpoint();
    const { store, sweep, add, left } = house(held.arrive);
    await add('entry', ['of before']);
    store.sweeper = 'elsewhere';
    sweep.request();
    await held.arrived;
    expect(left()).toEqual(['entry']);
    store.sweeper = undefined;
    held.release();
    await quiet();
    expect(left()).toEqual([]);
  });

  test('gives up when another gateway never ends', async () => {
    const { store, sweep, events } = house();
    store.sweeper = 'elsewhere';
    sweep.request();
    await sweep.close();
    expect(events).toEqual([]);
    expect(store.asked).not.toContain('tokens');
  });

  test('ends when another gateway has taken the task', async () => {
    const { store, sweep, add, left } = house();
    for (let i = 0; i < 9; i += 1) await add(`entry ${i}`, ['of before']);
    store.beforeBatch = async () => void (store.sweeper = 'elsewhere');
    sweep.request();
    await quiet();
    expect(left()).toHaveLength(6);
  });

  test('drops nothing when it could not read all epochs', async () => {
    const { store, sweep, add, left, events } = house();
    await add('entry', ['a token that was not read']);
    const { tokens } = store;
    store.tokens = async function* () {
      yield* tokens.call(store);
      throw new Error('Command timed out');
    };
    sweep.request();
    await quiet();
    expect(left()).toEqual(['entry']);
    expect(events).toMatchObject([{ type: 'redis-failed', operation: 'sweep' }]);
    expect(store.sweeper).toBeUndefined();
  });

  test('that failed does not keep the next one from beginning', async () => {
    const { store, sweep, add, left, events } = house();
    await add('entry', ['of before']);
    const { hold } = store;
    store.hold = () => Promise.reject(new Error('Redis is away'));
    sweep.request();
    await quiet();
    expect(events).toMatchObject([{ type: 'redis-failed', operation: 'sweep' }]);
    store.hold = hold;
    sweep.request();
    await quiet();
    expect(left()).toEqual([]);
  });

  test('that fails forgets nothing that was asked for meanwhile: one more follows it', async () => {
    const { store, sweep, add, left, events } = house();
    await add('of Sales', ['everything', 'Sales']);
    const held = checkpoint();
    store.beforeBatch = async () => {
      store.beforeBatch = async () => {};
      await held.arrive();
      throw new Error('Command timed out');
    };
    sweep.request();
    await held.arrived;
    store.tokensInForce.delete('Sales');
    for (let i = 0; i < 5; i += 1) sweep.request();
    held.release();
    await quiet();
    expect(left()).toEqual([]);
    expect(events).toMatchObject([
      { type: 'redis-failed', operation: 'sweep' },
      { type: 'swept', unlinked: 1 },
    ]);
    expect(store.asked.filter((one) => one === 'take')).toHaveLength(2);
    expect(store.sweeper).toBeUndefined();
  });

  test('that fails for want of its task is tried once more for who asked meanwhile, and no more', async () => {
    const { store, sweep, events } = house();
    const held = checkpoint();
    let tries = 0;
    store.hold = async () => {
      tries += 1;
      if (tries === 1) await held.arrive();
      throw new Error('Redis is away');
    };
    sweep.request();
    await held.arrived;
    for (let i = 0; i < 5; i += 1) sweep.request();
    held.release();
    await quiet();
    expect(tries).toBe(2);
    expect(events).toMatchObject([{ type: 'redis-failed' }, { type: 'redis-failed' }]);
  });

  test('ends within its batch when it is closed, also while it rests, and begins no more', async () => {
    const held = checkpoint();
    const { store, sweep, add, left } = house(held.arrive);
    for (let i = 0; i < 9; i += 1) await add(`entry ${i}`, ['of before']);
    sweep.request();
    await held.arrived;
    await sweep.close();
    expect(left()).toHaveLength(9);
    expect(store.sweeper).toBeUndefined();
    sweep.request();
    await quiet();
    expect(store.asked.filter((one) => one === 'take')).toHaveLength(1);
  });

  test('ends when it has taken too long', async () => {
    const { store, clock, sweep, add, left } = house();
    for (let i = 0; i < 9; i += 1) await add(`entry ${i}`, ['of before']);
    store.beforeBatch = async () => clock.advance(10 * 60_000);
    sweep.request();
    await quiet();
    expect(left()).toHaveLength(3);
  });
});
