import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import type { GatewayEvent } from '../../../../src/common/events.ts';
import { createMemoryFleet, type FleetStore, fleetOf } from '../../../../src/freshness/fleet.ts';
import { createCandidates, planned, type Way } from '../../../../src/features/warm/candidates.ts';
import { handClock } from '../../cache/fakes.ts';
import { answered, asked } from '../../../support/answered.ts';

const DAY = 24 * 3_600_000;
const wayOf = (part = '', body = '<body/>'): Way => ({
  project: null,
  query: [],
  headers: {},
  body,
  session: null,
  part,
});

/** Several processes that share their notes. */
function fleet() {
  const clock = handClock();
  const store = createMemoryFleet(clock);
  const events: GatewayEvent[] = [];
  const member = (holder: string, queries = 200, own: FleetStore = store(holder)) => {
    const candidates = createCandidates({
      clock,
      fleet: own,
      emit: (event) => events.push(event),
    });
    candidates.configure({ mode: 'auto', queries });
    /** Asked as a user does: the way first, then the answer. */
    const ask = (digest: string, ms = 100, user = 'alice', way = wayOf(), subject = 'Execute') => {
      const facts = { subject, project: '', catalogs: ['Shop'], way };
      candidates.noteWay(digest, way.part, user, () => facts);
      candidates.on(asked(ms, { digest, principal: user }));
    };
    return { ...candidates, ask };
  };
  return { clock, member, events, store };
}

type Member = ReturnType<ReturnType<typeof fleet>['member']>;
const listed = async (member: Member, now: number, most = 200) =>
  planned((await member.list()).candidates, most, now).map(({ digest }) => digest);

describe('a candidate', () => {
  test('is what was asked twice in seven days, hits included, also of clients that left; a miss that broke off does not count', async () => {
    const { clock, member } = fleet();
    const one = member('a');
    one.ask('twice');
    one.ask('once');
    one.ask('broken');
    one.ask('left');
    one.ask('long ago');
    one.on(answered({ digest: 'long ago' }));
    clock.advance(6 * DAY);
    one.on(answered({ digest: 'twice' }));
    one.on(answered({ digest: 'broken', outcome: { kind: 'miss' }, complete: false }));
    one.on(answered({ digest: 'left', complete: false }));
    one.on(answered({ digest: 'never noted' }));
    clock.advance(0.5 * DAY);
    expect((await listed(one, clock.wall())).sort()).toEqual(['left', 'long ago', 'twice']);
    clock.advance(0.6 * DAY);
    expect(await listed(one, clock.wall())).toEqual([]);
  });

  test('is worth its asks, which fade, times what the engine needs', async () => {
    const { clock, member } = fleet();
    const one = member('a');
    for (let times = 0; times < 10; times += 1) one.ask('often long ago', 100);
    clock.advance(6 * DAY);
    for (let times = 0; times < 4; times += 1) one.ask('lately', 100);
    for (let times = 0; times < 2; times += 1) one.ask('slow', 1_000);
    expect(await listed(one, clock.wall())).toEqual(['slow', 'lately', 'often long ago']);
    expect(await listed(one, clock.wall(), 1)).toEqual(['slow']);
  });

  test('has up to four ways and eight users', async () => {
    const { member } = fleet();
    const one = member('a');
    for (let at = 0; at < 12; at += 1) one.ask('d', 100, `user ${at}`, wayOf(`part ${at}`));
    const [{ ways, users } = { ways: [], users: [] }] = (await one.list()).candidates;
    expect([ways.length, users.length]).toEqual([4, 8]);
  });
});

test('metadata of the catalogs that are asked for most comes first, and takes half of a run at most', () => {
  const now = 10 * DAY;
  const candidate = (digest: string, subject: string, catalog: string, asks: number) => ({
    ...{ digest, subject, project: '', catalogs: [catalog], asks, last: now, before: now },
    ...{ ms: 10, bytes: 0, users: [], ways: [] },
  });
  const all = [
    candidate('cold cubes', 'MDSCHEMA_CUBES', 'Cold', 9),
    candidate('hot levels', 'MDSCHEMA_LEVELS', 'Hot', 2),
    candidate('hot cubes', 'MDSCHEMA_CUBES', 'Hot', 3),
    candidate('query', 'Execute', 'Hot', 90),
    candidate('other', 'Execute', 'Cold', 4),
  ];
  const order = (most: number) => planned(all, most, now).map(({ digest }) => digest);
  expect(order(4)).toEqual(['hot cubes', 'hot levels', 'query', 'other']);
  expect(order(9)).toEqual(['hot cubes', 'hot levels', 'cold cubes', 'query', 'other']);
  expect(order(1)).toEqual(['query']);
});

describe('where others’ asks would fill the rest, one user has at most a quarter', () => {
  const digests = (from: string, count: number) =>
    Array.from({ length: count }, (_, at) => `${from} ${at}`);
  const twice = (one: Member, ms: number, user: string, all: readonly string[], subject?: string) =>
    all.forEach((digest) => {
      one.ask(digest, ms, user, wayOf(), subject);
      one.ask(digest, ms, user, wayOf(), subject);
    });

  test('of a run, and of the list from which it is made', async () => {
    const { clock, member } = fleet();
    const one = member('a', 20);
    twice(one, 9_000, 'mallory', digests('costly', 100));
    twice(one, 9_000, 'mallory', digests('levels', 100), 'MDSCHEMA_LEVELS');
    for (const user of ['alice', 'bob', 'carol', 'dave'])
      twice(one, 100, user, digests(`of ${user}`, 5));
    const run = await listed(one, clock.wall(), 20);
    expect(run).toHaveLength(20);
    expect(run.filter((digest) => /costly|levels/.test(digest)).length).toBeLessThanOrEqual(5);
  });

  test('and what several ask is of none of them', async () => {
    const { clock, member } = fleet();
    const one = member('a', 8);
    twice(one, 9_000, 'mallory', digests('shared', 8));
    twice(one, 9_000, 'bob', digests('shared', 8));
    twice(one, 100, 'alice', digests('of alice', 8));
    expect(await listed(one, clock.wall(), 8)).toEqual(digests('shared', 8));
  });

  test('of the memory of a process, of which long bodies would take all', async () => {
    const { member } = fleet();
    const one = member('a');
    const long = wayOf('', 'x'.repeat(64 * 1024));
    for (const user of ['alice', 'bob', 'carol']) twice(one, 1, user, digests(`of ${user}`, 10));
    for (const digest of digests('long', 200)) {
      one.ask(digest, 9_000, 'mallory', long);
      one.ask(digest, 9_000, 'mallory', long);
    }
    const { candidates } = await one.list();
    expect(candidates.filter(({ users: [user] }) => user !== 'mallory')).toHaveLength(30);
  });

  test('but who is alone has all', async () => {
    const { clock, member } = fleet();
    const one = member('a', 8);
    twice(one, 100, 'alice', digests('d', 8));
    expect(await listed(one, clock.wall(), 8)).toHaveLength(8);
  });
});

describe('the list of all', () => {
  test('adds up what each has seen, once, and outlives a process', async () => {
    const { clock, member } = fleet();
    const [one, other] = [member('a'), member('b')];
    one.ask('d', 100, 'alice');
    clock.advance(1_000);
    other.ask('d', 300, 'bob', wayOf('in a session'));
    for (const each of [one, other, one, other]) await each.share();
    clock.advance(1_000);
    one.on(answered({ digest: 'd' }));
    await one.share();
    const { candidates } = await member('c').list();
    expect(candidates).toMatchObject([{ digest: 'd', users: ['alice', 'bob'] }]);
    expect(candidates[0]?.asks).toBeCloseTo(3, 2);
    expect(candidates[0]?.ways).toHaveLength(2);
    expect(await listed(member('d'), clock.wall())).toEqual(['d']);
  });

  test('is right where it is told and read at once, however long the store takes for one of them', async () => {
    const { member, store } = fleet();
    const own = store('a');
    let writes = 0;
    const slow: FleetStore = {
      ...own,
      async write(...written) {
        if ((writes += 1) === 1) await delay(50);
        return own.write(...written);
      },
    };
    const [one, other] = [member('a', 200, slow), member('b')];
    other.ask('d');
    await other.share();
    one.ask('d');
    await Promise.all([one.share(), one.list()]);
    expect((await other.list()).candidates).toMatchObject([{ asks: 2 }]);
  });

  test('keeps the best of twice as many as a run asks, in bounded memory', async () => {
    const { clock, member } = fleet();
    const one = member('a', 3);
    const long = 'x'.repeat(64 * 1024);
    for (let at = 0; at < 200; at += 1) {
      one.ask(`d ${at}`, at + 1, 'alice', wayOf('', long));
      one.on(answered({ digest: `d ${at}` }));
    }
    const { candidates } = await one.list();
    expect(candidates.map(({ digest }) => digest)).toEqual(
      [199, 198, 197, 196, 195, 194].map((at) => `d ${at}`),
    );
    expect(await listed(one, clock.wall(), 3)).toEqual(['d 199', 'd 198', 'd 197']);
  });

  test('has the 50 beginnings that were seen last', async () => {
    const { clock, member } = fleet();
    const one = member('a');
    const profiles = ['', ...Array.from({ length: 60 }, (_, at) => `profile ${at}`)];
    for (const profile of profiles) {
      clock.advance(1);
      one.noteBeginning(profile, () => wayOf());
    }
    const { beginnings } = await one.list();
    expect(beginnings).toHaveLength(50);
    expect(beginnings[0]?.profile).toBe('profile 59');
    const other = member('b');
    other.noteBeginning('', () => wayOf());
    expect((await other.list()).beginnings).toHaveLength(50);
  });

  test.each(['', 'not deflated', Buffer.from('{}').toString('base64')])(
    'that is not one of a gateway is none: %j',
    async (text) => {
      const { member, store } = fleet();
      await store('x').write('warm:candidates', text);
      const one = member('a');
      expect((await one.list()).candidates).toEqual([]);
      one.ask('d');
      await one.share();
      expect((await one.list()).candidates).toHaveLength(1);
    },
  );

  test('is written by one process at a time; what fails is told, and tried again', async () => {
    const { member, events, store, clock } = fleet();
    const one = member('a');
    one.ask('d');
    await store('x').hold('warm:candidates', 1_000);
    expect((await one.list()).candidates).toEqual([]);
    clock.advance(1_000);
    await one.share();
    expect((await one.list()).candidates).toHaveLength(1);
    const failing = createCandidates({
      clock,
      fleet: fleetOf(() => Promise.reject(new Error('away'))),
      emit: (event) => events.push(event),
    });
    failing.configure({ mode: 'auto', queries: 1 });
    failing.noteBeginning('', () => wayOf());
    await failing.share();
    await failing.share();
    expect(events.map(({ type }) => type)).toEqual(['redis-failed', 'redis-failed']);
  });

  test('is empty while the warm-up is off, when nothing is made of a request', async () => {
    const { member, store } = fleet();
    const one = member('a');
    one.ask('d');
    await one.share();
    one.configure({ mode: 'off', queries: 0 });
    const made: string[] = [];
    one.noteWay('d', '', 'alice', () => void made.push('way') as undefined);
    one.noteBeginning('', () => void made.push('beginning') as undefined);
    expect([made, (await one.list()).candidates]).toEqual([[], []]);
    await one.share();
    expect(await store('x').note('warm:candidates')).toBe('');
  });
});
