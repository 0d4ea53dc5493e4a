import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { createEpochs } from '../../../src/freshness/freshness.ts';
import { entryScopes } from '../../../src/cache/projects.ts';
import type { CacheScope } from '../../../src/freshness/freshness-store.ts';
import { handStore, reading } from '../cache/purge/fake-epoch-stores.ts';
import { handClock, quiet } from '../cache/fakes.ts';

const LEASE = 1_000;
const A = ['everything', 'project:a'] as const;
const B = ['everything', 'project:b'] as const;

function setUp(lease = LEASE) {
  const clock = handClock();
  const store = handStore();
  const errors: unknown[] = [];
  const epochs = createEpochs({
    store,
    clock,
    lease: () => lease,
    onError: (error) => errors.push(error),
  });
  /** Answers the oldest read. */
  const answerRead = async (token: string) => {
    const read = store.reads[0];
    if (read === undefined) throw new Error('nothing is read');
    read.answer(reading(read.scopes, token));
    await quiet();
  };
  return { clock, store, epochs, errors, answerRead };
}

/** The epochs of the scopes as `reading` makes them. */
const tokens = (scopes: readonly CacheScope[], token: string) => reading(scopes, token).tokens;

describe('what a replica knows of epochs', () => {
  test('it may use for one lease from when it asked, and not for a millisecond more', async () => {
    const { clock, epochs, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    clock.advance(400);
    await answerRead('one');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'one'));
    clock.advance(599);
    expect(epochs.held(A)?.tokens).toEqual(tokens(A, 'one'));
    expect(epochs.age()).toBe(999);
    clock.advance(1);
    expect(epochs.held(A)).toBeUndefined();
    expect(epochs.age()).toBeUndefined();
  });

  test('come with the secret of the store, unless one is configured', async () => {
    const secretOf = async (keySecret?: string) => {
      const store = handStore();
      const epochs = createEpochs({ store, clock: handClock(), lease: () => LEASE, keySecret });
      const obtained = epochs.obtain(A);
      store.reads[0]?.answer(reading(A, 'one'));
      return (await obtained)?.keySecret;
    };
    expect([await secretOf(), await secretOf('configured')]).toEqual(['secret', 'configured']);
  });

  test('is not current when its lease ran out, was forgotten, or says something else now', async () => {
    const { clock, epochs, store, answerRead } = setUp();
    const obtain = async (token: string) => {
      const obtained = epochs.obtain(A);
      await answerRead(token);
      const captured = await obtained;
      if (captured === undefined) throw new Error('no epochs');
      return captured;
    };
    const first = await obtain('one');
    expect(epochs.areCurrent(first)).toBe(true);
    expect(epochs.areCurrent({ ...first, keySecret: 'another' })).toBe(false);
    store.tell(['project:a']);
    expect(epochs.areCurrent(first)).toBe(false);
    const second = await obtain('two');
    expect(epochs.areCurrent(first)).toBe(false);
    expect(epochs.areCurrent(second)).toBe(true);
    clock.advance(LEASE);
    expect(epochs.areCurrent(second)).toBe(false);
  });

  test('is not current when the lease of one of them ran out, though the others were read again', async () => {
    const { clock, epochs, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    await answerRead('one');
    const captured = await obtained;
    if (captured === undefined) throw new Error('no epochs');
    clock.advance(LEASE / 2 - 1);
    const others = epochs.obtain(B);
    await answerRead('one');
    expect((await others)?.tokens[0]).toBe(captured.tokens[0]);
    clock.advance(LEASE / 2);
    expect(epochs.areCurrent(captured)).toBe(true);
    clock.advance(1);
    expect(epochs.held(B)).toBeDefined();
    expect(epochs.areCurrent(captured)).toBe(false);
  });

  test('is not used when the reply took as long as the lease; it is asked again', async () => {
    const { clock, epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    clock.advance(LEASE);
    await answerRead('slow');
    expect(epochs.held(A)).toBeUndefined();
    expect(store.reads).toHaveLength(1);
    await answerRead('quick');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'quick'));
  });

  test('stays unknown when every reply is too slow', async () => {
    const { clock, epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    while (store.reads.length > 0) {
      clock.advance(LEASE);
      await answerRead('slow');
    }
    expect(await obtained).toBeUndefined();
  });

  test('is unknown when the store fails, which is told; and is asked for anew', async () => {
    const { epochs, store, errors, answerRead } = setUp();
    const failed = epochs.obtain(A);
    store.reads[0]?.fail();
    expect(await failed).toBeUndefined();
    expect(errors).toHaveLength(1);
    const obtained = epochs.obtain(A);
    await answerRead('one');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'one'));
  });

  test('is unknown when the store answers with too few epochs', async () => {
    const { epochs, store, errors } = setUp();
    const obtained = epochs.obtain(A);
    store.reads[0]?.answer({ tokens: ['only one'], keySecret: 'secret' });
    expect(await obtained).toBeUndefined();
    expect(errors).toHaveLength(1);
  });

  test('is read once for all who ask for it at one time', async () => {
    const { epochs, store, answerRead } = setUp();
    const all = [epochs.obtain(A), epochs.obtain(A), epochs.obtain(A)];
    expect(store.reads).toHaveLength(1);
    await answerRead('one');
    for (const one of await Promise.all(all)) expect(one?.tokens).toEqual(tokens(A, 'one'));
    void epochs.obtain(A);
    expect(store.reads).toHaveLength(1);
  });

  test('is never that of other scopes, however a project is named', async () => {
    const { epochs, store, answerRead } = setUp();
    const two = entryScopes(['a', 'b'], false);
    const oneWithLineFeed = entryScopes(['a\nproject:b'], false);
    const first = epochs.obtain(two);
    const second = epochs.obtain(oneWithLineFeed);
    expect(store.reads).toHaveLength(2);
    await answerRead('one');
    await answerRead('one');
    expect((await first)?.scopes).toEqual(two);
    expect((await second)?.scopes).toEqual(oneWithLineFeed);
  });
});

describe('an announcement', () => {
  test('makes the replica forget the scope, and only that', async () => {
    const { epochs, store, answerRead } = setUp();
    void epochs.obtain(A);
    await answerRead('one');
    void epochs.obtain(B);
    await answerRead('one');
    store.tell(['project:a', 'unassigned']);
    expect(epochs.held(A)).toBeUndefined();
    expect(epochs.held(B)?.tokens).toEqual(tokens(B, 'one'));
  });

  test('makes the reply to an older question worthless', async () => {
    const { epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    store.tell(['project:a']);
    await answerRead('older than the purge');
    expect(epochs.held(A)).toBeUndefined();
    await answerRead('newer than the purge');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'newer than the purge'));
  });

  test('that comes with every reply leaves the epochs unknown instead of asking for ever', async () => {
    const { epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    let asked = 0;
    while (store.reads.length > 0) {
      asked += 1;
      store.tell(['project:a']);
      await answerRead('one');
    }
    expect(await obtained).toBeUndefined();
    expect(asked).toBe(4);
  });

  test('for one project costs a reply about others nothing, however often it comes', async () => {
    const { epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    for (let more = 0; more < 10; more += 1) store.tell(['project:b', 'unassigned']);
    await answerRead('one');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'one'));
    expect(store.reads).toHaveLength(0);
  });

  test('never sets an epoch', () => {
    const { epochs, store } = setUp();
    store.tell([...A]);
    expect(epochs.held(A)).toBeUndefined();
  });
});

describe('a renewal', () => {
  test('makes this replica forget, tells the others, and says how long they may go on', async () => {
    const { epochs, store, answerRead } = setUp();
    void epochs.obtain(A);
    await answerRead('one');
    const renewed = epochs.renew(['project:a'], 'id');
    expect(epochs.held(A)).toBeDefined();
    store.renewals[0]?.answer(7_000);
    expect((await renewed).lease).toBe(7_000);
    expect(epochs.held(A)).toBeUndefined();
    expect(store.announced).toEqual([{ purge: 'id', scopes: ['project:a'] }]);
  });

  test('makes the reply to a question of before worthless', async () => {
    const { epochs, store, answerRead } = setUp();
    const obtained = epochs.obtain(A);
    const renewed = epochs.renew(['project:a'], 'id');
    store.renewals[0]?.answer(LEASE);
    await renewed;
    await answerRead('before');
    expect(epochs.held(A)).toBeUndefined();
    await answerRead('after');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'after'));
  });

  test('counts although nobody could be told', async () => {
    const { epochs, store, errors } = setUp();
    store.announce = () => Promise.reject(new Error('no channel'));
    const renewed = epochs.renew(['project:a'], 'id');
    store.renewals[0]?.answer(LEASE);
    expect((await renewed).lease).toBe(LEASE);
    expect(errors).toHaveLength(1);
  });

  test('of two whose messages cross leaves no epoch of before either in use', async () => {
    const { epochs, store, answerRead } = setUp();
    const mine = epochs.renew(['project:a'], 'id');
    const obtained = epochs.obtain(A);
    // The other replica's message is here before the reply to one's own renewal.
    store.tell(['project:a']);
    await answerRead('between the two');
    store.renewals[0]?.answer(LEASE);
    await mine;
    await answerRead('between the two, sent before the second');
    expect(epochs.held(A)).toBeUndefined();
    await answerRead('after both');
    expect((await obtained)?.tokens).toEqual(tokens(A, 'after both'));
    // One's own message comes back late.
    store.tell(['project:a']);
    expect(epochs.held(A)).toBeUndefined();
  });
});

describe('a closed replica', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  test('settles nothing any more', () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const { epochs } = setUp();
    void epochs.renewLater(['project:a'], 'id');
    expect(jest.getTimerCount()).toBe(1);
    epochs.close();
    expect(jest.getTimerCount()).toBe(0);
  });

  test('does not begin again when a try to settle fails after it was closed', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const { epochs, store } = setUp();
    void epochs.renewLater(['project:a'], 'id');
    jest.runOnlyPendingTimers();
    await quiet();
    epochs.close();
    store.renewals[0]?.fail();
    await quiet();
    expect(jest.getTimerCount()).toBe(0);
  });
});
