import { describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { createMemoryStore } from '../../../src/freshness/memory-store.ts';
import { sessionName } from '../../../src/sessions/digests.ts';
import { handClock, quiet } from '../cache/fakes.ts';
import { BEGUN, ending, find, known, LEASE, NAME, OTHER, replica, word } from './replica.ts';

const HOUR = 3_600_000;

describe('a session that the gateway knows', () => {
  test('is used for one lease from when it was asked for, and then asked for again', async () => {
    const { sessions, store, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    clock.advance(LEASE);
    store.prompt = false;
    const found = sessions.find(NAME);
    clock.advance(400);
    await store.call('read').reply();
    expect(word(await found)).toBe('clean');
    clock.advance(599);
    expect(sessions.find(NAME)).not.toBeInstanceOf(Promise);
    clock.advance(1);
    const again = sessions.find(NAME);
    expect(again).toBeInstanceOf(Promise);
    await store.call('read').reply();
    expect(word(await again)).toBe('clean');
  });

  test('is held exactly when it is found without a promise', async () => {
    const { sessions, store, clock } = replica();
    const names = [NAME, OTHER, { ...NAME, endpoint: 'elsewhere' }, { ...NAME, id: 'ONE' }];
    let asked = 0;
    const agree = async () => {
      for (const name of names) {
        const [now, reads] = [sessions.held(name), store.calls.length];
        expect(store.calls).toHaveLength(reads);
        const found = sessions.find(name);
        if (found instanceof Promise) asked += 1;
        expect(now).toEqual(found instanceof Promise ? undefined : found);
        await found;
      }
    };
    await agree();
    await sessions.begin(NAME, BEGUN);
    await agree();
    expect(names.map((name) => sessions.held(name)?.kind)).toEqual([
      'known',
      undefined,
      'unknown',
      'unknown',
    ]);
    clock.advance(LEASE - 1);
    await agree();
    clock.advance(1);
    await agree();
    await sessions.dirty([NAME]);
    await agree();
    expect(word(await sessions.find(NAME))).toBe('dirty');
    await sessions.dirtyAll();
    expect(names.map((name) => sessions.held(name))).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    await agree();
    await sessions.end(NAME);
    await agree();
    expect(asked).toBeGreaterThan(4);
  });

  test('is not used when the wall clock was set back', async () => {
    const { sessions, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    expect(sessions.find(NAME)).not.toBeInstanceOf(Promise);
    clock.stepWall(-1);
    expect(sessions.find(NAME)).toBeInstanceOf(Promise);
  });

  test('is not used when the reply took as long as the lease; it is asked for again, not for ever', async () => {
    const { sessions, store, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    clock.advance(LEASE);
    store.prompt = false;
    const found = sessions.find(NAME);
    let asked = 0;
    while (store.calls.length > 0) {
      asked += 1;
      clock.advance(LEASE);
      await store.call('read').reply();
      await quiet();
    }
    expect([word(await found), asked]).toEqual(['unavailable', 4]);
  });

  test('is read once for all who ask at one time', async () => {
    const { sessions, store } = replica();
    store.prompt = false;
    const all = [sessions.find(NAME), sessions.find(NAME), sessions.find(OTHER)];
    expect(store.calls).toHaveLength(2);
    for (const call of [...store.calls]) await call.reply();
    expect((await Promise.all(all)).map(word)).toEqual(['unknown', 'unknown', 'unknown']);
  });

  test('holds what it was begun with', async () => {
    const { sessions, clock } = replica();
    const given = { principal: 'bob', profile: 'x', catalog: 'Sales', replica: 'r2' };
    expect(await sessions.begin(NAME, given)).toBe(true);
    expect(await known(sessions)).toMatchObject({
      ...given,
      dirty: false,
      forwardedAt: clock.wall(),
    });
    expect(await find(sessions, { endpoint: 'another engine', id: NAME.id })).toBe('unknown');
  });

  test('is unavailable when the store is away, which is told; and known when it is back', async () => {
    const { sessions, store, clock, errors } = replica();
    await sessions.begin(NAME, BEGUN);
    clock.advance(LEASE);
    store.away = true;
    expect(await find(sessions)).toBe('unavailable');
    expect(errors).toHaveLength(1);
    store.away = false;
    expect(await find(sessions)).toBe('clean');
  });

  test('is unknown after its end', async () => {
    const { sessions } = replica();
    await sessions.begin(NAME, BEGUN);
    await sessions.end(NAME);
    expect(await find(sessions)).toBe('unknown');
  });

  test('is not clean here after its end also when the store was not told, and what happens in it is told then', async () => {
    const { sessions, store, shared, errors } = replica();
    await sessions.begin(NAME, BEGUN);
    const record = await known(sessions);
    store.away = true;
    await sessions.end(NAME);
    expect(errors).toHaveLength(1);
    store.away = false;
    expect(await find(sessions)).toBe('dirty');
    expect(await sessions.confirm(NAME, record)).toBe(false);
    expect(await sessions.dirty([NAME])).toBe(true);
    expect((await shared.read(sessionName(NAME))).record?.dirty).toBe(true);
  });

  test('is not what a read of before its end says', async () => {
    const { sessions, store, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    clock.advance(LEASE);
    store.prompt = false;
    const found = sessions.find(NAME);
    const read = store.call('read');
    await read.execute();
    store.prompt = true;
    await sessions.end(NAME);
    await read.reply();
    expect(word(await found)).toBe('unknown');
  });
});

describe('the end of a session', () => {
  test('counts, whatever a question says that the store answered before', async () => {
    const { sessions, store } = replica();
    await sessions.begin(NAME, BEGUN);
    const record = await known(sessions);
    store.prompt = false;
    const ended = sessions.end(NAME);
    const confirmed = sessions.confirm(NAME, record);
    const read = store.call('read');
    await read.execute();
    await store.call('end').reply();
    await ended;
    store.prompt = true;
    await read.reply();
    expect(await confirmed).toBe(false);
    expect(await find(sessions)).toBe('unknown');
  });
});

describe('a gateway without Redis', () => {
  test('finds what it knows without waiting, also long after', async () => {
    const { sessions, clock } = replica({ lease: HOUR });
    await sessions.begin(NAME, BEGUN);
    clock.advance(3_599_999);
    const found = sessions.find(NAME);
    if (found instanceof Promise || found.kind !== 'known') throw new Error('not known at once');
    expect(await sessions.confirm(NAME, found.record)).toBe(true);
    await sessions.dirty([NAME]);
    expect(await sessions.confirm(NAME, found.record)).toBe(false);
    const after = sessions.find(NAME);
    if (after instanceof Promise) throw new Error('not known at once');
    expect(word(after)).toBe('dirty');
  });

  test('keeps a session for days that is used now and then', async () => {
    const { sessions, clock } = replica({ lease: HOUR });
    await sessions.begin(NAME, BEGUN);
    await sessions.begin(OTHER, BEGUN);
    for (let hour = 0; hour < 72; hour += 1) {
      clock.advance(3_600_000);
      expect(await find(sessions)).toBe('clean');
    }
    expect(await find(sessions, OTHER)).toBe('unknown');
  });
});

describe('that a request was forwarded', () => {
  test('is stored at most every 30 seconds for a session, and known here at once', async () => {
    const { sessions, store, shared, clock } = replica({ lease: HOUR });
    await sessions.begin(NAME, BEGUN);
    const touches = () => store.asked.filter((method) => method === 'touch').length;
    const old = await known(sessions);
    clock.advance(29_999);
    sessions.forwarded(NAME, old);
    expect(touches()).toBe(0);
    clock.advance(1);
    sessions.forwarded(NAME, old);
    sessions.forwarded(NAME, old);
    expect(touches()).toBe(1);
    expect((await known(sessions)).forwardedAt).toBe(clock.wall());
    expect(await shared.read(sessionName(NAME))).toMatchObject({
      record: { forwardedAt: clock.wall() },
    });
    clock.advance(30_000);
    sessions.forwarded(NAME, old);
    expect(touches()).toBe(2);
  });

  test('is noted although another gateway whose clock runs ahead did so', async () => {
    const { sessions, store, shared, clock } = replica();
    await sessions.begin(NAME, BEGUN);
    await shared.touch(sessionName(NAME), clock.wall() + 60_000);
    clock.advance(LEASE);
    sessions.forwarded(NAME, await known(sessions));
    expect(store.asked).toContain('touch');
  });

  test('harms nobody when it cannot be noted', async () => {
    const { sessions, store, clock, errors } = replica();
    await sessions.begin(NAME, BEGUN);
    const record = await known(sessions);
    clock.advance(30_000);
    store.away = true;
    sessions.forwarded(NAME, record);
    await quiet();
    expect(errors).toHaveLength(1);
  });
});

describe('a session whose first catalog is named', () => {
  const SALES = { catalog: 'Sales', profile: 'p+Sales' };
  const HR = { catalog: 'HR', profile: 'p+HR' };

  async function begun(others = 0) {
    const one = replica();
    await one.sessions.begin(NAME, BEGUN);
    one.store.others = others;
    return { ...one, record: await known(one.sessions) };
  }

  test('has it when nobody uses what was', async () => {
    const { sessions, sleepers, record } = await begun(LEASE);
    const taken = sessions.takeCatalog(NAME, record, SALES);
    const state = ending(taken);
    await quiet();
    expect(state.over).toBe(false);
    expect(sleepers.map(({ milliseconds }) => milliseconds)).toEqual([LEASE * 1.1]);
    sleepers[0]?.wake();
    expect(await taken).toBe(true);
    expect(await known(sessions)).toMatchObject({ ...SALES, dirty: false });
    expect(await sessions.confirm(NAME, record)).toBe(false);
    expect(await sessions.confirm(NAME, await known(sessions))).toBe(true);
  });

  test('goes to the engine by no other request that names it while a gateway may use what was', async () => {
    const clock = handClock();
    const keeper = createMemoryStore({ clock, newToken: randomUUID });
    const [one, other, third] = ['one', 'other', 'third'].map((id) =>
      replica({
        clock,
        behind: {
          session: (name, call) => keeper.session(name, call, { id, lease: LEASE }),
          renew: (scopes) => keeper.renew(scopes, { id, lease: LEASE }),
        },
      }),
    );
    if (!one || !other || !third) throw new Error('there are three');
    await one.sessions.begin(NAME, BEGUN);
    await find(other.sessions);
    void one.sessions.takeCatalog(NAME, await known(one.sessions), SALES);
    await quiet();
    clock.advance(LEASE / 2);
    for (const { sessions, sleepers } of [one, third]) {
      const record = await known(sessions);
      expect(record).toMatchObject(SALES);
      const state = ending(sessions.settled(record));
      await quiet();
      expect(state.over).toBe(false);
      expect(sleepers.at(-1)?.milliseconds).toBeCloseTo(LEASE * 0.6);
    }
    clock.advance(LEASE * 0.6);
    const waits = third.sleepers.length;
    await third.sessions.settled(await known(third.sessions));
    expect(third.sleepers).toHaveLength(waits);
  });

  test('is dirty when two requests name different ones at one time', async () => {
    const { sessions, record } = await begun();
    await Promise.all([
      sessions.takeCatalog(NAME, record, SALES),
      sessions.takeCatalog(NAME, record, HR),
    ]);
    expect(await find(sessions)).toBe('dirty');
  });

  test('is clean when two requests name the same one at one time', async () => {
    const { sessions, shared, record } = await begun();
    const both = await Promise.all([
      sessions.takeCatalog(NAME, record, SALES),
      sessions.takeCatalog(NAME, record, SALES),
    ]);
    expect(both).toEqual([true, true]);
    expect(await find(sessions)).toBe('clean');
    expect((await shared.read(sessionName(NAME))).record).toMatchObject({ ...SALES, dirty: false });
  });

  test('is not what a read says that the store answered before', async () => {
    const { sessions, store, clock, record } = await begun();
    clock.advance(LEASE);
    store.prompt = false;
    const found = sessions.find(NAME);
    const taken = sessions.takeCatalog(NAME, record, SALES);
    const read = store.call('read');
    await read.execute();
    await store.call('take').reply();
    await taken;
    await read.reply();
    await quiet();
    store.prompt = true;
    for (const call of [...store.calls]) await call.reply();
    expect(await found).toMatchObject({ kind: 'known', record: SALES });
    expect(await known(sessions)).toMatchObject(SALES);
  });

  test('is not remembered without it by a read that was answered before it was set', async () => {
    const { sessions, store, clock, record } = await begun();
    clock.advance(LEASE);
    store.prompt = false;
    const found = sessions.find(NAME);
    const taken = sessions.takeCatalog(NAME, record, SALES);
    await store.call('read').reply();
    expect(await found).toMatchObject({ record: { catalog: null } });
    await store.call('take').reply();
    await taken;
    store.prompt = true;
    expect(await known(sessions)).toMatchObject(SALES);
  });

  test('is waited for by who comes before the store has answered', async () => {
    const { sessions, store, record } = await begun();
    store.prompt = false;
    const taken = sessions.takeCatalog(NAME, record, SALES);
    expect(sessions.held(NAME)).toBeUndefined();
    const found = sessions.find(NAME);
    store.prompt = true;
    await store.call('take').reply();
    await taken;
    expect(await found).toMatchObject({ kind: 'known', record: SALES });
    expect(sessions.held(NAME)).toMatchObject({ kind: 'known', record: SALES });
  });

  test.each(['dirty', 'dirtyAll'] as const)(
    'is dirty when %s came while it waited',
    async (change) => {
      const { sessions, store, sleepers, record } = await begun(LEASE);
      const taken = sessions.takeCatalog(NAME, record, SALES);
      await quiet();
      store.others = 0;
      await (change === 'dirty' ? sessions.dirty([NAME]) : sessions.dirtyAll());
      sleepers[0]?.wake();
      expect(await taken).toBe(true);
      expect(await find(sessions)).toBe('dirty');
    },
  );

  test('is dirty when the store did not say whether it has it', async () => {
    const { sessions, store, record, shared } = await begun();
    store.prompt = false;
    const taken = sessions.takeCatalog(NAME, record, SALES);
    store.call('take').fail();
    await quiet();
    await store.call('renew').reply();
    expect(await taken).toBe(true);
    expect((await shared.read(sessionName(NAME))).record?.dirty).toBe(true);
  });

  test('is unavailable when the store is away, and dirty here from then on', async () => {
    const { sessions, store, sleepers, record } = await begun();
    store.away = true;
    const taken = sessions.takeCatalog(NAME, record, SALES);
    for (let tries = 0; tries < 2; tries += 1) {
      await quiet();
      sleepers[tries]?.wake();
    }
    expect(await taken).toBe(false);
    store.away = false;
    expect(await find(sessions)).toBe('dirty');
  });

  test('is unknown when the store does not know it any more', async () => {
    const { sessions, shared, record } = await begun();
    await shared.end(sessionName(NAME));
    expect(await sessions.takeCatalog(NAME, record, SALES)).toBe(true);
    expect(await find(sessions)).toBe('unknown');
  });
});
