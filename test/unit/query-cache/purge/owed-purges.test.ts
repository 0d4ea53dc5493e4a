import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createEpochs, MAX_OWED } from '../../../../src/query-cache/purge/epochs.ts';
import { handStore, reading } from './fake-epoch-stores.ts';
import { handClock, quiet } from '../fakes.ts';

const A = ['everything', 'project:a'] as const;
const B = ['everything', 'project:b'] as const;

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate'] });
});
afterEach(() => {
  jest.useRealTimers();
});

function setUp() {
  const store = handStore();
  const errors: unknown[] = [];
  const clock = handClock();
  const epochs = createEpochs({ store, clock, lease: 1_000, onError: (e) => errors.push(e) });
  const answerRead = async (token: string) => {
    const read = store.reads[0];
    if (read === undefined) throw new Error('nothing is read');
    read.answer(reading(read.scopes, token));
    await quiet();
  };
  return { store, epochs, errors, answerRead };
}

/** Lets the pause before the next try pass. */
async function nextTry(): Promise<void> {
  jest.runOnlyPendingTimers();
  await quiet();
}

describe('an owed purge', () => {
  test('leaves this replica without any epoch, also those of other projects', async () => {
    const { epochs, answerRead } = setUp();
    void epochs.obtain(A);
    await answerRead('one');
    void epochs.obtain(B);
    await answerRead('one');
    const captured = epochs.held(B);
    void epochs.owe(['project:a'], 'id');
    expect(epochs.owed()).toEqual(['project:a']);
    expect(epochs.held(A)).toBeUndefined();
    expect(epochs.held(B)).toBeUndefined();
    expect(captured && epochs.areCurrent(captured)).toBe(false);
  });

  test('is done in the background, without any request, and the others are told', async () => {
    const { epochs, store } = setUp();
    void epochs.owe(['project:a', 'unassigned'], 'id');
    await nextTry();
    expect(store.renewals.map(({ scopes }) => scopes)).toEqual([['project:a', 'unassigned']]);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
    expect(store.announced).toEqual([{ purge: 'id', scopes: ['project:a', 'unassigned'] }]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('is tried again until it is done', async () => {
    const { epochs, store, errors } = setUp();
    void epochs.owe(['project:a'], 'id');
    for (let tries = 1; tries <= 3; tries += 1) {
      await nextTry();
      store.renewals[0]?.fail();
      await quiet();
      expect(errors).toHaveLength(tries);
      expect(epochs.owed()).toEqual(['project:a']);
    }
    await nextTry();
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
  });

  test('is done before any epoch is read', async () => {
    const { epochs, store } = setUp();
    void epochs.owe(['project:a'], 'id');
    const refused = epochs.obtain(B);
    await quiet();
    expect(store.reads).toHaveLength(0);
    await nextTry();
    expect(store.reads).toHaveLength(0);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(await refused).toBeUndefined();
    void epochs.obtain(B);
    await quiet();
    expect(store.reads).toHaveLength(1);
  });

  test('lets no request wait for a store that does not answer', async () => {
    const { epochs } = setUp();
    void epochs.owe(['project:a'], 'id');
    await nextTry();
    // The renewal is under way and is never answered.
    expect(await epochs.obtain(B)).toBeUndefined();
  });

  test('makes the reply to a question of before worthless', async () => {
    const { epochs, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    void epochs.owe(['project:a'], 'id');
    await answerRead('before');
    expect(await obtained).toBeUndefined();
    expect(epochs.held(A)).toBeUndefined();
  });

  test('that came while an older one of the same scope was being settled stays owed', async () => {
    const { epochs, store } = setUp();
    void epochs.owe(['project:a', 'project:b'], 'id');
    await nextTry();
    void epochs.owe(['project:a'], 'id');
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual(['project:a']);
    await nextTry();
    expect(store.renewals.map(({ scopes }) => scopes)).toEqual([['project:a']]);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
  });

  test('makes worthless what was asked while it was being settled', async () => {
    const { epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    void epochs.owe(['project:a'], 'id');
    await nextTry();
    store.renewals[0]?.answer(1_000);
    await quiet();
    await answerRead('sent before the renewal');
    expect(epochs.held(A)).toBeUndefined();
    await answerRead('sent after the renewal');
    expect((await obtained)?.tokens).toEqual(reading(A, 'sent after the renewal').tokens);
  });

  test('is remembered with those who wait for it up to a bound, the latest, however long the store is away', async () => {
    const { epochs, store } = setUp();
    const done: number[] = [];
    const note = (i: number) => epochs.owe(['project:a'], `id ${i}`).then(() => done.push(i));
    for (let i = 0; i < 3; i += 1) void note(i);
    await nextTry();
    // While a try is under way: it settles nothing of what comes now.
    for (let i = 3; i < MAX_OWED + 2; i += 1) void note(i);
    store.renewals[0]?.fail();
    await quiet();
    await nextTry();
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(done).toEqual(Array.from({ length: MAX_OWED }, (_, i) => i + 2));
    expect(epochs.owed()).toEqual([]);
  });

  test('does not need the announcement to arrive', async () => {
    const { epochs, store, errors } = setUp();
    store.announce = () => Promise.reject(new Error('no channel'));
    void epochs.owe(['project:a'], 'id');
    await nextTry();
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
    expect(errors).toHaveLength(1);
  });
});
