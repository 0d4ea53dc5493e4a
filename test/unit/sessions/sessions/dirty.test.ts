import { describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { createMemoryStore } from '../../../../src/freshness/memory-store.ts';
import { sessionName } from '../../../../src/sessions/digests.ts';
import { handClock, quiet } from '../../cache/fakes.ts';
import { BEGUN, ending, find, known, LEASE, NAME, OTHER, replica, word } from '../replica.ts';

const STORED = sessionName(NAME);

async function begun(others = 0) {
  const one = replica();
  await one.sessions.begin(NAME, BEGUN);
  one.store.others = others;
  return { ...one, record: await known(one.sessions) };
}

const count = (asked: readonly string[], method: string) =>
  asked.filter((one) => one === method).length;

describe('a session that is made dirty', () => {
  test('is dirty here in the same turn, and for others before it resolves', async () => {
    const { sessions, store, shared } = await begun();
    store.prompt = false;
    const made = sessions.dirty([NAME]);
    const state = ending(made);
    expect(await find(sessions)).toBe('dirty');
    await quiet();
    expect(state.over).toBe(false);
    await store.call('renew').reply();
    expect(await made).toBe(true);
    expect((await shared.read(STORED)).record?.dirty).toBe(true);
  });

  test('waits for nobody when nobody else has read it, and out the lease of whoever has', async () => {
    const alone = await begun();
    expect(await alone.sessions.dirty([NAME])).toBe(true);
    expect(alone.sleepers).toEqual([]);

    const { sessions, sleepers } = await begun(2_000);
    const made = sessions.dirty([NAME]);
    const state = ending(made);
    await quiet();
    expect(sleepers.map(({ milliseconds }) => milliseconds)).toEqual([2_200]);
    expect(state.over).toBe(false);
    sleepers[0]?.wake();
    expect(await made).toBe(true);
  });

  test('is not clean by a read that was sent before and answered after', async () => {
    const { sessions, store, clock } = await begun();
    clock.advance(LEASE);
    store.prompt = false;
    const found = sessions.find(NAME);
    const read = store.call('read');
    await read.execute();
    const made = sessions.dirty([NAME]);
    await quiet();
    await store.call('renew').reply();
    expect(await made).toBe(true);
    const later = sessions.find(NAME);
    await read.reply();
    await quiet();
    for (const call of [...store.calls]) await call.reply();
    expect(word(await found)).toBe('dirty');
    expect(word(await later)).toBe('dirty');
    expect(await find(sessions)).toBe('dirty');
  });

  test('is not confirmed, whatever the store said to a question of before', async () => {
    const { sessions, store, record } = await begun();
    expect(await sessions.confirm(NAME, record)).toBe(true);
    store.prompt = false;
    const confirmed = sessions.confirm(NAME, record);
    const read = store.call('read');
    await read.execute();
    const made = sessions.dirty([NAME]);
    await read.reply();
    await quiet();
    store.prompt = true;
    for (const call of [...store.calls]) await call.reply();
    expect(await confirmed).toBe(false);
    await made;
    expect(await sessions.confirm(NAME, record)).toBe(false);
  });

  test('is not confirmed when others made it dirty, although it is remembered as clean', async () => {
    const { sessions, shared, record } = await begun();
    await shared.markDirty(STORED, 'next');
    expect(await find(sessions)).toBe('clean');
    expect(await sessions.confirm(NAME, record)).toBe(false);
    expect(await find(sessions)).toBe('dirty');
  });

  test('is not confirmed when it is another one by now, or the store is away', async () => {
    const { sessions, store, shared, record } = await begun();
    store.away = true;
    expect(await sessions.confirm(NAME, record)).toBe(false);
    store.away = false;
    await shared.begin(STORED, { ...record, version: 'another' });
    expect(await sessions.confirm(NAME, record)).toBe(false);
    expect(await sessions.confirm(NAME, { ...record, version: 'another', dirty: true })).toBe(
      false,
    );
  });

  test('stays dirty here for as long as it is remembered, also while the store is away', async () => {
    const { sessions, store, clock } = await begun();
    await sessions.dirty([NAME]);
    clock.advance(100 * LEASE);
    expect(await find(sessions)).toBe('dirty');
    store.away = true;
    clock.advance(100 * LEASE);
    expect(await find(sessions)).toBe('dirty');
  });

  test('needs nothing more from the store when it is dirty for all', async () => {
    const { sessions, store, clock } = await begun();
    await sessions.dirty([NAME]);
    clock.advance(LEASE);
    store.others = LEASE;
    expect(await sessions.dirty([NAME])).toBe(true);
    store.away = true;
    clock.advance(LEASE);
    expect(await sessions.dirty([NAME, NAME])).toBe(true);
    expect(count(store.asked, 'renew')).toBe(1);
  });

  test('is dirty for all only when the first who made it so has waited, for the second too', async () => {
    const { sessions, sleepers } = await begun(LEASE);
    const first = sessions.dirty([NAME]);
    const second = sessions.dirty([NAME]);
    const state = ending(second);
    await quiet();
    expect(sleepers).toHaveLength(2);
    sleepers[0]?.wake();
    await first;
    await quiet();
    expect(state.over).toBe(false);
    sleepers[1]?.wake();
    expect(await second).toBe(true);
  });

  test('by another gateway, which may wait still, is not taken for dirty for all', async () => {
    const { sessions, shared, store, clock, sleepers } = await begun(LEASE);
    await shared.markDirty(STORED, 'next');
    clock.advance(LEASE);
    expect(await find(sessions)).toBe('dirty');
    const made = sessions.dirty([NAME]);
    const state = ending(made);
    await quiet();
    expect([count(store.asked, 'renew'), state.over]).toEqual([1, false]);
    sleepers[0]?.wake();
    expect(await made).toBe(true);
  });

  test('is made so again when another one of its name was begun elsewhere', async () => {
    const { sessions, shared, store, clock, record } = await begun();
    await sessions.dirty([NAME]);
    await shared.end(STORED);
    await shared.begin(STORED, record);
    clock.advance(LEASE);
    expect(await sessions.dirty([NAME])).toBe(true);
    expect(count(store.asked, 'renew')).toBe(2);
    expect((await shared.read(STORED)).record?.dirty).toBe(true);
  });

  test('by another gateway stays dirty here while the store is away', async () => {
    const { sessions, shared, store, clock } = await begun();
    await shared.markDirty(STORED, 'next');
    clock.advance(LEASE);
    expect(await find(sessions)).toBe('dirty');
    clock.advance(LEASE);
    store.away = true;
    expect(await find(sessions)).toBe('dirty');
  });

  test('and ended while others may use what was leaves the next one of its name clean', async () => {
    const { sessions, sleepers, shared } = await begun(LEASE);
    const made = sessions.dirty([NAME]);
    await quiet();
    await sessions.end(NAME);
    const next = sessions.begin(NAME, BEGUN);
    const state = ending(next);
    await quiet();
    sleepers[0]?.wake();
    expect(await made).toBe(true);
    await quiet();
    expect([state.over, sleepers[1]?.milliseconds]).toEqual([false, LEASE * 1.1]);
    sleepers[1]?.wake();
    expect(await next).toBe(true);
    expect(await find(sessions)).toBe('clean');
    const again = sessions.dirty([NAME]);
    await quiet();
    sleepers[2]?.wake();
    expect(await again).toBe(true);
    expect((await shared.read(STORED)).record?.dirty).toBe(true);
  });

  test('may be begun anew after its end', async () => {
    const { sessions } = await begun();
    await sessions.dirty([NAME]);
    await sessions.begin(NAME, BEGUN);
    expect(await find(sessions)).toBe('dirty');
    await sessions.end(NAME);
    await sessions.begin(NAME, BEGUN);
    expect(await find(sessions)).toBe('clean');
  });

  test('is tried three times; then it is dirty here only, and the statement must not be sent', async () => {
    const { sessions, store, sleepers, errors, shared } = await begun();
    store.away = true;
    const made = sessions.dirty([NAME]);
    for (let tries = 0; tries < 2; tries += 1) {
      await quiet();
      sleepers[tries]?.wake();
    }
    expect(await made).toBe(false);
    expect([count(store.asked, 'renew'), errors.length]).toEqual([3, 3]);
    store.away = false;
    expect((await shared.read(STORED)).record?.dirty).toBe(false);
    expect(await find(sessions)).toBe('dirty');
    expect(await sessions.dirty([NAME])).toBe(true);
    expect((await shared.read(STORED)).record?.dirty).toBe(true);
  });

  test('is dirty for all when a later try is confirmed', async () => {
    const { sessions, store, sleepers } = await begun();
    store.away = true;
    const made = sessions.dirty([NAME]);
    await quiet();
    store.away = false;
    sleepers[0]?.wake();
    expect(await made).toBe(true);
  });

  test('beside one that cannot be made dirty does not let the statement pass', async () => {
    const { sessions, store, sleepers } = await begun();
    store.prompt = false;
    const made = sessions.dirty([NAME, OTHER]);
    await quiet();
    store.calls[1]?.fail();
    await store.calls[0]?.reply();
    store.away = true;
    for (let tries = 0; tries < 2; tries += 1) {
      await quiet();
      sleepers[tries]?.wake();
    }
    expect(await made).toBe(false);
  });

  test('may be one that nobody knows, or none at all', async () => {
    const { sessions } = replica();
    expect(await sessions.dirty([NAME])).toBe(true);
    expect(await sessions.dirty([])).toBe(true);
    expect(await find(sessions)).toBe('unknown');
  });
});

describe('making all sessions dirty', () => {
  test('makes those of before dirty and later ones not, when no gateway uses what was', async () => {
    const { sessions, store, sleepers } = await begun();
    await sessions.begin(OTHER, BEGUN);
    store.others = LEASE;
    const made = sessions.dirtyAll();
    const state = ending(made);
    await quiet();
    expect([state.over, sleepers[0]?.milliseconds]).toEqual([false, LEASE * 1.1]);
    sleepers[0]?.wake();
    expect(await made).toBe(true);
    expect([await find(sessions), await find(sessions, OTHER)]).toEqual(['dirty', 'dirty']);
    store.others = 0;
    await sessions.begin({ endpoint: 'engine', id: 'later' }, BEGUN);
    expect(await find(sessions, { endpoint: 'engine', id: 'later' })).toBe('clean');
    expect(count(store.asked, 'renew')).toBe(0);
  });

  test('leaves nothing clean that was read before the store did it', async () => {
    const { sessions, store, clock } = await begun();
    clock.advance(LEASE);
    store.prompt = false;
    const late = sessions.find(NAME);
    const read = store.call('read');
    await read.execute();
    const made = sessions.dirtyAll();
    await store.call('renew sessions').reply();
    expect(await made).toBe(true);
    store.prompt = true;
    expect(await find(sessions)).toBe('dirty');
    await read.reply();
    expect(word(await late)).toBe('dirty');
    expect(await find(sessions)).toBe('dirty');
  });

  test('leaves nothing clean that is being begun', async () => {
    const { sessions, store } = replica();
    store.prompt = false;
    const started = sessions.begin(NAME, BEGUN);
    await quiet();
    const begin = store.call('put');
    await begin.execute();
    const made = sessions.dirtyAll();
    await store.call('renew sessions').reply();
    expect(await made).toBe(true);
    await begin.reply();
    await started;
    store.prompt = true;
    expect(await find(sessions)).toBe('dirty');
  });

  test('is not done when the store does not confirm it', async () => {
    const { sessions, store, sleepers } = await begun();
    store.away = true;
    const made = sessions.dirtyAll();
    for (let tries = 0; tries < 2; tries += 1) {
      await quiet();
      sleepers[tries]?.wake();
    }
    expect(await made).toBe(false);
    expect(count(store.asked, 'renew sessions')).toBe(3);
    expect(await find(sessions)).toBe('unavailable');
  });
});

test('a session of a name whose change no store heard of is dirty for all from its beginning', async () => {
  const clock = handClock();
  const behind = createMemoryStore({ clock, newToken: randomUUID });
  const one = replica({ behind, clock });
  const other = replica({ behind, clock });
  one.store.away = true;
  const made = one.sessions.dirty([NAME]);
  for (let tries = 0; tries < 2; tries += 1) {
    await quiet();
    one.sleepers[tries]?.wake();
  }
  expect(await made).toBe(false);
  one.store.away = false;
  expect(await one.sessions.begin(NAME, BEGUN)).toBe(true);
  expect(await find(other.sessions)).toBe('dirty');
});
