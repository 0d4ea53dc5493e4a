import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { PurgeOrder, PurgeOutcome, Purges } from '../../../../src/cache/purge/purge.ts';
import type { GatewayEvent, Stale } from '../../../../src/common/events.ts';
import { createPurging } from '../../../../src/compose/purges.ts';
import { systemClock } from '../../../../src/common/clock.ts';

const SALES = { project: 'Sales' };
const ORDER = { principal: 'ADMIN', cause: 'clear-cache', authorization: 'Basic x' } as const;
const PAUSE = 60_000;

function setUp(
  given: { pause?: number; outcome?: (id: string, stale: Stale) => PurgeOutcome } = {},
) {
  const asked: [Stale, PurgeOrder][] = [];
  const events: GatewayEvent[] = [];
  const state = { pause: given.pause ?? PAUSE, id: undefined as string | undefined };
  const outcome = given.outcome ?? ((id, scope) => ({ ok: true, receipt: receipt(id, scope) }));
  const purges: Purges = {
    async purge(...order) {
      asked.push(order);
      return outcome(state.id ?? `id ${asked.length}`, order[0]);
    },
    renew: async () => true,
  };
  const repeats = createPurging(
    purges,
    () => state.pause,
    systemClock,
    (event) => events.push(event),
  );
  return { ...repeats, asked, events, state };
}

function receipt(id: string, scope: Stale) {
  return { id, scope, epochs_renewed: [], replicas: 1, waited: 0, known: true, engine_calls: 0 };
}

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

describe('a purge by clearCache', () => {
  test('is made once more after the pause, by the same principal without the login, and not again', async () => {
    const { purge, asked } = setUp();
    await purge(SALES, ORDER);
    await jest.advanceTimersByTimeAsync(PAUSE - 1);
    expect(asked).toHaveLength(1);
    await jest.advanceTimersByTimeAsync(1);
    expect(asked.slice(1)).toEqual([[SALES, { principal: 'ADMIN', cause: 'repeat' }]]);
    await jest.advanceTimersByTimeAsync(10 * PAUSE);
    expect([asked.length, jest.getTimerCount()]).toEqual([2, 0]);
  });

  test('is repeated too when an engine did not clear its own cache', async () => {
    const { purge, asked } = setUp({
      outcome: (id, scope) => ({
        ok: false,
        failed: 'engine',
        receipt: receipt(id, scope),
        engines: [],
      }),
    });
    await purge(SALES, ORDER);
    await jest.advanceTimersByTimeAsync(PAUSE);
    expect(asked).toHaveLength(2);
  });

  test('is not repeated when it is owed', async () => {
    const { purge } = setUp({ outcome: () => ({ ok: false, failed: 'redis', engines: [] }) });
    await purge(SALES, ORDER);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('is not repeated when that is switched off; a reload changes it for those that come', async () => {
    const { purge, state } = setUp({ pause: 0 });
    await purge(SALES, ORDER);
    expect(jest.getTimerCount()).toBe(0);
    state.pause = PAUSE;
    await purge(SALES, ORDER);
    state.pause = 0;
    expect(jest.getTimerCount()).toBe(1);
  });

  test('that shared a run is repeated once with it', async () => {
    const { purge, asked, state } = setUp();
    state.id = 'one run';
    for (let caller = 0; caller < 5; caller += 1) await purge(SALES, ORDER);
    await jest.advanceTimersByTimeAsync(PAUSE);
    expect(asked).toHaveLength(6);
  });
});

test.each(['change', 'statement', 'repeat'] as const)(
  'a purge because of %s is not repeated',
  async (cause) => {
    const { purge } = setUp();
    await purge(SALES, { principal: 'ADMIN', cause });
    expect(jest.getTimerCount()).toBe(0);
  },
);

test('two thousand may wait; of what is more it is warned', async () => {
  const { purge, events } = setUp();
  for (let count = 0; count < 2_001; count += 1) await purge(SALES, ORDER);
  expect(jest.getTimerCount()).toBe(2_000);
  expect(events).toEqual([
    {
      type: 'warning',
      message: 'a purge of Sales is not repeated: 2000 others wait for their repetition',
    },
  ]);
});

describe('at the end', () => {
  test('what was to be repeated is given up, and named', async () => {
    const { purge, close, asked, events } = setUp();
    await purge(SALES, ORDER);
    await purge(SALES, ORDER);
    await purge('everything', ORDER);
    close();
    expect(events).toEqual([
      { type: 'warning', message: 'purges that were to be repeated are not: Sales, everything' },
    ]);
    await jest.advanceTimersByTimeAsync(PAUSE);
    expect(asked).toHaveLength(3);
  });

  test('only so many are named as can be read', async () => {
    const { purge, close, events } = setUp();
    for (let i = 0; i < 25; i += 1) await purge({ project: `P${i}` }, ORDER);
    close();
    expect(events).toMatchObject([{ message: expect.stringMatching(/, P19 and 5 more$/) }]);
  });

  test('nothing is warned of when nothing waits, and nothing begins to wait', async () => {
    const { purge, close, events } = setUp();
    close();
    await purge(SALES, ORDER);
    expect([events, jest.getTimerCount()]).toEqual([[], 0]);
  });
});
