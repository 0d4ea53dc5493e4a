import { describe, expect, test } from '@jest/globals';
import { setUpEngine as setUp } from '../support-engine-login.ts';
import { ELSEWHERE, HERE, loggedIn, MINUTE, out, REJECTED } from '../support-file-authenticator.ts';
import { createGate, settle } from '../support.ts';

describe('verified credentials', () => {
  test('are believed without asking the engine, for the time given', async () => {
    const { login, clock, tried } = setUp();
    await login('alice', 'fast cars');
    clock.advance(MINUTE - 1);
    expect(login('alice', 'fast cars', ELSEWHERE)).toEqual(loggedIn('alice'));
    expect(tried).toHaveLength(1);
    clock.advance(1);
    await login('alice', 'fast cars');
    expect(tried).toHaveLength(2);
  });

  test('are believed from the time when the engine was asked, not when it answered', async () => {
    const { login, clock, tried, holdAt } = setUp();
    const gate = createGate();
    holdAt(gate);
    const slow = login('alice', 'fast cars');
    await settle();
    clock.advance(MINUTE - 1);
    gate.open();
    expect(await slow).toEqual(loggedIn('alice'));
    expect(login('alice', 'fast cars')).toEqual(loggedIn('alice'));
    clock.advance(1);
    await login('alice', 'fast cars');
    expect(tried).toHaveLength(2);
  });

  test('help no other password and no other spelling of the name', async () => {
    const { login, tried } = setUp();
    await login('alice', 'fast cars');
    expect(await login('alice', 'fast carz')).toEqual(REJECTED);
    expect(await login('Alice', 'fast cars')).toEqual(REJECTED);
    expect(await login('bob', 'fast cars')).toEqual(REJECTED);
    expect(tried).toHaveLength(4);
  });

  test('with a time of 0 every login is tried', async () => {
    const { login, tried } = setUp({ verifiedFor: 0 });
    await login('alice', 'fast cars');
    await login('alice', 'fast cars');
    expect(tried).toHaveLength(2);
  });

  test('that the engine no longer takes are refused, and throttled from then on', async () => {
    const { login, users, clock, tried } = setUp();
    await login('alice', 'fast cars');
    users.set('alice', 'new cars');
    clock.advance(MINUTE);
    for (let i = 0; i < 11; i += 1) expect(await login('alice', 'fast cars')).toEqual(REJECTED);
    expect(await login('alice', 'fast cars')).toEqual(out('throttled', 6));
    expect(tried).toHaveLength(12);
  });
});

describe('guessing', () => {
  test('is stopped after ten failures of a name, without asking the engine', async () => {
    const { login, tried } = setUp();
    for (let i = 0; i < 10; i += 1) await login('alice', `guess ${i}`);
    expect(await login('alice', 'fast cars')).toEqual(out('throttled', 6));
    expect(tried).toHaveLength(10);
    expect(await login('alice', 'fast cars', ELSEWHERE)).toEqual(loggedIn('alice'));
  });

  test('with one header from one client at one time is one trial', async () => {
    const { login, tried } = setUp();
    await Promise.all(Array.from({ length: 50 }, () => login('alice', 'guess')));
    expect(tried).toHaveLength(1);
  });

  test('tells an operator no name of which the engine never said that it is a user', async () => {
    const { login, events } = setUp();
    await login('fast cars', 'oops');
    await login('alice', 'wrong');
    await login('alice', 'fast cars');
    await login('alice', 'wrong');
    const common = {
      type: 'login-refused',
      id: 'id',
      reason: 'rejected',
      why: undefined,
      address: HERE,
    };
    expect(events).toEqual([
      { ...common, user: undefined },
      { ...common, user: undefined },
      { ...common, user: 'alice' },
    ]);
  });

  test('eight are tried at one time, and who works goes first, then addresses in turn', async () => {
    const { login, clock, tried, holdAt } = setUp();
    await login('bob', 'slow cars');
    clock.advance(MINUTE);
    const gate = createGate();
    holdAt(gate);
    const guesses = Array.from({ length: 72 }, (_, i) => login(`no ${i}`, 'x', ELSEWHERE));
    await settle();
    expect(tried).toHaveLength(1 + 8);
    const logins = [login('alice', 'fast cars'), login('bob', 'slow cars')];
    gate.open();
    expect(await Promise.all(logins)).toEqual([loggedIn('alice'), loggedIn('bob')]);
    await Promise.all(guesses);
    expect(tried).toHaveLength(1 + 72 + 2);
    expect(tried.slice(9, 12).map(({ name }) => name)).toEqual(['bob', 'no 8', 'alice']);
  });
});

describe('close', () => {
  test('refuses everybody, and ends what is under way', async () => {
    const { authenticator, login, holdAt, signal } = setUp();
    await login('bob', 'slow cars');
    const gate = createGate();
    holdAt(gate);
    const underWay = login('alice', 'fast cars');
    await settle();
    await authenticator.close();
    expect(signal()?.aborted).toBe(true);
    gate.open();
    expect(await underWay).toEqual(REJECTED);
    expect(login('bob', 'slow cars')).toEqual(REJECTED);
  });

  test('tries nothing that still waited', async () => {
    const { authenticator, login, holdAt, tried } = setUp();
    const gate = createGate();
    holdAt(gate);
    const logins = Array.from({ length: 12 }, (_, i) => login('alice', `${i}`, `203.0.113.${i}`));
    await settle();
    await authenticator.close();
    gate.open();
    expect(await Promise.all(logins)).toEqual(Array.from({ length: 12 }, () => REJECTED));
    expect(tried).toHaveLength(8);
  });
});
