import { describe, expect, test } from '@jest/globals';
import {
  ADMIN,
  ANALYST,
  ELSEWHERE,
  HERE,
  loggedIn,
  MINUTE,
  REJECTED,
  setUp,
} from '../support-file-authenticator.ts';
import { basic, createGate, HASHES, settle } from '../support.ts';

describe('verified credentials', () => {
  test('count without a promise and without a comparison, for the time given since their last use', async () => {
    const { login, clock, calls } = await setUp();
    await login('ANALYST', 'fast cars');
    clock.advance(MINUTE - 1);
    expect(login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    expect(login('ANALYST', 'fast cars', ELSEWHERE)).toEqual(loggedIn('ANALYST'));
    expect(calls).toHaveLength(1);
    clock.advance(MINUTE);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    expect(calls).toHaveLength(2);
  });

  test('without a time given count until the line of their user changes', async () => {
    const { login, file, clock, calls } = await setUp({ verifiedFor: undefined });
    await login('ANALYST', 'fast cars');
    clock.advance(60 * MINUTE);
    expect(login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    clock.advance(365 * 24 * 60 * MINUTE);
    expect(login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    expect(calls).toHaveLength(1);
    file.write([ADMIN, `ANALYST:${HASHES.newCars}`]);
    await file.pass(2);
    expect(await login('ANALYST', 'fast cars')).toEqual(REJECTED);
  });

  test('help no other password and no other user', async () => {
    const { login, calls } = await setUp();
    await login('ANALYST', 'fast cars');
    expect(await login('ANALYST', 'fast carz')).toEqual(REJECTED);
    expect(await login('ADMIN', 'fast cars')).toEqual(REJECTED);
    expect(calls).toHaveLength(3);
  });

  test('are the same in all spellings of their header, and are checked again once for all of these', async () => {
    const { authenticator, login, clock, calls } = await setUp();
    await login('ANALYST', 'fast cars');
    const token = basic('ANALYST', 'fast cars').slice(6);
    const spellings = Array.from({ length: 20 }, (_, i) => `BASIC ${' '.repeat(i)}${token}`);
    const ask = (header: string) => authenticator.authenticate(header, { id: 'id', address: HERE });
    expect(spellings.map(ask)).toEqual(spellings.map(() => loggedIn('ANALYST')));
    expect(await ask(`Basic ${' '.repeat(4096)}${token}`)).toEqual(REJECTED);
    expect(await ask(`Bearer ${token}`)).toEqual(REJECTED);
    clock.advance(MINUTE);
    await Promise.all(spellings.map(ask));
    expect(calls).toHaveLength(2);
  });

  test('a header of lone surrogates finds nobody', async () => {
    const { authenticator, login } = await setUp();
    await login('ANALYST', 'fast cars');
    for (const nonsense of ['Basic \ud800', 'Basic \udfff\ud800', '\ud800']) {
      expect(authenticator.authenticate(nonsense, { id: 'id', address: HERE })).toEqual(REJECTED);
    }
  });

  test('with a time of 0 every login is compared', async () => {
    const { login, calls } = await setUp({ verifiedFor: 0 });
    await login('ANALYST', 'fast cars');
    await login('ANALYST', 'fast cars');
    expect(calls).toHaveLength(2);
  });

  test.each([
    ['changed', [ADMIN, `ANALYST:${HASHES.newCars}`]],
    ['removed', [ADMIN]],
    ['renamed', [ADMIN, `ANALYST2:${HASHES.fastCars}`]],
  ])('of a user who was %s are forgotten when the file is read again', async (_case, lines) => {
    const { login, file, calls } = await setUp();
    await login('ANALYST', 'fast cars');
    await login('ADMIN', 'KYLIN');
    file.write(lines);
    await file.pass(2);
    expect(await login('ANALYST', 'fast cars')).toEqual(REJECTED);
    expect(calls).toHaveLength(3);
    // The others stay.
    expect(login('ADMIN', 'KYLIN')).toEqual(loggedIn('ADMIN'));
  });

  test('do not come back when the old line does', async () => {
    const { login, file, calls } = await setUp();
    await login('ANALYST', 'fast cars');
    file.write([ADMIN]);
    await file.pass(2);
    file.write([ADMIN, ANALYST]);
    await file.pass(2);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    expect(calls).toHaveLength(2);
  });

  test('follow a change of the file that nobody announced', async () => {
    const { login, file } = await setUp();
    await login('ANALYST', 'fast cars');
    file.write([ADMIN, `ANALYST:${HASHES.newCars}`]);
    await file.pass(2);
    expect(await login('ANALYST', 'fast cars')).toEqual(REJECTED);
    expect(await login('ANALYST', 'new cars')).toEqual(loggedIn('ANALYST'));
  });

  test('stay when the new file is wrong', async () => {
    const { login, file, calls } = await setUp();
    await login('ANALYST', 'fast cars');
    file.write(['ANALYST:x']);
    await file.pass(2);
    expect(login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    expect(calls).toHaveLength(1);
  });
});

describe('a users file that changes during a comparison', () => {
  test('lets nobody in whose password was changed, and remembers nothing', async () => {
    const { login, file, calls, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const underWay = login('ANALYST', 'fast cars');
    await settle();
    file.write([ADMIN, `ANALYST:${HASHES.newCars}`]);
    await file.pass(2);
    gate.open();
    expect(await underWay).toEqual(REJECTED);
    expect(calls.map(({ hash }) => hash)).toEqual([HASHES.fastCars, HASHES.newCars]);
    expect(await login('ANALYST', 'fast cars')).toEqual(REJECTED);
  });

  test('lets nobody in who was removed', async () => {
    const { login, file, calls, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const underWay = login('ANALYST', 'fast cars');
    await settle();
    file.write([ADMIN]);
    await file.pass(2);
    gate.open();
    expect(await underWay).toEqual(REJECTED);
    expect(calls[1]?.hash).not.toBe(HASHES.fastCars);
  });

  test('lets in who brought the new password, or was added', async () => {
    const { login, file, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const changed = login('ANALYST', 'new cars');
    const added = login('NEW', 'fast cars');
    await settle();
    file.write([ADMIN, `ANALYST:${HASHES.newCars}`, `NEW:${HASHES.b}`]);
    await file.pass(2);
    gate.open();
    expect(await changed).toEqual(loggedIn('ANALYST'));
    expect(await added).toEqual(loggedIn('NEW'));
  });

  test('costs one comparison as ever when the user did not change', async () => {
    const { login, file, calls, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const logins = [login('ANALYST', 'fast cars'), login('NOBODY', 'x')];
    await settle();
    file.write([ANALYST]);
    await file.pass(2);
    gate.open();
    expect(await Promise.all(logins)).toEqual([loggedIn('ANALYST'), REJECTED]);
    expect(calls).toHaveLength(2);
  });

  test('at every comparison ends in a refusal, not in a loop', async () => {
    const { login, file, calls, holdAt } = await setUp();
    const gates = [createGate(), createGate()] as const;
    holdAt(gates[0]);
    const underWay = login('ANALYST', 'new cars');
    await settle();
    holdAt(gates[1]);
    file.write([`ANALYST:${HASHES.newCars}`]);
    await file.pass(2);
    gates[0].open();
    await settle();
    file.write([`ANALYST:${HASHES.b}`]);
    await file.pass(2);
    gates[1].open();
    expect(await underWay).toEqual(REJECTED);
    expect(calls).toHaveLength(2);
  });
});
