import { describe, expect, test } from '@jest/globals';
import { createFileAuthenticator } from '../../../../src/auth/users-file.ts';
import {
  ANALYST,
  createTestRandom,
  HERE,
  loggedIn,
  MINUTE,
  REJECTED,
  setUp,
  told,
} from '../support-file-authenticator.ts';
import { basic, createGate, createTestClock, createTestFile, HASHES, settle } from '../support.ts';

describe('a login', () => {
  test('with the right password is let in under the name of the users file', async () => {
    const { login } = await setUp();
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    expect(await login('ADMIN', 'KYLIN')).toEqual(loggedIn('ADMIN'));
  });

  test('with a wrong password and one of an unknown user cost one comparison each and say the same', async () => {
    const { login, calls } = await setUp();
    const wrong = await login('ANALYST', 'slow cars');
    expect(calls).toEqual([{ password: 'slow cars', hash: HASHES.fastCars }]);
    const unknown = await login('NOBODY', 'slow cars');
    expect(calls).toHaveLength(2);
    expect(calls[1]?.hash).toMatch(/^\$2b\$04\$.{53}$/);
    expect(wrong).toEqual(REJECTED);
    expect(unknown).toEqual(REJECTED);
  });

  test('of an unknown user is compared at the cost that most users have', async () => {
    const { login, calls } = await setUp({
      lines: [`A:${HASHES.slow}`, ANALYST, `B:${HASHES.slow.replace('LwkA', 'Lwka')}`],
    });
    await login('NOBODY', 'x');
    expect(calls[0]?.hash).toMatch(/^\$2b\$06\$/);
  });

  test('without a header is answered at once, without a comparison', async () => {
    const { authenticator, calls } = await setUp();
    expect(authenticator.authenticate(undefined, { id: 'id', address: HERE })).toEqual(REJECTED);
    expect(calls).toEqual([]);
  });

  test.each([
    'Negotiate YIIFzQ==',
    'NTLM TlRMTVNTUAABAAAA',
    'Bearer abc',
    'Basic abc.def.ghi',
    '',
    basic('ANALYST', 'a'.repeat(73)),
    basic('ANALYST', 'fast\0cars'),
  ])('with the header %j is refused at once', async (header) => {
    const { authenticator, calls } = await setUp();
    expect(authenticator.authenticate(header, { id: 'id', address: HERE })).toEqual(REJECTED);
    expect(calls).toEqual([]);
  });

  test.each([
    ['another letter case', 'analyst', 'fast cars'],
    ['a space behind', 'ANALYST ', 'fast cars'],
    ['a space before', ' ANALYST', 'fast cars'],
    ['something after the password', 'ANALYST', 'fast cars:extra'],
    ['a space after the password', 'ANALYST', 'fast cars '],
    ['the hash as password', 'ANALYST', HASHES.fastCars],
    ['an empty password', 'ANALYST', ''],
    ['the password of another', 'ANALYST', 'KYLIN'],
    ['full width letters', 'ＡＮＡＬＹＳＴ', 'fast cars'],
    ['a property of objects', '__proto__', ''],
    ['a zero-width space', 'ANALYST\u200b', 'fast cars'],
  ])('with %s is refused', async (_case, name, password) => {
    const { login, calls } = await setUp();
    expect(await login(name, password)).toEqual(REJECTED);
    expect(calls).toHaveLength(1);
  });

  test('of a name that is composed otherwise is another user', async () => {
    const { login } = await setUp({ lines: [`Jos\u00e9:${HASHES.umlauts}`] });
    expect(await login('Jos\u00e9', 'pä:ss wörd')).toEqual(loggedIn('Jos\u00e9'));
    expect(await login('Jose\u0301', 'pä:ss wörd')).toEqual(REJECTED);
  });

  test('is not said to be wrong when the comparison fails, which is no strike against the client', async () => {
    const file = createTestFile([ANALYST]);
    let isBroken = true;
    const authenticator = await createFileAuthenticator({
      file: 'f',
      verifiedFor: MINUTE,
      clock: createTestClock(),
      random: createTestRandom(),
      compare: async () => {
        if (isBroken) throw new Error('no memory');
        return true;
      },
      read: file.read,
      pause: file.pause,
      emit: () => {},
    });
    const login = async () =>
      told(authenticator).authenticate(basic('ANALYST', 'fast cars'), { id: 'id', address: HERE });
    for (let i = 0; i < 20; i += 1) await expect(login()).rejects.toThrow('no memory');
    isBroken = false;
    expect(await login()).toEqual(loggedIn('ANALYST'));
  });

  test('of an unknown user is refused whatever the comparison says', async () => {
    const file = createTestFile([ANALYST]);
    const authenticator = await createFileAuthenticator({
      file: 'f',
      verifiedFor: MINUTE,
      clock: createTestClock(),
      random: createTestRandom(),
      compare: async () => true,
      read: file.read,
      pause: file.pause,
      emit: () => {},
    });
    expect(
      await told(authenticator).authenticate(basic('NOBODY', 'x'), { id: 'id', address: HERE }),
    ).toEqual(REJECTED);
  });
});

describe('events', () => {
  test('name a user that exists, and nothing that a client typed otherwise', async () => {
    const { login, events } = await setUp();
    await login('ANALYST', 'wrong password');
    await login('fast cars', 'wrong password');
    const common = {
      type: 'login-refused',
      id: 'id',
      reason: 'rejected',
      why: undefined,
      address: HERE,
    };
    expect(events.slice(1)).toEqual([
      { ...common, user: 'ANALYST' },
      { ...common, user: undefined },
    ]);
    expect(JSON.stringify(events)).not.toMatch(/cars|wrong|\$2/);
  });

  test('tell of throttled logins, of long passwords and of the file', async () => {
    const { login, file, events } = await setUp();
    for (let i = 0; i < 11; i += 1) await login('ANALYST', `${i}`);
    await login('ANALYST', 'x'.repeat(73));
    file.write(['x']);
    await file.pass(2);
    expect(events.slice(-3)).toMatchObject([
      { type: 'login-refused', reason: 'throttled', user: 'ANALYST' },
      { type: 'login-refused', reason: 'malformed', user: 'ANALYST' },
      { type: 'warning', message: expect.stringContaining('keeping the current users: ') },
    ]);
  });
});

describe('close', () => {
  test('refuses everybody, also those who were verified and those under way', async () => {
    const { authenticator, login, file, calls, holdAt } = await setUp();
    await login('ADMIN', 'KYLIN');
    const gate = createGate();
    holdAt(gate);
    const underWay = login('ANALYST', 'fast cars');
    await settle();
    await authenticator.close();
    gate.open();
    expect(await underWay).toEqual(REJECTED);
    expect(login('ADMIN', 'KYLIN')).toEqual(REJECTED);
    expect(file.isFollowed()).toBe(false);
    expect(calls).toHaveLength(2);
  });
});
