import { describe, expect, test } from '@jest/globals';
import { createMemorySessionStore } from '../../../src/sessions/memory-session-store.ts';
import { sessionRecord, sessionStoreContract } from '../../support/session-store-contract.ts';
import { handClock } from '../query-cache/fakes.ts';

const LIFE = 1_000;

sessionStoreContract(async () => {
  const store = createMemorySessionStore({ clock: handClock(), life: LIFE });
  return { store, close: () => store.close() };
});

describe('a session in memory', () => {
  test('lives on with every read, and is dropped when nobody asked for it so long', async () => {
    const clock = handClock();
    const store = createMemorySessionStore({ clock, life: LIFE });
    const record = sessionRecord();
    await store.begin('asked for', record);
    await store.begin('forgotten', record);
    clock.advance(LIFE - 1);
    expect((await store.read('asked for')).record).toEqual(record);
    clock.advance(1);
    expect((await store.read('forgotten')).record).toBeUndefined();
    clock.advance(LIFE - 2);
    expect((await store.read('asked for')).record).toEqual(record);
    clock.advance(LIFE);
    expect((await store.markDirty('asked for', 'next')).record).toBeUndefined();
  });

  test('is forgotten when a hundred thousand others were asked for since', async () => {
    const store = createMemorySessionStore({ clock: handClock(), life: LIFE });
    const record = sessionRecord();
    const others = Array.from({ length: 8 }, (_none, i) => ({ ...record, principal: `user ${i}` }));
    await store.begin('first', record);
    await store.begin('second', record);
    for (let i = 2; i < 100_000; i += 1) await store.begin(`other ${i}`, others[i % 8] ?? record);
    await store.read('first');
    await store.begin('one more', record);
    expect((await store.read('first')).record).toEqual(record);
    expect((await store.read('second')).record).toBeUndefined();
  });
});
