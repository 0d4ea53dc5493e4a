import { beforeEach, describe, expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { createMemoryFleet, type FleetStore, fleetOf } from '../../../../src/freshness/fleet.ts';
import type { Candidate, CandidateList } from '../../../../src/features/warm/candidates.ts';
import type { AskedWay } from '../../../../src/features/warm/fill.ts';
import type { Job, WarmLine } from '../../../../src/features/warm/lane.ts';
import { createWarmUp } from '../../../../src/features/warm/warm-up.ts';
import { endedRuns, figuresOf } from '../../../support/warm-up.ts';
import { handClock, quiet } from '../../cache/fakes.ts';
import { principalOf } from '../../../../src/common/principal.ts';

const SETTINGS = {
  as: { possible: true, text: 'by itself' },
  mode: 'auto',
  settle: 30_000,
  queries: 100,
  concurrency: 1,
  budget: 600_000,
  isShared: true,
} as const;
const purged = (id: string, result: 'cleared' | 'owed' = 'cleared') =>
  ({ type: 'purged', id, result }) as GatewayEvent;

let clock: ReturnType<typeof handClock>;
let store: (holder: string) => FleetStore;
/** What the line was asked, and what it answers. */
let asked: Job[];
let answer: (job: Job) => Promise<readonly AskedWay[]>;
/** What the store has of the candidates. */
let listed: (all: CandidateList) => Promise<CandidateList>;
let pauses: number[];
let lanes: { open: number; made: number };
/** Whether the engine gets the login that asks. */
let forwards: boolean;

beforeEach(() => {
  clock = handClock();
  store = createMemoryFleet(clock);
  [asked, pauses, lanes, forwards] = [[], [], { open: 0, made: 0 }, false];
  answer = async () => [{ result: 'stored', ms: 100 }];
  listed = async (all) => all;
});

const candidate = (digest: string): Candidate => {
  const now = clock.wall();
  const way = { project: null, query: [], headers: {}, body: '', session: null, part: '' };
  const facts = { digest, subject: 'Execute', project: '', catalogs: ['Shop'] };
  return { ...facts, asks: 2, last: now, before: now, ms: 100, bytes: 10, users: [], ways: [way] };
};

/** One process, whose candidates are as many as told. */
function member(id: string, count: number, isShared = true, fleet = store(id)) {
  const events: GatewayEvent[] = [];
  let ids = 0;
  const open: WarmLine['open'] = () => {
    lanes.open += 1;
    lanes.made += 1;
    return {
      async ask(job) {
        asked.push(job);
        return answer(job);
      },
      async close() {
        lanes.open -= 1;
      },
    };
  };
  const lineOf = (): WarmLine => ({ open, forwards: () => forwards });
  let current = lineOf();
  const all = Array.from({ length: count }, (_, at) => candidate(`d ${at}`));
  const warmUp = createWarmUp({
    id,
    candidates: {
      list: () => listed({ candidates: all, beginnings: [] }),
      configure() {},
    } as never,
    fleet,
    line: () => current,
    clock,
    newId: () => `${id} ${(ids += 1)}`,
    sleep: async (milliseconds) => void pauses.push(milliseconds),
    emit: (event) => events.push(event),
  });
  warmUp.configure({ ...SETTINGS, isShared });
  return {
    ...warmUp,
    events,
    reload: () => void (current = lineOf()),
    /** Looks after so long (ms), and lets the run go to its end. */
    async after(milliseconds: number) {
      clock.advance(milliseconds);
      await warmUp.look();
      await quiet();
    },
    runs: () => endedRuns(events),
  };
}

describe('a run', () => {
  test('begins when the purges have been over for a while, once', async () => {
    const one = member('a', 3);
    one.on(purged('first'));
    await one.after(29_999);
    one.on(purged('second'));
    await one.after(29_999);
    expect(asked).toEqual([]);
    await one.after(1);
    for (let times = 0; times < 3; times += 1) await one.after(60_000);
    expect(one.runs()).toMatchObject([{ purge: 'second', by: null, planned: 3, stored: 3 }]);
    expect([asked.length, lanes.open]).toEqual([3, 0]);
    expect(one.events.map(({ type }) => type)).toEqual([
      ...['warm-run', 'warmed', 'warmed', 'warmed', 'warm-run'],
    ]);
  });

  test('is not made for a purge that is owed, where none may begin by itself, or while it is off', async () => {
    const one = member('a', 1);
    one.on(purged('owed', 'owed'));
    await one.after(60_000);
    one.configure({ ...SETTINGS, as: { possible: false, text: 'by POST only' } });
    one.on(purged('cleared'));
    await one.after(60_000);
    one.configure({ ...SETTINGS, mode: 'off' });
    one.on(purged('later'));
    await one.after(60_000);
    expect([asked, await store('x').note('warm:purge')]).toEqual([[], 'cleared']);
  });

  test('is made by one of several that share, and by each where they do not', async () => {
    for (const [isShared, runs] of [
      [true, 1],
      [false, 2],
    ] as const) {
      const [one, other] = [member('a', 1, isShared), member('b', 1, isShared)];
      one.on(purged(`purge ${isShared}`));
      await other.after(0);
      await Promise.all([one.after(60_000), other.after(0)]);
      for (let times = 0; times < 3; times += 1) {
        await one.after(1_000);
        await other.after(1_000);
      }
      expect([isShared, one.runs().length + other.runs().length]).toEqual([isShared, runs]);
    }
  });

  test('that another process began and did not end is told as such, and made anew', async () => {
    const [one, other] = [member('a', 2), member('b', 2)];
    answer = () => new Promise(() => {});
    one.on(purged('p'));
    await one.after(60_000);
    await other.after(30_000);
    answer = async () => [{ result: 'there', ms: 0 }];
    await other.after(30_000);
    expect(other.runs()).toMatchObject([{ purge: 'p', there: 2 }]);
    const { runs } = (await other.tell()) as { runs: readonly object[] };
    expect(runs).toMatchObject([{ gateway: 'b' }, { gateway: 'a', cut: 'gateway-gone' }]);
  });

  test('ends when another process purges, and one that purges meanwhile keeps it from beginning', async () => {
    const [one, other] = [member('a', 2), member('b', 2)];
    const { promise, resolve } = Promise.withResolvers<readonly AskedWay[]>();
    answer = () => promise;
    one.on(purged('first'));
    await one.after(30_000);
    other.on(purged('second'));
    await one.after(1_000);
    resolve([{ result: 'overtaken', ms: 5 }]);
    await quiet();
    expect(one.runs()).toMatchObject([{ purge: 'first', cut: 'purge', stored: 0, skipped: {} }]);
    answer = async () => [{ result: 'stored', ms: 1 }];
    clock.advance(29_000);
    const looking = one.look();
    one.on(purged('third'));
    await looking;
    await quiet();
    expect(one.runs()).toHaveLength(1);
    await one.after(30_000);
    expect(one.runs()[1]).toMatchObject({ purge: 'third', cut: null, stored: 2 });
  });

  test('goes over to the line of another configuration, and ends what it began in the other', async () => {
    const one = member('a', 3);
    answer = async () => {
      if (asked.length === 1) one.reload();
      return [{ result: 'stored', ms: 1 }];
    };
    one.on(purged('p'));
    await one.after(30_000);
    expect([one.runs()[0]?.stored, lanes]).toEqual([3, { open: 0, made: 2 }]);
  });

  test('counts each identity, and tries again what users overtook, only for those that are left', async () => {
    const one = member('a', 2);
    let tries = 0;
    answer = async ({ candidate: { digest }, done }) => {
      if (digest === 'd 1') return [{ result: 'skipped', reason: 'of-one-user', ms: 0 }];
      tries += 1;
      const isFirst = !done.has('roles:1');
      done.add('roles:1');
      const first: AskedWay[] = isFirst ? [{ result: 'stored', ms: 50 }] : [];
      if (tries < 3) return [...first, { result: 'overtaken', ms: 10 }];
      return [...first, { result: 'stored', ms: 50 }];
    };
    one.on(purged('p'));
    await one.after(30_000);
    expect(one.runs().map(figuresOf)).toMatchObject([
      { planned: 3, stored: 2, skipped: { 'of-one-user': 1 }, failed: {} },
    ]);
    expect([tries, one.runs()[0]?.engine_seconds]).toEqual([3, 0.1]);
  });

  test('leaves an engine alone that needs more than twice as long as before, as long as it needed', async () => {
    const one = member('a', 3);
    const times = [200, 201, 900];
    answer = async () => [{ result: 'stored', ms: times.shift() ?? 0 }];
    one.on(purged('p'));
    await one.after(30_000);
    expect(pauses).toEqual([201, 900]);
  });

  test.each<[string, AskedWay, number]>([
    ['failures', { result: 'failed', reason: 'engine-timeout', ms: 1 }, 5],
    ['failures', { result: 'not-stored', reason: 'fault', ms: 1 }, 5],
    ['budget', { result: 'stored', ms: 200_000 }, 3],
  ])('is cut by %s', async (cut, result, count) => {
    const one = member('a', 20);
    answer = async () => [result];
    one.on(purged('p'));
    await one.after(30_000);
    expect([one.runs()[0]?.cut, asked.length]).toEqual([cut, count]);
    await one.after(60_000);
    expect(one.runs()).toHaveLength(1);
  });

  test.each<AskedWay>([
    { result: 'skipped', reason: 'of-one-user', ms: 0 },
    { result: 'not-stored', reason: 'too-large', ms: 1 },
  ])('goes on after %j', async (result) => {
    const one = member('a', 20);
    answer = async () => [result];
    one.on(purged('p'));
    await one.after(30_000);
    expect([one.runs()[0]?.cut, asked.length]).toEqual([null, 20]);
  });

  test('that this program fails at ends, and is told', async () => {
    const one = member('a', 2);
    answer = () => Promise.reject(new TypeError('a mistake'));
    one.on(purged('p'));
    await one.after(30_000);
    expect(one.events.some(({ type }) => type === 'internal-error')).toBe(true);
    expect([one.runs().length, lanes.open]).toEqual([1, 0]);
  });

  test('of a process that was killed is told as under way for as long as another may go on, and no longer', async () => {
    const [one, other] = [member('a', 1), member('b', 1)];
    answer = () => new Promise(() => {});
    await one.begin({ principal: principalOf('ADMIN'), authorization: undefined }, {});
    await quiet();
    expect(await other.tell()).toMatchObject({ run: { gateway: 'a' }, runs: [] });
    clock.advance(11_000);
    const gone = { run: null, runs: [{ gateway: 'a', cut: 'gateway-gone' }] };
    expect(await other.tell()).toMatchObject(gone);
    expect(await other.tell()).toMatchObject(gone);
  });

  test('that an administrator asks for is kept, also while this process finds that another made one after the purge', async () => {
    const one = member('a', 1);
    const own = store('b');
    let begun: Promise<object> | undefined;
    const fleet: FleetStore = {
      ...own,
      async leave(task) {
        begun ??= other.begin({ principal: principalOf('ADMIN'), authorization: undefined }, {});
        await Promise.race([begun, quiet()]);
        await own.leave(task);
      },
    };
    const other = member('b', 1, true, fleet);
    one.on(purged('p'));
    await other.after(0);
    await one.after(60_000);
    const { promise, resolve } = Promise.withResolvers<readonly AskedWay[]>();
    answer = () => promise;
    await other.after(30_000);
    await begun;
    resolve([{ result: 'there', ms: 0 }]);
    await quiet();
    expect(await one.tell()).toMatchObject({
      run: null,
      runs: [
        { gateway: 'b', by: 'ADMIN', cut: null },
        { gateway: 'a', by: null },
      ],
    });
  });

  test('with a forwarded login leaves out what others asked, also when a reload forwards it', async () => {
    listed = async ({ beginnings, candidates }) => {
      const users = (at: number) => [[], ['bob'], ['bob', 'ADMIN']][at] ?? [];
      return {
        beginnings,
        candidates: candidates.map((one, at) => ({ ...one, users: users(at) })),
      };
    };
    const one = member('a', 3);
    const administrator = { principal: principalOf('ADMIN'), authorization: 'Basic …' };
    forwards = true;
    await one.begin(administrator, {});
    await quiet();
    expect(asked.map(({ candidate: { digest } }) => digest)).toEqual(['d 2']);
    forwards = false;
    answer = async () => {
      forwards = true;
      one.reload();
      return [{ result: 'stored', ms: 1 }];
    };
    await one.begin(administrator, {});
    await quiet();
    expect(one.runs().map(figuresOf)).toMatchObject([
      { planned: 1, stored: 1, skipped: {} },
      { planned: 3, stored: 2, skipped: { 'of-other-users': 1 } },
    ]);
    forwards = true;
    await one.begin(administrator, { queries: new Set(['d 1', 'x']) });
    await quiet();
    expect(asked.at(-1)?.candidate.digest).toBe('d 1');
  });

  test('that ends while another process reads of it is not told as lost', async () => {
    const one = member('a', 1);
    const { promise, resolve } = Promise.withResolvers<readonly AskedWay[]>();
    answer = () => promise;
    const own = store('b');
    const fleet: FleetStore = {
      ...own,
      async hold(task, life) {
        resolve([{ result: 'there', ms: 0 }]);
        await quiet();
        return own.hold(task, life);
      },
    };
    const other = member('b', 1, true, fleet);
    one.on(purged('p'));
    await one.after(30_000);
    expect(await other.tell()).toMatchObject({ run: null, runs: [{ gateway: 'a', cut: null }] });
    expect(await one.tell()).toMatchObject({ runs: [{ gateway: 'a', cut: null }] });
  });

  test('begins when the store has the candidates, and outlives a note that it does not take', async () => {
    const own = store('a');
    let failures = 2;
    const fleet: FleetStore = {
      ...own,
      async write(name, text, task) {
        if (name === 'warm:runs' && (failures -= 1) >= 0) throw new Error('late');
        return own.write(name, text, task);
      },
    };
    const one = member('a', 1, true, fleet);
    let isAway = true;
    listed = async (all) => (isAway ? Promise.reject(new Error('away')) : all);
    one.on(purged('p'));
    await one.after(30_000);
    expect(one.runs()).toEqual([]);
    isAway = false;
    await one.after(1_000);
    expect(one.runs()).toMatchObject([{ purge: 'p', stored: 1, cut: null }]);
    expect(one.events.filter(({ type }) => type === 'internal-error')).toEqual([]);
  });

  test('begins no sooner where the store is away, and then begins', async () => {
    let isAway = true;
    const own = store('a');
    const fleet = fleetOf((method, ...args) =>
      isAway
        ? Promise.reject(new Error('away'))
        : (own[method] as (...given: readonly unknown[]) => Promise<unknown>)(...args),
    );
    const one = member('a', 1, true, fleet);
    one.on(purged('p'));
    await one.after(60_000);
    await expect(
      one.begin({ principal: principalOf('ADMIN'), authorization: undefined }, {}),
    ).rejects.toThrow('Redis does not answer');
    expect(await one.tell()).toMatchObject({ complete: false });
    expect(asked).toEqual([]);
    isAway = false;
    await one.after(1_000);
    expect(one.runs()).toMatchObject([{ purge: 'p', stored: 1 }]);
    expect(await store('x').note('warm:purge')).toBe('p');
  });
});
