import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createDocumentGate, placesBeside } from '../../../../src/http/api/document-gate.ts';
import { createGate, settle } from '../../auth/support.ts';

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
});
afterEach(() => {
  jest.useRealTimers();
});

/** A client that waits for its answer, until it goes away. */
function client() {
  const response = Object.assign(new EventEmitter(), { destroyed: false });
  return {
    response: response as unknown as ServerResponse,
    goAway() {
      response.destroyed = true;
      response.emit('close');
    },
    /** Nothing of it may be left behind. */
    listeners: () => response.listenerCount('close'),
  };
}

/** Asks for a place, and keeps the books of what became of it. */
function visit(documents: ReturnType<typeof createDocumentGate>) {
  const one = client();
  const over = createGate();
  const made = { ...one, state: 'waiting', leave: over.open };
  documents
    .hold(one.response, async () => {
      made.state = 'inside';
      await over.passed;
    })
    .then(
      () => {
        made.state = 'gone';
      },
      ({ reason, headers }: { reason: string; headers: Record<string, string> }) => {
        made.state = [reason, ...Object.values(headers)].join(' ');
      },
    );
  return made;
}

describe('a gate for documents', () => {
  test('lets so many in, the others in their order, and refuses whom the queue does not hold', async () => {
    const documents = createDocumentGate({ places: 2, queue: 2 });
    const all = Array.from({ length: 5 }, () => visit(documents));
    const states = () => all.map(({ state }) => state);
    await settle();
    expect(states()).toEqual(['inside', 'inside', 'waiting', 'waiting', 'overloaded 5']);
    all[1]?.leave();
    await settle();
    expect(states()).toEqual(['inside', 'gone', 'inside', 'waiting', 'overloaded 5']);
    all[0]?.leave();
    all[2]?.leave();
    await settle();
    expect(states()).toEqual(['gone', 'gone', 'gone', 'inside', 'overloaded 5']);
    expect(all.map(({ listeners }) => listeners())).toEqual([0, 0, 0, 0, 0]);
  });

  test('gives the place of work that failed to the next one', async () => {
    const documents = createDocumentGate({ places: 1 });
    const failing = documents.hold(client().response, () => Promise.reject(new Error('a mistake')));
    const next = visit(documents);
    await expect(failing).rejects.toThrow('a mistake');
    await settle();
    expect(next.state).toBe('inside');
  });

  test('lets nobody wait who has gone away', async () => {
    const documents = createDocumentGate({ places: 1, queue: 1 });
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
    const documents = createDocumentGate({ places: 1 });
    const gone = client();
    gone.goAway();
    let done = 0;
    const work = async () => void (done += 1);
    await expect(documents.hold(gone.response, work)).rejects.toMatchObject({
      reason: 'client-gone',
    });
    const going = client();
    const held = documents.hold(going.response, work);
    going.goAway();
    await expect(held).rejects.toMatchObject({ reason: 'client-gone' });
    expect(done).toBe(0);
    await documents.hold(client().response, work);
    expect(done).toBe(1);
  });

  test('lets nobody wait for ever', async () => {
    const documents = createDocumentGate({ places: 1, wait: 30_000 });
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
  expect(placesBeside(connections)).toBe(places);
});
