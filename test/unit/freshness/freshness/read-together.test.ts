import { describe, expect, test } from '@jest/globals';
import { createEpochs } from '../../../../src/freshness/freshness.ts';
import type { CacheScope } from '../../../../src/freshness/freshness-store.ts';
import { handClock, quiet } from '../../cache/fakes.ts';
import { handStore, reading } from '../../cache/purge/fake-epoch-stores.ts';

const LEASE = 1_000;
const scopesOf = (project: string): readonly CacheScope[] => ['everything', `project:${project}`];
const [A, B, C] = ['a', 'b', 'c'].map(scopesOf) as [
  readonly CacheScope[],
  readonly CacheScope[],
  readonly CacheScope[],
];

function setUp() {
  const clock = handClock();
  const store = handStore();
  const epochs = createEpochs({ store, clock, lease: () => LEASE });
  /** Answers the oldest read. @returns what it asked for */
  async function answerRead(token = 'one') {
    const read = store.reads[0];
    if (read === undefined) throw new Error('nothing is read');
    read.answer(reading(read.scopes, token));
    await quiet();
    return read.scopes;
  }
  async function obtain(scopes: readonly CacheScope[], token?: string) {
    const obtained = epochs.obtain(scopes);
    await answerRead(token);
    return obtained;
  }
  const tokenOf = (scopes: readonly CacheScope[]) => epochs.held(scopes)?.tokens[1];
  return { clock, store, epochs, answerRead, obtain, tokenOf };
}

describe('a read of epochs', () => {
  test('brings with what is asked for all that is in use', async () => {
    const { clock, store, epochs, answerRead, obtain, tokenOf } = setUp();
    for (const scopes of [A, B, C]) await obtain(scopes);
    clock.advance(LEASE);
    const obtained = epochs.obtain(A);
    expect(new Set(await answerRead('two'))).toEqual(new Set([...A, ...B, ...C]));
    expect((await obtained)?.tokens[1]).toBe('project:a=two');
    expect([B, C].map(tokenOf)).toEqual(['project:b=two', 'project:c=two']);
    expect(store.reads).toHaveLength(0);
  });

  test('makes what was captured earlier current again where the token is the same', async () => {
    const { clock, epochs, obtain } = setUp();
    await obtain(A);
    const captured = await obtain(B);
    clock.advance(LEASE);
    expect(epochs.areCurrent(captured!)).toBe(false);
    await obtain(A);
    expect(epochs.areCurrent(captured!)).toBe(true);
    clock.advance(LEASE);
    await obtain(A, 'other');
    expect(epochs.areCurrent(captured!)).toBe(false);
  });

  test('gives each a lease from when it was sent, and no longer one', async () => {
    const { clock, epochs, answerRead, obtain, tokenOf } = setUp();
    for (const scopes of [A, B]) await obtain(scopes);
    clock.advance(LEASE);
    void epochs.obtain(A);
    clock.advance(400);
    await answerRead();
    clock.advance(599);
    expect(tokenOf(B)).toBe('project:b=one');
    clock.advance(1);
    expect(tokenOf(B)).toBeUndefined();
  });

  test('leaves out what was not used for ten of them', async () => {
    const { clock, epochs, answerRead, obtain } = setUp();
    for (const scopes of [A, B]) await obtain(scopes);
    for (let times = 0; times < 10; times += 1) {
      clock.advance(LEASE);
      void epochs.obtain(A);
      expect(await answerRead()).toEqual([...A, 'project:b']);
    }
    // A use counts anew.
    expect(epochs.held(B)).toBeDefined();
    for (let times = 0; times < 11; times += 1) {
      clock.advance(LEASE);
      void epochs.obtain(A);
      expect(await answerRead()).toEqual([...A, 'project:b']);
    }
    clock.advance(LEASE);
    void epochs.obtain(A);
    expect(await answerRead()).toEqual(A);
  });

  test('leaves out what was read less than half a lease ago', async () => {
    const { clock, epochs, answerRead, obtain } = setUp();
    await obtain(A);
    clock.advance(LEASE / 2 - 1);
    void epochs.obtain(B);
    expect(await answerRead()).toEqual(B);
    clock.advance(1);
    void epochs.obtain(C);
    expect(await answerRead()).toEqual([...C, 'project:a']);
  });

  test('leaves out what was used under a lease that has been over for long', async () => {
    const { clock, epochs, answerRead, obtain } = setUp();
    for (const scopes of [A, B]) await obtain(scopes);
    clock.advance(2 * LEASE + 1);
    void epochs.obtain(A);
    expect(await answerRead()).toEqual(A);
  });

  test('is waited for by all whose scopes it brings', async () => {
    const { clock, store, epochs, answerRead, obtain } = setUp();
    for (const scopes of [A, B]) await obtain(scopes);
    clock.advance(LEASE);
    const all = [epochs.obtain(A), epochs.obtain(B), epochs.obtain(A)];
    expect(store.reads).toHaveLength(1);
    await answerRead('two');
    const tokens = (await Promise.all(all)).map((one) => one?.tokens[1]);
    expect(tokens).toEqual(['project:a=two', 'project:b=two', 'project:a=two']);
  });

  test('that fails leaves the epochs of all who waited for it unknown', async () => {
    const { clock, store, epochs, obtain } = setUp();
    for (const scopes of [A, B]) await obtain(scopes);
    clock.advance(LEASE);
    const all = [epochs.obtain(A), epochs.obtain(B)];
    store.reads[0]?.fail();
    expect(await Promise.all(all)).toEqual([undefined, undefined]);
    expect(store.reads).toHaveLength(0);
    expect((await obtain(B))?.tokens[1]).toBe('project:b=one');
  });

  test('sent before a renewal brings that scope to nobody, and costs the others nothing', async () => {
    const { clock, store, epochs, answerRead, obtain, tokenOf } = setUp();
    for (const scopes of [A, B, C]) await obtain(scopes);
    clock.advance(LEASE);
    const obtained = epochs.obtain(A);
    const waiting = epochs.obtain(B);
    store.tell(['project:b']);
    const afterwards = epochs.obtain(B);
    expect(store.reads).toHaveLength(2);
    await answerRead('older than the purge of b');
    expect((await obtained)?.tokens[1]).toBe('project:a=older than the purge of b');
    expect(tokenOf(C)).toBe('project:c=older than the purge of b');
    expect(tokenOf(B)).toBeUndefined();
    await answerRead('newer');
    while (store.reads.length > 0) await answerRead('newer');
    expect((await afterwards)?.tokens[1]).toBe('project:b=newer');
    expect((await waiting)?.tokens[1]).toBe('project:b=newer');
  });

  test('overtaken by a shorter one does not replace what that brought', async () => {
    const { clock, store, epochs, answerRead, obtain, tokenOf } = setUp();
    for (const scopes of [A, B]) await obtain(scopes);
    clock.advance(LEASE);
    void epochs.obtain(A);
    store.tell(['project:b']);
    void epochs.obtain(B);
    store.reads[1]?.answer(reading(B, 'newer'));
    await quiet();
    expect(tokenOf(B)).toBe('project:b=newer');
    await answerRead('older');
    expect(tokenOf(B)).toBe('project:b=newer');
  });

  test('brings at most a thousand beside; the others come with the next one', async () => {
    const { clock, store, epochs, answerRead } = setUp();
    const names = Array.from({ length: 1_500 }, (_, at) => `p${at}`);
    for (const name of names) void epochs.obtain(scopesOf(name));
    while (store.reads.length > 0) await answerRead();
    for (const name of names) epochs.held(scopesOf(name));
    clock.advance(LEASE);
    const all = names.map((name) => epochs.obtain(scopesOf(name)));
    expect(store.reads.map(({ scopes }) => scopes.length)).toEqual([1_002, 500]);
    while (store.reads.length > 0) await answerRead('two');
    expect((await Promise.all(all)).every((one) => one !== undefined)).toBe(true);
  });
});
