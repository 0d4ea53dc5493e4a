import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { CacheScope } from '../../../../src/freshness/freshness-store.ts';
import { createEpochs } from '../../../../src/freshness/freshness.ts';
import { handStore, reading } from '../../cache/purge/fake-epoch-stores.ts';
import { handClock, quiet } from '../../cache/fakes.ts';

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
  const epochs = createEpochs({ store, clock, lease: () => 1_000, onError: (e) => errors.push(e) });
  const answerRead = async (token: string) => {
    const read = store.reads[0];
    if (read === undefined) throw new Error('nothing is read');
    read.answer(reading(read.scopes, token));
    await quiet();
  };
  const markPending = (scopes: readonly CacheScope[]) => void epochs.renewLater(scopes, 'id');
  return { store, epochs, errors, answerRead, markPending };
}

/** Lets the pause before the next try pass. */
async function nextTry(): Promise<void> {
  jest.runOnlyPendingTimers();
  await quiet();
}

describe('a renewal that is pending', () => {
  test('leaves this gateway without tokens of its scopes, and with those of all others', async () => {
    const { store, epochs, answerRead, markPending } = setUp();
    void epochs.obtain(A);
    await answerRead('one');
    void epochs.obtain(B);
    await answerRead('one');
    const [a, b] = [epochs.held(A), epochs.held(B)];
    markPending(['project:a']);
    expect(epochs.owed()).toEqual(['project:a']);
    expect([epochs.held(A), epochs.held(B)]).toEqual([undefined, b]);
    expect([a && epochs.areCurrent(a), b && epochs.areCurrent(b)]).toEqual([false, true]);
    // Others are also read anew, though Redis refuses the renewal.
    store.tell(['project:b']);
    const obtained = epochs.obtain(B);
    await nextTry();
    store.renewals[0]?.fail();
    await answerRead('two');
    expect((await obtained)?.tokens).toEqual(reading(B, 'two').tokens);
    expect(epochs.owed()).toEqual(['project:a']);
  });

  test('is done in the background, without any request, and the others are told', async () => {
    const { epochs, store, markPending } = setUp();
    markPending(['project:a', 'unassigned']);
    await nextTry();
    expect(store.renewals.map(({ scopes }) => scopes)).toEqual([['project:a', 'unassigned']]);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
    expect(store.announced).toEqual([{ purge: 'id', scopes: ['project:a', 'unassigned'] }]);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('is tried again until it is done', async () => {
    const { epochs, store, errors, markPending } = setUp();
    markPending(['project:a']);
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

  test('is done before a token of its scopes is read', async () => {
    const { epochs, store, markPending } = setUp();
    markPending(['project:a']);
    const refused = epochs.obtain(A);
    await nextTry();
    expect(store.reads).toHaveLength(0);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(await refused).toBeUndefined();
    void epochs.obtain(A);
    await quiet();
    expect(store.reads).toHaveLength(1);
  });

  test('lets no request wait for a store that does not answer', async () => {
    const { epochs, markPending } = setUp();
    markPending(['project:a']);
    await nextTry();
    // The renewal is under way and is never answered.
    expect(await epochs.obtain(A)).toBeUndefined();
  });

  test('makes the reply to an earlier question worthless', async () => {
    const { epochs, store, answerRead, markPending } = setUp();
    const obtained = epochs.obtain(A);
    markPending(['project:a']);
    while (store.reads.length > 0) await answerRead('before');
    expect(await obtained).toBeUndefined();
    expect(epochs.held(A)).toBeUndefined();
  });

  test('that came while an older one of the same scopes was tried stays pending', async () => {
    const { epochs, store, markPending } = setUp();
    markPending(['project:a']);
    markPending(['project:b']);
    await nextTry();
    markPending(['project:a']);
    for (const renewal of [...store.renewals]) renewal.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual(['project:a']);
    await nextTry();
    expect(store.renewals.map(({ scopes }) => scopes)).toEqual([['project:a']]);
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
  });

  test('makes worthless what was asked before it was confirmed', async () => {
    const { epochs, store, answerRead, markPending } = setUp();
    const obtained = epochs.obtain(A);
    markPending(['project:a']);
    await nextTry();
    store.renewals[0]?.answer(1_000);
    await quiet();
    await answerRead('sent before the renewal');
    expect(epochs.held(A)).toBeUndefined();
    await answerRead('sent after the renewal');
    expect((await obtained)?.tokens).toEqual(reading(A, 'sent after the renewal').tokens);
  });

  test('does not need the announcement to arrive', async () => {
    const { epochs, store, errors, markPending } = setUp();
    store.announce = () => Promise.reject(new Error('no channel'));
    markPending(['project:a']);
    await nextTry();
    store.renewals[0]?.answer(1_000);
    await quiet();
    expect(epochs.owed()).toEqual([]);
    expect(errors).toHaveLength(1);
  });
});
