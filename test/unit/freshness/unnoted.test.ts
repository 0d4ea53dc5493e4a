import { describe, expect, test } from '@jest/globals';
import type { SessionCall } from '../../../src/freshness/freshness-store.ts';
import { createMemoryStore } from '../../../src/freshness/memory-store.ts';
import { createUnnoted, noteIn, type Note } from '../../../src/freshness/unnoted.ts';
import { sessionRecord } from '../../support/session-calls.ts';
import { handClock, quiet } from '../cache/fakes.ts';

describe('the table of sessions to be noted', () => {
  const session = (name: string, principal: string) => ({
    name,
    record: sessionRecord({ principal }),
    shared: false,
  });

  function table(note: Note) {
    const sleepers: (() => void)[] = [];
    const sleep = () => new Promise<void>((resolve) => sleepers.push(resolve));
    return { unnoted: createUnnoted(note, sleep), sleepers };
  }

  test('notes some at one time, and tries with one while the store is away', async () => {
    let away = true;
    const under = { way: 0, most: 0, tries: 0, noted: 0 };
    const { unnoted, sleepers } = table(async () => {
      under.way += 1;
      under.tries += 1;
      under.most = Math.max(under.most, under.way);
      await Promise.resolve();
      under.way -= 1;
      if (away) throw new Error('away');
      under.noted += 1;
    });
    for (let at = 0; at < 10_000; at += 1) unnoted.keep(session(`${at}`, `user ${at % 10}`));
    for (let again = 0; again < 3; again += 1) {
      await quiet();
      for (const wake of sleepers.splice(0)) wake();
    }
    await quiet();
    expect(under.tries).toBeLessThan(10);
    away = false;
    for (const wake of sleepers.splice(0)) wake();
    while (unnoted.get('0') !== undefined) await quiet();
    expect([under.noted, under.most]).toEqual([10_000, 200]);
  });

  test('one that the store never takes keeps no other waiting', async () => {
    const noted: string[] = [];
    const { unnoted, sleepers } = table(async ({ name }) => {
      if (name === 'last') throw new Error('WRONGTYPE');
      noted.push(name);
    });
    for (let at = 0; at < 1_000; at += 1) unnoted.keep(session(`${at}`, `user ${at % 10}`));
    unnoted.keep(session('last', 'user'));
    for (let again = 0; again < 20; again += 1) {
      await quiet();
      for (const wake of sleepers.splice(0)) wake();
    }
    expect(noted).toHaveLength(1_000);
    expect(unnoted.close()).toMatch(/ lost: 1$/u);
  });

  test('gives no user more than a quarter of it', () => {
    const { unnoted } = table(() => new Promise(() => {}));
    const bobs = session('of bob', 'bob');
    unnoted.keep(bobs);
    for (let at = 0; at < 100_000; at += 1) unnoted.keep(session(`${at}`, 'alice'));
    expect([unnoted.get('of bob'), unnoted.get('0')]).toEqual([bobs, undefined]);
    expect(unnoted.close()).toMatch(/ lost: 25001$/u);
  });
});

test('a session that a gateway notes is there all the while when another one has noted it already', async () => {
  let made = 0;
  const newToken = () => `token ${(made += 1)}`;
  const store = createMemoryStore({ clock: handClock(), newToken });
  const session = { name: 'lost', record: sessionRecord(), shared: true };
  const seen: unknown[] = [];
  const watched = {
    async session(name: string, call: SessionCall) {
      const reply = await store.session(name, call);
      seen.push((await store.session(name, { do: 'peek' })).record);
      return reply;
    },
  };
  await noteIn({ store, newToken }, async () => {})(session);
  await noteIn({ store: watched, newToken }, async () => {})(session);
  expect(seen.length).toBeGreaterThan(0);
  for (const record of seen) expect(record).toMatchObject({ ...session.record, dirty: true });
});
