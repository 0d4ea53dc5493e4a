import { describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { createMemoryStore } from '../../../src/freshness/memory-store.ts';
import { createOwnedTable } from '../../../src/common/owned-table.ts';
import { sessionName } from '../../../src/sessions/digests.ts';
import { sessionCalls, sessionRecord } from '../../support/session-calls.ts';
import { sampled } from '../../support/sizes.ts';
import { workerHouse } from '../../support/worker-house.ts';
import { handClock, quiet } from '../cache/fakes.ts';
import { BEGUN, find, NAME, replica } from '../sessions/replica.ts';

function tableOf(max: number) {
  const table = createOwnedTable<{ readonly text: string }>(max);
  return {
    add: (name: string, owner: string) => table.set(name, owner, { text: name }),
    has: (...names: string[]) => names.filter((name) => table.get(name) !== undefined).join(' '),
    remove: table.delete,
  };
}

describe('a table that is bounded in total and by owner', () => {
  test("drops an owner's own, least recently used first, beyond a quarter", () => {
    const { add, has } = tableOf(12);
    add('b', 'bob');
    for (const name of ['a1', 'a2', 'a3']) add(name, 'alice');
    expect(has('a1')).toBe('a1');
    for (const name of ['a4', 'a5']) add(name, 'alice');
    expect(has('b', 'a1', 'a2', 'a3', 'a4', 'a5')).toBe('b a1 a4 a5');
  });

  test('drops the least recently used of all when it is full', () => {
    const { add, has } = tableOf(4);
    for (const owner of ['a', 'b', 'c', 'd']) add(owner, owner);
    expect(has('a')).toBe('a');
    add('e', 'e');
    expect(has('a', 'b', 'c', 'd', 'e')).toBe('a c d e');
  });

  test('counts a name for its last owner alone, and what is deleted for none', () => {
    const { add, has, remove } = tableOf(8);
    for (const name of ['1', '2']) add(name, 'alice');
    add('1', 'bob');
    add('3', 'alice');
    expect(has('1', '2', '3')).toBe('1 2 3');
    remove('2');
    add('4', 'alice');
    expect(has('1', '2', '3', '4')).toBe('1 3 4');
    add('4', 'alice');
    expect(has('3', '4')).toBe('3 4');
  });
});

describe('a table of bytes', () => {
  const sizeOf = (_name: string, text: string) => text.length;

  test('counts them in total and by owner', () => {
    const table = createOwnedTable<string>(40, sizeOf);
    for (const owner of ['a', 'b', 'c', 'd']) table.set(owner, owner, '1234567890');
    table.set('a2', 'a', '1');
    const left = () => ['a', 'a2', 'b', 'c', 'd'].filter((name) => table.get(name) !== undefined);
    expect(left()).toEqual(['a2', 'b', 'c', 'd']);
    table.set('b', 'b', '12345678901');
    expect(left()).toEqual(['a2', 'c', 'd']);
    table.set('e', 'e', '1234567890');
    table.set('f', 'f', '1234567890');
    expect([...left(), table.get('e') !== undefined]).toEqual(['c', 'd', true]);
  });
});

/** One more than a user may have. */
const TOO_MANY = 25_001;
const HOUR = 3_600_000;

/** Begins so many sessions of one user, in their order. */
async function beginMany(begin: (id: string) => Promise<unknown>, many = TOO_MANY) {
  for (let from = 0; from < many; from += 500) {
    const ids = Array.from({ length: Math.min(500, many - from) }, (_, at) => `${from + at}`);
    await Promise.all(ids.map(begin));
  }
}

const STORES = [
  [
    'in the memory of a gateway',
    () => {
      const clock = handClock();
      return sessionCalls(createMemoryStore({ clock, newToken: randomUUID }));
    },
  ],
  // Which keeps them in the same way, behind links that take their time.
  ['in the primary process', () => workerHouse().join().sessions],
] as const;

test.each(sampled(STORES))("no user's sessions end another's: %s", async (_where, storeOf) => {
  const store = storeOf();
  await store.begin('bob', sessionRecord({ principal: 'bob' }));
  const record = sessionRecord({ principal: 'alice' });
  await beginMany((id) => store.begin(id, record));
  expect((await store.read('bob')).record).toMatchObject({ principal: 'bob', dirty: false });
  expect((await store.read('1')).record).toEqual(record);
  expect((await store.read('0')).record).toBeUndefined();
});

test("no user's sessions end another's: a gateway still finds it, clean and without asking anew", async () => {
  const { sessions, store } = replica({ lease: HOUR });
  const nameOf = (id: string) => ({ endpoint: 'engine', id });
  await sessions.begin(nameOf('bob'), { ...BEGUN, principal: 'bob' });
  await beginMany((id) => sessions.begin(nameOf(id), BEGUN));
  store.away = true;
  expect(await find(sessions, nameOf('bob'))).toBe('clean');
  expect(await find(sessions, nameOf('1'))).toBe('clean');
  expect(await find(sessions, nameOf('0'))).toBe('unavailable');
});

test('a session that is being made dirty stays so, also when its mark here gave way to others of its user', async () => {
  const { sessions, store, shared } = replica({ lease: HOUR });
  await sessions.begin(NAME, BEGUN);
  store.prompt = false;
  const made = sessions.dirty([NAME]);
  await quiet();
  const change = store.call('renew');
  store.prompt = true;
  const begin = (id: string) => sessions.begin({ endpoint: 'engine', id }, BEGUN);
  await beginMany(begin, 10_000);
  await shared.read(sessionName(NAME));
  await beginMany((id) => begin(`later ${id}`), 15_000);
  await change.reply();
  expect(await made).toBe(true);
  expect(await find(sessions)).toBe('dirty');
});
