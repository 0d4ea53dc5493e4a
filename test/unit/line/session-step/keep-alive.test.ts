import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { Engine } from '../../../../src/engine/http-engine.ts';
import type { Touch } from '../../../../src/engine/own-questions.ts';
import { createMemoryStore } from '../../../../src/freshness/memory-store.ts';
import { createKeepAlive } from '../../../../src/line/session-step.ts';
import { createSessions } from '../../../../src/sessions/sessions.ts';
import { createUnnoted } from '../../../../src/freshness/unnoted.ts';
import { handClock, quiet } from '../../cache/fakes.ts';

const IDLE = 3_600_000;
const NAME = { endpoint: 'engine', id: 'one' };
const FAULT: Touch = {
  kind: 'fault',
  head: { status: 200, statusMessage: 'OK', headers: {} },
  body: Buffer.from('gone'),
};

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
});
afterEach(() => {
  jest.useRealTimers();
});

/** A session that was last forwarded half its idle time ago, and an engine that answers when a test says so. */
async function house() {
  const clock = handClock();
  const sessions = createSessions({
    store: createMemoryStore({ clock, newToken: () => 'token' }),
    clock,
    lease: () => IDLE,
    sleep: async () => {},
    newToken: () => 'token',
    onError: () => {},
    unnoted: createUnnoted(
      async () => {},
      async () => {},
    ),
  });
  await sessions.begin(NAME, { principal: 'alice', profile: '', catalog: null, replica: 'r' });
  clock.advance(IDLE / 2);
  const keepAlive = createKeepAlive({ sessions, clock });
  const touches: ((touch: Touch) => void)[] = [];
  const signals: AbortSignal[] = [];
  let isAway = false;
  const engine: Pick<Engine, 'touch' | 'isAway'> = {
    isAway: () => isAway,
    touch: (_addressee, _id, signal) => {
      signals.push(signal);
      return new Promise((resolve) => touches.push(resolve));
    },
  };
  let waited = 0;
  const record = async () => {
    const found = await sessions.find(NAME);
    return found.kind === 'known' ? found.record : undefined;
  };
  /** What a request of the session is told, as soon as it is told anything. */
  async function visit() {
    const known = await record();
    if (known === undefined) throw new Error('the session is not known');
    const told: (Touch | 'nothing')[] = [];
    const client = { waits: () => (waited += 1) };
    const addressee = {
      project: undefined,
      query: [],
      authorization: undefined,
      user: 'alice',
      replica: undefined,
    };
    const destination = { engine, addressee, settings: { session_idle: IDLE } };
    void keepAlive({ name: NAME, record: known }, destination, client).then((answer) =>
      told.push(answer ?? 'nothing'),
    );
    await quiet();
    return told;
  }
  const leaves = () => void (isAway = true);
  return { clock, record, touches, signals, visit, leaves, waits: () => waited };
}

describe('a request that is answered from the cache', () => {
  test('waits for the engine, and is told what that says of a session that is gone', async () => {
    const { touches, visit, record, waits } = await house();
    const told = [await visit(), await visit()];
    expect(waits()).toBe(2);
    expect([told, touches.length]).toEqual([[[], []], 1]);
    touches[0]?.(FAULT);
    await quiet();
    expect([told, await record()]).toEqual([[[FAULT], [FAULT]], undefined]);
  });

  test('does not wait for an engine that hangs, nor do those after it, nor is that engine touched again', async () => {
    const { touches, visit } = await house();
    const first = await visit();
    jest.advanceTimersByTime(4_999);
    await quiet();
    expect(first).toEqual([]);
    jest.advanceTimersByTime(1);
    await quiet();
    expect([first, await visit(), await visit()]).toEqual([['nothing'], ['nothing'], ['nothing']]);
    expect(touches).toHaveLength(1);
  });

  test('touches no engine that is away, and stays a hit', async () => {
    const { touches, visit, leaves } = await house();
    leaves();
    expect([await visit(), touches]).toEqual([['nothing'], []]);
  });

  test('leaves the touch under way: a Fault that comes later ends the session', async () => {
    const { touches, signals, visit, record } = await house();
    await visit();
    jest.advanceTimersByTime(5_000);
    await quiet();
    expect([(await record())?.dirty, signals[0]?.aborted]).toEqual([false, false]);
    touches[0]?.(FAULT);
    await quiet();
    expect(await record()).toBeUndefined();
  });

  test.each([
    ['alive', [['nothing'], 1]],
    ['failed', [[], 2]],
  ] as const)('is followed by %s, late: the next one knows of it', async (kind, expected) => {
    const { touches, visit } = await house();
    await visit();
    jest.advanceTimersByTime(5_000);
    touches[0]?.({ kind });
    await quiet();
    const next = await visit();
    expect([next, touches.length]).toEqual(expected);
  });
});
