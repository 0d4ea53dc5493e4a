import { describe, expect, jest, test } from '@jest/globals';
import * as fc from 'fast-check';
import { createAdmission, type Admission } from '../../../src/engine/admission.ts';
import { sizes } from '../../support/sizes.ts';

/** Longer than these tests take (ms). */
const PATIENCE = 300_000;
const LIMITS = { concurrency: 4, per_user: 2, queue: 3 };

const quiet = () => new Promise((resolve) => setImmediate(resolve));

interface Visit {
  readonly user: string;
  state: 'waiting' | 'inside' | 'gone';
  refusal?: unknown;
  leave(): void;
  giveUp(): void;
}

/** Asks for admission, and notes what became of it. */
function visit(admission: Admission, user: string): Visit {
  const controller = new AbortController();
  const made: Visit = {
    user,
    state: 'waiting',
    leave() {},
    giveUp: () => controller.abort(new Error('gave up')),
  };
  const enter = (leave: () => void) => {
    made.state = 'inside';
    made.leave = () => {
      made.state = 'gone';
      leave();
    };
  };
  admission.admit(user, controller.signal, PATIENCE).then(enter, (error: unknown) => {
    made.state = 'gone';
    made.refusal = error;
  });
  return made;
}

async function visits(admission: Admission, users: readonly string[]): Promise<Visit[]> {
  const made = users.map((user) => visit(admission, user));
  await quiet();
  return made;
}

const states = (made: readonly Visit[]) => made.map(({ state }) => state);

describe('admission to the engine', () => {
  test('lets so many in at one time, and the next one when one leaves', async () => {
    const admission = createAdmission(LIMITS);
    const all = await visits(admission, ['a', 'b', 'c', 'd', 'e', 'f']);
    expect(states(all)).toEqual(['inside', 'inside', 'inside', 'inside', 'waiting', 'waiting']);
    expect(admission.usage()).toEqual({ atEngine: 4, waiting: 2 });
    all[2]?.leave();
    await quiet();
    expect(states(all).slice(4)).toEqual(['inside', 'waiting']);
  });

  test('lets so many of one user in, and keeps the other places for others', async () => {
    const admission = createAdmission(LIMITS);
    const all = await visits(admission, ['a', 'a', 'a', 'a', 'b', 'c']);
    expect(states(all)).toEqual(['inside', 'inside', 'waiting', 'waiting', 'inside', 'inside']);
    all[0]?.leave();
    await quiet();
    expect(states(all)[2]).toBe('inside');
  });

  test('refuses with a Retry-After who would wait when too many do', async () => {
    const admission = createAdmission(LIMITS);
    const all = await visits(admission, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect(states(all).slice(4)).toEqual(['waiting', 'waiting', 'waiting', 'gone']);
    expect(all[7]?.refusal).toMatchObject({
      name: 'GatewayError',
      reason: 'overloaded',
      status: 503,
      headers: { 'retry-after': '5' },
    });
    expect(admission.usage()).toEqual({ atEngine: 4, waiting: 3 });
  });

  test('leaves the last quarter of its queue to users who have not the rest of it', async () => {
    const admission = createAdmission({ concurrency: 1, per_user: 1, queue: 8 });
    const greedy = await visits(admission, Array<string>(8).fill('a'));
    expect(states(greedy)).toEqual(['inside', ...Array<string>(6).fill('waiting'), 'gone']);
    expect(greedy[7]?.refusal).toMatchObject({
      reason: 'overloaded',
      message: 'Too many of your requests wait for the engine; try again.',
      headers: { 'retry-after': '5' },
    });
    const others = await visits(admission, ['b', 'c', 'd']);
    expect(states(others)).toEqual(['waiting', 'waiting', 'gone']);
    expect(others[2]?.refusal).toMatchObject({
      message: 'Too many requests wait for the engine; try again.',
    });
    greedy[0]?.leave();
    greedy[1]?.giveUp();
    await quiet();
    expect(states(await visits(admission, ['a', 'a']))).toEqual(['waiting', 'gone']);
  });

  test('does not refuse a user who need not wait because another one fills the queue', async () => {
    const admission = createAdmission(LIMITS);
    const greedy = await visits(admission, ['a', 'a', 'a', 'a', 'a', 'a']);
    expect(states(greedy)).toEqual(['inside', 'inside', 'waiting', 'waiting', 'waiting', 'gone']);
    const [other] = await visits(admission, ['b']);
    expect(other?.state).toBe('inside');
  });

  test('counts as waiting only who has to, also in one moment', async () => {
    const admission = createAdmission({ concurrency: 10, per_user: 1, queue: 1 });
    const all = await visits(admission, ['a', 'b', 'c', 'a', 'd', 'a']);
    expect(states(all)).toEqual(['inside', 'inside', 'inside', 'waiting', 'inside', 'gone']);
  });

  test('with no queue refuses whoever has to wait', async () => {
    const admission = createAdmission({ concurrency: 2, per_user: 2, queue: 0 });
    expect(states(await visits(admission, ['a', 'b', 'c']))).toEqual(['inside', 'inside', 'gone']);
  });

  test('forgets who gives up waiting, wherever they waited', async () => {
    const admission = createAdmission(LIMITS);
    const all = await visits(admission, ['a', 'a', 'a', 'b', 'c', 'd']);
    expect(states(all)).toEqual(['inside', 'inside', 'waiting', 'inside', 'inside', 'waiting']);
    all[2]?.giveUp();
    all[5]?.giveUp();
    await quiet();
    expect(all[2]?.refusal).toEqual(new Error('gave up'));
    expect(all[5]?.refusal).toEqual(new Error('gave up'));
    expect(admission.usage()).toEqual({ atEngine: 4, waiting: 0 });
    all[0]?.leave();
    const [next] = await visits(admission, ['a']);
    expect(next?.state).toBe('inside');
  });

  test('does not forget who comes in the very turn in which another request of that user gave up', async () => {
    const admission = createAdmission({ concurrency: 1, per_user: 1, queue: 1 });
    const [first, second] = await visits(admission, ['a', 'a']);
    second?.giveUp();
    const other = visit(admission, 'b');
    first?.leave();
    const third = visit(admission, 'a');
    await quiet();
    expect(states([other, third])).toEqual(['inside', 'waiting']);
    other.leave();
    await quiet();
    expect(third.state).toBe('inside');
  });

  test('takes a place back once, however often that is said', async () => {
    const admission = createAdmission({ concurrency: 1, per_user: 1, queue: 1 });
    const leave = await admission.admit('a', new AbortController().signal, PATIENCE);
    leave();
    leave();
    expect(admission.usage()).toEqual({ atEngine: 0, waiting: 0 });
    await admission.admit('b', new AbortController().signal, PATIENCE);
    leave();
    expect(admission.usage()).toEqual({ atEngine: 1, waiting: 0 });
  });

  test('lets users in by turns, however many requests of one came first', async () => {
    const admission = createAdmission({ concurrency: 2, per_user: 2, queue: 20 });
    const greedy = await visits(admission, Array<string>(6).fill('a'));
    const others = await visits(admission, ['b', 'c', 'b']);
    greedy[0]?.leave();
    greedy[1]?.leave();
    await quiet();
    expect(states([...others, ...greedy.slice(2)])).toEqual([
      ...['inside', 'waiting', 'waiting'],
      ...['inside', 'waiting', 'waiting', 'waiting'],
    ]);
    others[0]?.leave();
    greedy[2]?.leave();
    await quiet();
    expect(states([...others, ...greedy.slice(3)])).toEqual([
      ...['gone', 'inside', 'inside'],
      ...['waiting', 'waiting', 'waiting'],
    ]);
  });

  test('refuses a request that has waited as long as it may, and keeps no place for it', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] });
    const admission = createAdmission({ ...LIMITS, concurrency: 1 });
    const [first] = await visits(admission, ['a']);
    const { signal } = new AbortController();
    const waits = admission.admit('b', signal, 2_000).catch((error: unknown) => error);
    const longer = visit(admission, 'c');
    jest.advanceTimersByTime(1_999);
    await quiet();
    expect(admission.usage()).toEqual({ atEngine: 1, waiting: 2 });
    jest.advanceTimersByTime(1);
    expect(await waits).toMatchObject({ reason: 'overloaded', headers: { 'retry-after': '5' } });
    first?.leave();
    await quiet();
    expect([longer.state, admission.usage()]).toEqual(['inside', { atEngine: 1, waiting: 0 }]);
    jest.useRealTimers();
  });

  test('refuses at once a request whose signal has aborted', async () => {
    const admission = createAdmission(LIMITS);
    const gone = AbortSignal.abort(new Error('gone'));
    await expect(admission.admit('a', gone, PATIENCE)).rejects.toThrow('gone');
    expect(admission.usage()).toEqual({ atEngine: 0, waiting: 0 });
  });

  test('keeps its limits whatever happens, wastes no place, and all leave', async () => {
    const limits = fc.record({
      concurrency: fc.integer({ min: 1, max: 5 }),
      per_user: fc.integer({ min: 1, max: 3 }),
      queue: fc.nat({ max: 5 }),
    });
    const action = fc.record({
      do: fc.constantFrom('come', 'come', 'leave', 'give up'),
      user: fc.constantFrom('a', 'b', 'c'),
      who: fc.nat({ max: 1_000 }),
      // Several things may happen before anything else runs.
      pause: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(limits, fc.array(action, { maxLength: 50 }), async (limits, actions) => {
        const admission = createAdmission(limits);
        const all: Visit[] = [];
        const those = (state: Visit['state']) => all.filter((one) => one.state === state);
        for (const { do: what, user, who, pause } of actions) {
          const inside = those('inside');
          const waiting = those('waiting');
          if (what === 'come') all.push(visit(admission, user));
          else if (what === 'leave') inside[who % inside.length]?.leave();
          else waiting[who % waiting.length]?.giveUp();
          expect(those('inside').length).toBeLessThanOrEqual(limits.concurrency);
          if (!pause) continue;
          await quiet();
          check(admission, limits, all);
        }
        for (let left = all.length; left > 0; left -= 1) {
          await quiet();
          check(admission, limits, all);
          those('inside')[0]?.leave();
        }
        await quiet();
        expect(those('waiting')).toEqual([]);
        expect(admission.usage()).toEqual({ atEngine: 0, waiting: 0 });
      }),
      { numRuns: sizes.propertyRuns },
    );
  });
});

function check(
  admission: Admission,
  limits: { concurrency: number; per_user: number; queue: number },
  all: readonly Visit[],
): void {
  const inside = all.filter(({ state }) => state === 'inside');
  const waiting = all.filter(({ state }) => state === 'waiting');
  const of = (user: string) => inside.filter((one) => one.user === user).length;
  expect(inside.length).toBeLessThanOrEqual(limits.concurrency);
  expect(waiting.length).toBeLessThanOrEqual(limits.queue);
  expect(admission.usage()).toEqual({ atEngine: inside.length, waiting: waiting.length });
  for (const user of ['a', 'b', 'c']) expect(of(user)).toBeLessThanOrEqual(limits.per_user);
  const couldGoIn = waiting.filter(({ user }) => of(user) < limits.per_user);
  expect(inside.length === limits.concurrency || couldGoIn.length === 0).toBe(true);
}
