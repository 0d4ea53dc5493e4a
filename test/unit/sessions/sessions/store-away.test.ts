import { describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { sessionName } from '../../../../src/sessions/digests.ts';
import { createMemoryStore } from '../../../../src/freshness/memory-store.ts';
import { sessionRecord } from '../../../support/session-calls.ts';
import { handClock, quiet } from '../../cache/fakes.ts';
import { BEGUN, ending, find, known, LEASE, NAME, OTHER, replica } from '../replica.ts';

const STORED = sessionName(NAME);

type Replica = ReturnType<typeof replica>;

/** The store is tried again, and what waits for a lease waits no longer. */
async function tryAgain({ noting }: Replica): Promise<void> {
  for (const { wake } of noting.splice(0)) wake();
  await quiet();
}

/** A store that begins anew, empty, under another incarnation. */
function lossyStore() {
  const clock = handClock();
  const made = () => createMemoryStore({ clock, newToken: randomUUID });
  let behind = made();
  return {
    clock,
    session: (...asked: Parameters<typeof behind.session>) => behind.session(...asked),
    renew: (...asked: Parameters<typeof behind.renew>) => behind.renew(...asked),
    lose: () => void (behind = made()),
  };
}

describe('a session that begins while the store is away', () => {
  async function begunAway() {
    const one = replica();
    one.store.away = true;
    expect(await one.sessions.begin(NAME, BEGUN)).toBe(false);
    return one;
  }

  test('is dirty from its first moment, and its own user’s', async () => {
    const { sessions, errors, clock } = await begunAway();
    expect(errors).toHaveLength(1);
    expect(await find(sessions)).toBe('dirty');
    clock.advance(100 * LEASE);
    const record = await known(sessions);
    expect(record).toMatchObject({ ...BEGUN, dirty: true });
    expect(await sessions.confirm(NAME, record)).toBe(false);
    expect(await find(sessions, { endpoint: 'another', id: NAME.id })).toBe('unknown');
  });

  test('may be changed at once, however often, although nothing can be told', async () => {
    const { sessions, sleepers } = await begunAway();
    expect(await sessions.dirty([NAME])).toBe(true);
    expect(await sessions.dirty([NAME])).toBe(true);
    expect(sleepers).toEqual([]);
  });

  test('may be changed at once although the store is away again when it was noted', async () => {
    const one = await begunAway();
    const { sessions, store, shared, sleepers } = one;
    store.away = false;
    await tryAgain(one);
    expect((await shared.read(STORED)).record?.dirty).toBe(true);
    store.away = true;
    expect(await sessions.dirty([NAME])).toBe(true);
    expect(sleepers).toEqual([]);
  });

  test('is noted as dirty when the store is back, and is never unknown here', async () => {
    const one = await begunAway();
    const { sessions, store, shared } = one;
    await sessions.dirty([NAME]);
    await tryAgain(one);
    expect(await shared.read(STORED)).not.toHaveProperty('record');
    store.away = false;
    store.prompt = false;
    await tryAgain(one);
    await store.call('renew').reply();
    await quiet();
    expect(await find(sessions)).toBe('dirty');
    await store.call('put').execute();
    expect(await find(sessions)).toBe('dirty');
    await store.call('put').reply();
    await quiet();
    store.prompt = true;
    expect((await shared.read(STORED)).record).toMatchObject({ ...BEGUN, dirty: true });
    expect(await find(sessions)).toBe('dirty');
    expect(await sessions.dirty([NAME])).toBe(true);
  });

  test('is noted although the store goes away again meanwhile', async () => {
    const one = await begunAway();
    const { store, shared, sessions } = one;
    store.away = false;
    store.prompt = false;
    await tryAgain(one);
    await store.call('renew').reply();
    await quiet();
    store.away = true;
    store.call('put').fail();
    await quiet();
    await tryAgain(one);
    expect(await find(sessions)).toBe('dirty');
    store.away = false;
    store.prompt = true;
    await tryAgain(one);
    expect((await shared.read(STORED)).record?.dirty).toBe(true);
  });

  test('makes one of its name dirty that the store has, and waits for who holds it', async () => {
    const one = await begunAway();
    const { store, shared, sessions, sleepers } = one;
    await sessions.dirty([NAME]);
    store.away = false;
    await shared.begin(STORED, sessionRecord({ principal: 'bob' }));
    store.others = LEASE;
    await tryAgain(one);
    expect((await shared.read(STORED)).record).toMatchObject({ ...BEGUN, dirty: true });
    const made = sessions.dirty([NAME]);
    const state = ending(made);
    await quiet();
    expect([state.over, sleepers.map(({ milliseconds }) => milliseconds)]).toEqual([
      false,
      [LEASE * 1.1],
    ]);
    sleepers[0]?.wake();
    expect(await made).toBe(true);
  });

  test('is forgotten at its end, and not noted later', async () => {
    const one = await begunAway();
    const { sessions, store, shared } = one;
    await sessions.end(NAME);
    expect(await find(sessions)).toBe('unavailable');
    store.away = false;
    await tryAgain(one);
    expect(await find(sessions)).toBe('unknown');
    expect(await shared.read(STORED)).not.toHaveProperty('record');
  });

  test('and again under its name, which was not noted yet, is dirty', async () => {
    const { sessions, store } = await begunAway();
    store.away = false;
    expect(await sessions.begin(NAME, { ...BEGUN, principal: 'bob' })).toBe(true);
    expect(await known(sessions)).toMatchObject({ principal: 'bob', dirty: true });
  });

  test('is told to be lost when the gateway ends', async () => {
    const one = await begunAway();
    await one.sessions.begin(OTHER, BEGUN);
    expect(one.unnoted.close()).toBe('sessions that Redis was not told of are lost: 2');
    one.store.away = false;
    await tryAgain(one);
    expect(await one.shared.read(STORED)).not.toHaveProperty('record');
  });
});

describe('a session whose beginning the store did not confirm', () => {
  test.each([false, true])(
    'is dirty here; a change waits until others take it for dirty too (it was noted: %s)',
    async (wasDone) => {
      const one = replica();
      const { sessions, store, shared, sleepers } = one;
      store.prompt = false;
      const begun = sessions.begin(NAME, BEGUN);
      await quiet();
      if (wasDone) await store.call('put').execute();
      store.call('put').fail();
      store.away = true;
      expect(await begun).toBe(false);
      expect((await shared.read(STORED)).record?.dirty).toBe(wasDone ? false : undefined);
      expect(await find(sessions)).toBe('dirty');
      const made = sessions.dirty([NAME]);
      for (let tries = 0; tries < 2; tries += 1) {
        await quiet();
        sleepers[tries]?.wake();
      }
      expect(await made).toBe(false);
      [store.away, store.prompt] = [false, true];
      await tryAgain(one);
      await tryAgain(one);
      expect((await shared.read(STORED)).record).toMatchObject({ ...BEGUN, dirty: true });
      expect(await sessions.dirty([NAME])).toBe(true);
    },
  );

  test('is changed only when others know, if it has the name of one that was known here', async () => {
    const { sessions, store, sleepers } = replica();
    await sessions.begin(NAME, BEGUN);
    store.away = true;
    await sessions.begin(NAME, BEGUN);
    const made = sessions.dirty([NAME]);
    for (let tries = 0; tries < 2; tries += 1) {
      await quiet();
      sleepers[tries]?.wake();
    }
    expect(await made).toBe(false);
  });
});

describe('a session that the store has lost', () => {
  async function lost() {
    const behind = lossyStore();
    const one = replica({ behind, clock: behind.clock });
    await one.sessions.begin(NAME, BEGUN);
    behind.lose();
    one.clock.advance(LEASE);
    one.store.others = LEASE;
    return { ...one, behind };
  }

  test('is dirty in the place of unknown', async () => {
    const { sessions } = await lost();
    expect(await known(sessions)).toMatchObject({ ...BEGUN, dirty: true });
  });

  test('is changed when no gateway takes it for clean from before', async () => {
    const { sessions, sleepers } = await lost();
    expect(await find(sessions)).toBe('dirty');
    const made = sessions.dirty([NAME]);
    const state = ending(made);
    await quiet();
    expect([state.over, sleepers[0]?.milliseconds]).toEqual([false, LEASE * 1.1]);
    sleepers[0]?.wake();
    expect(await made).toBe(true);
    // Once is enough.
    expect(await sessions.dirty([NAME])).toBe(true);
  });

  test.each(['take', 'renew'])('also where a %s finds that out', async (how) => {
    const behind = lossyStore();
    const { sessions } = replica({ behind, clock: behind.clock });
    await sessions.begin(NAME, BEGUN);
    const record = await known(sessions);
    behind.lose();
    const next = { catalog: 'Sales', profile: 'p+Sales' };
    const done = how === 'take' ? sessions.takeCatalog(NAME, record, next) : sessions.dirty([NAME]);
    expect(await done).toBe(true);
    expect(await find(sessions)).toBe('dirty');
  });

  test('is noted as dirty when no gateway takes it for clean from before', async () => {
    const one = await lost();
    await find(one.sessions);
    await quiet();
    expect(one.noting.map(({ milliseconds }) => milliseconds)).toEqual([LEASE * 1.1]);
    expect(await one.behind.session(STORED, { do: 'peek' })).not.toHaveProperty('record.version');
    await tryAgain(one);
    expect(await one.behind.session(STORED, { do: 'peek' })).toMatchObject({
      record: { ...BEGUN, dirty: true },
    });
    expect(await find(one.sessions)).toBe('dirty');
    // And once more.
    one.behind.lose();
    one.clock.advance(LEASE);
    expect(await find(one.sessions)).toBe('dirty');
  });

  test('is dirty at a worker that hears of it from another one, whose clock began earlier', async () => {
    const behind = lossyStore();
    behind.clock.advance(3_600_000);
    const { sessions } = replica({ behind, clock: behind.clock });
    await sessions.begin(NAME, BEGUN);
    behind.lose();
    const hears = async (more: object) => {
      const elsewhere = async (name: string) => {
        const last = sessions.last(name);
        return last && { ...last, ...more };
      };
      const other = replica({ behind, elsewhere });
      const record = await known(other.sessions);
      expect(record).toMatchObject({ ...BEGUN, dirty: true });
      void other.sessions.settled(record);
      return other.sleepers.map(({ milliseconds }) => milliseconds);
    };
    expect(await hears({})).toEqual([]);
    expect(await hears({ settles: LEASE })).toEqual([LEASE]);
  });

  test('is unknown where it has ended, and where it was never known', async () => {
    const { sessions, store, behind, shared, clock } = await lost();
    store.others = 0;
    await sessions.end(NAME);
    expect(await find(sessions)).toBe('unknown');
    expect(await find(sessions, OTHER)).toBe('unknown');
    await sessions.begin(OTHER, BEGUN);
    await shared.end(sessionName(OTHER));
    clock.advance(LEASE);
    expect(await find(sessions, OTHER)).toBe('unknown');
    expect(behind).toBeDefined();
  });

  test('is no more than told by what only explains', async () => {
    const { sessions, noting } = await lost();
    expect(await sessions.peek(NAME)).toMatchObject({ record: { dirty: true } });
    await quiet();
    expect(noting).toEqual([]);
  });
});
