import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { SessionRecord } from '../../../src/freshness/freshness-store.ts';
import { createMemoryStore } from '../../../src/freshness/memory-store.ts';
import { sessionCalls, sessionRecord } from '../../support/session-calls.ts';
import { sessionStoreContract } from '../../support/session-store-contract.ts';
import { handClock } from '../cache/fakes.ts';

const LIFE = 24 * 3_600_000;

function alone(clock = handClock()) {
  return createMemoryStore({ newToken: randomUUID, clock });
}

describe('tokens in the memory of a gateway that is alone', () => {
  test('stay as they are until they are renewed', async () => {
    const store = alone();
    const scopes = ['everything', 'unassigned', 'project:a'] as const;
    const first = await store.read(scopes);
    expect(new Set(first.tokens).size).toBe(3);
    expect(await store.read(scopes)).toEqual(first);
    await store.renew(['project:a', 'unassigned']);
    const second = await store.read(scopes);
    expect(second.tokens[0]).toBe(first.tokens[0]);
    expect(second.tokens[1]).not.toBe(first.tokens[1]);
    expect(second.tokens[2]).not.toBe(first.tokens[2]);
  });

  test('let a purge be answered at once, since no other gateway uses them', async () => {
    expect(await alone().renew(['everything'])).toMatchObject({ lease: 0, others: 0 });
  });

  test('tell a renewal whether a project was asked for; a renewal alone makes no project known', async () => {
    const store = alone();
    const known = async () => (await store.renew(['project:a', 'unassigned'])).known;
    expect([await known(), await known()]).toEqual([false, false]);
    await store.read(['everything', 'project:a']);
    expect([await known(), await known()]).toEqual([true, true]);
  });

  test('of forgotten projects are new ones, never earlier ones', async () => {
    const store = alone();
    const [before] = (await store.read(['project:a'])).tokens;
    for (let i = 0; i < 100_000; i += 1) await store.read([`project:other ${i}`]);
    expect((await store.read(['project:a'])).tokens[0]).not.toBe(before);
  });
});

sessionStoreContract(async () => {
  const store = alone();
  return { store: sessionCalls(store), close: async () => {} };
});

describe('a session in memory', () => {
  const found = async (store: ReturnType<typeof sessionCalls>, name: string) =>
    (await store.read(name)).record;

  test('lives on with every read, and is dropped when it was not asked for so long', async () => {
    const clock = handClock();
    const store = sessionCalls(alone(clock));
    const record = sessionRecord();
    await store.begin('asked for', record);
    await store.begin('forgotten', record);
    clock.advance(LIFE - 1);
    expect(await found(store, 'asked for')).toEqual(record);
    clock.advance(1);
    expect(await found(store, 'forgotten')).toBeUndefined();
    clock.advance(LIFE - 2);
    expect(await found(store, 'asked for')).toEqual(record);
    clock.advance(LIFE);
    expect((await store.markDirty('asked for', 'next')).record).toBeUndefined();
  });

  test('does not live on when it is only looked at', async () => {
    const clock = handClock();
    const store = alone(clock);
    await sessionCalls(store).begin('name', sessionRecord());
    clock.advance(LIFE - 1);
    expect((await store.session('name', { do: 'peek' })).record).toBeDefined();
    clock.advance(1);
    expect((await store.session('name', { do: 'peek' })).record).toBeUndefined();
  });

  test('is forgotten when a hundred thousand others were asked for since', async () => {
    const store = sessionCalls(alone());
    const record = sessionRecord();
    const others: readonly SessionRecord[] = Array.from({ length: 8 }, (_none, i) => ({
      ...record,
      principal: `user ${i}`,
    }));
    await store.begin('first', record);
    await store.begin('second', record);
    for (let i = 2; i < 100_000; i += 1) await store.begin(`other ${i}`, others[i % 8] ?? record);
    await store.read('first');
    await store.begin('one more', record);
    expect(await found(store, 'first')).toEqual(record);
    expect(await found(store, 'second')).toBeUndefined();
  });
});

test('a user who begins and ends ever new sessions takes none from others, however the name is spelt', async () => {
  const store = alone();
  const begin = (name: string, principal: string) => {
    void store.session(name, { do: 'claim', token: name });
    const data = { ...sessionRecord(), principal };
    void store.session(name, { do: 'put', token: name, data, dirty: false });
  };
  begin('alices', 'alice');
  const spellings = ['mallory', 'Mallory', 'MALLORY', 'mallorY', 'iso-8859-1:mallory'];
  // More than the table holds. Each call does what it does before it returns.
  for (let i = 0; i <= 100_000; i += 1) {
    const name = `session ${i}`;
    begin(name, spellings[i % spellings.length] ?? '');
    void store.session(name, { do: 'end' });
  }
  const { record } = await store.session('alices', { do: 'peek' });
  expect(record?.principal).toBe('alice');
});
