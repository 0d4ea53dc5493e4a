import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createDocumentGate, slotsBeside } from '../../../../src/api/documents.ts';
import { createGate, settle } from '../../auth/support.ts';
import { principalOf } from '../../../../src/common/principal.ts';

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
});
afterEach(() => {
  jest.useRealTimers();
});

let count = 0;

/** A client that waits for its answer, until it goes away. It is a user of its own unless one is named. */
function client(name = `user ${(count += 1)}`) {
  const response = Object.assign(new EventEmitter(), { destroyed: false });
  return {
    asker: { principal: principalOf(name), response: response as unknown as ServerResponse },
    goAway() {
      response.destroyed = true;
      response.emit('close');
    },
    /** Nothing of it may be left behind. */
    listeners: () => response.listenerCount('close'),
  };
}

/** Asks for places to receive and then to write, or to read and then to send, and keeps the books of what became of it. */
function visit(
  documents: ReturnType<typeof createDocumentGate>,
  {
    user,
    exports = false,
    slow = exports,
  }: { readonly user?: string; readonly exports?: boolean; readonly slow?: boolean } = {},
) {
  const one = client(user);
  const [read, over] = [createGate(), createGate()];
  const made = { ...one, state: 'waiting', leave: over.open, haveRead: read.open };
  const work = async () => {
    made.state = 'inside';
    await over.passed;
  };
  const reading = async () => {
    if (slow) {
      made.state = 'reading';
      await read.passed;
      made.state = 'waiting';
    }
    return Buffer.alloc(0);
  };
  (exports
    ? documents.pass(one.asker, reading, work)
    : documents.receive(one.asker, reading, work)
  ).then(
    () => {
      made.state = 'gone';
    },
    ({ reason, headers }: { reason: string; headers: Record<string, string> }) => {
      made.state = [reason, ...Object.values(headers)].join(' ');
    },
  );
  return made;
}

const statesOf = (all: readonly { readonly state: string }[]) => all.map(({ state }) => state);

describe('a gate for documents', () => {
  test('lets so many in, and the others in their order', async () => {
    const documents = createDocumentGate({ slots: 2 });
    const all = Array.from({ length: 4 }, () => visit(documents));
    await settle();
    expect(statesOf(all)).toEqual(['inside', 'inside', 'waiting', 'waiting']);
    all[1]?.leave();
    await settle();
    expect(statesOf(all)).toEqual(['inside', 'gone', 'inside', 'waiting']);
    all[0]?.leave();
    all[2]?.leave();
    await settle();
    expect(statesOf(all)).toEqual(['gone', 'gone', 'gone', 'inside']);
  });

  test('lets in two of one user, however his name is spelt, and keeps nobody else waiting for him', async () => {
    const documents = createDocumentGate({ queue: 2 });
    const his = ['Ann', 'ann', 'ANN', 'Ann', 'aNN'].map((user) => visit(documents, { user }));
    const other = visit(documents);
    await settle();
    expect(statesOf(his)).toEqual(['inside', 'inside', 'waiting', 'waiting', 'overloaded 5']);
    expect(other.state).toBe('inside');
    his[1]?.leave();
    await settle();
    expect(statesOf(his)).toEqual(['inside', 'gone', 'inside', 'waiting', 'overloaded 5']);
    for (const { leave } of his) leave();
    await settle();
    expect(statesOf(his)).toEqual(['gone', 'gone', 'gone', 'gone', 'overloaded 5']);
    expect(his.map(({ listeners }) => listeners())).toEqual([0, 0, 0, 0, 0]);
  });

  test('lets work be done while slow clients are sent what was read', async () => {
    const documents = createDocumentGate({ slots: 2, sent: 3 });
    const slow = Array.from({ length: 4 }, () => visit(documents, { exports: true }));
    await settle();
    expect(statesOf(slow)).toEqual(['reading', 'reading', 'waiting', 'waiting']);
    for (const { haveRead } of slow) haveRead();
    await settle();
    // One more would be held beside those that are sent.
    expect(statesOf(slow)).toEqual(['inside', 'inside', 'inside', 'waiting']);
    const work = [visit(documents), visit(documents), visit(documents)];
    await settle();
    expect(statesOf(work)).toEqual(['inside', 'inside', 'waiting']);
    slow[0]?.leave();
    work[0]?.leave();
    await settle();
    // In the order in which they came to the place.
    expect([...statesOf(work), slow[3]?.state]).toEqual(['gone', 'inside', 'inside', 'waiting']);
    work[1]?.leave();
    await settle();
    expect(slow[3]?.state).toBe('inside');
  });

  test('lets documents be read and written while slow clients send theirs', async () => {
    const documents = createDocumentGate({ slots: 1, received: 3 });
    const slow = Array.from({ length: 4 }, () => visit(documents, { slow: true }));
    const reader = visit(documents, { exports: true });
    await settle();
    expect(statesOf([...slow, reader])).toEqual([
      ...['reading', 'reading', 'reading', 'waiting', 'reading'],
    ]);
    slow[0]?.haveRead();
    await settle();
    // What has come whole waits for the place; and as long as it is held no other comes in its stead.
    expect(statesOf(slow)).toEqual(['waiting', 'reading', 'reading', 'waiting']);
    reader.haveRead();
    await settle();
    expect(statesOf([...slow, reader])).toEqual([
      ...['inside', 'reading', 'reading', 'waiting', 'inside'],
    ]);
    slow[0]?.leave();
    await settle();
    expect(statesOf(slow)).toEqual(['gone', 'reading', 'reading', 'reading']);
  });

  test('refuses what has come whole and finds no place to be written, as soon as its client goes or in the end', async () => {
    const documents = createDocumentGate({ slots: 1, received: 3 });
    const writing = visit(documents);
    const [going, staying] = [visit(documents, { slow: true }), visit(documents, { slow: true })];
    await settle();
    // However long it takes to send it.
    jest.advanceTimersByTime(100_000);
    for (const { haveRead } of [going, staying]) haveRead();
    await settle();
    jest.advanceTimersByTime(29_999);
    going.goAway();
    await settle();
    expect(statesOf([going, staying])).toEqual(['client-gone', 'waiting']);
    jest.advanceTimersByTime(1);
    await settle();
    expect(staying.state).toBe('overloaded 5');
    writing.leave();
    const next = visit(documents);
    await settle();
    expect([next.state, jest.getTimerCount()]).toEqual(['inside', 0]);
    expect([going, staying].map(({ listeners }) => listeners())).toEqual([0, 0]);
  });

  test('counts what is sent to a user as his own', async () => {
    const documents = createDocumentGate();
    const user = 'ann';
    const slow = [
      visit(documents, { user, exports: true }),
      visit(documents, { user, exports: true }),
    ];
    for (const { haveRead } of slow) haveRead();
    const more = [visit(documents, { user }), visit(documents, { user, exports: true })];
    await settle();
    expect(statesOf([...slow, ...more])).toEqual(['inside', 'inside', 'waiting', 'waiting']);
    slow[1]?.leave();
    await settle();
    expect(statesOf([...slow, ...more])).toEqual(['inside', 'gone', 'inside', 'waiting']);
  });

  test('a client that goes while it waits at any of its gates leaves those that it has entered', async () => {
    const documents = createDocumentGate({ slots: 1, sent: 1 });
    const working = visit(documents);
    const user = 'ann';
    await settle();
    const waiting = [visit(documents, { user, exports: true }), visit(documents, { user })];
    await settle();
    for (const { goAway } of waiting) goAway();
    const next = visit(documents, { user, exports: true });
    await settle();
    working.leave();
    await settle();
    expect(statesOf([...waiting, working, next])).toEqual([
      ...['client-gone', 'client-gone', 'gone', 'reading'],
    ]);
    expect(waiting.map(({ listeners }) => listeners())).toEqual([0, 0]);
  });

  test('gives the place of work that failed to the next one', async () => {
    const documents = createDocumentGate({ slots: 1 });
    const failing = documents.receive(
      client().asker,
      async () => {},
      () => Promise.reject(new Error('a mistake')),
    );
    const next = visit(documents);
    await expect(failing).rejects.toThrow('a mistake');
    await settle();
    expect(next.state).toBe('inside');
  });

  test('lets nobody wait who has gone away', async () => {
    const documents = createDocumentGate({ slots: 1 });
    const first = visit(documents);
    const second = visit(documents);
    second.goAway();
    const third = visit(documents);
    await settle();
    expect([second.state, third.state]).toEqual(['client-gone', 'waiting']);
    first.leave();
    await settle();
    expect(third.state).toBe('inside');
  });

  test('does no work for who had gone before, or goes in the turn in which its place came', async () => {
    const documents = createDocumentGate({ slots: 1 });
    const gone = client();
    gone.goAway();
    let done = 0;
    const work = async () => void (done += 1);
    await expect(documents.receive(gone.asker, work, work)).rejects.toMatchObject({
      reason: 'client-gone',
    });
    const going = client();
    const held = documents.receive(going.asker, work, work);
    going.goAway();
    await expect(held).rejects.toMatchObject({ reason: 'client-gone' });
    expect(done).toBe(0);
    await documents.receive(client().asker, work, work);
    expect(done).toBe(2);
  });

  test('lets nobody wait for ever', async () => {
    const documents = createDocumentGate({ slots: 1, wait: 30_000 });
    const first = visit(documents);
    await settle();
    jest.advanceTimersByTime(20_000);
    const second = visit(documents);
    await settle();
    jest.advanceTimersByTime(29_999);
    await settle();
    expect([first.state, second.state]).toEqual(['inside', 'waiting']);
    jest.advanceTimersByTime(1);
    await settle();
    expect([first.state, second.state]).toEqual(['inside', 'overloaded 5']);
    expect(jest.getTimerCount()).toBe(0);
  });
});

test.each([
  [1, 1],
  [2, 1],
  [3, 2],
  [5, 4],
  [10, 4],
  [100, 4],
])('of %i connections documents take at most %i', (connections, places) => {
  expect(slotsBeside(connections)).toBe(places);
});
