import { describe, expect, test } from '@jest/globals';
import { setUpEngine as setUp, STRANGER, UNAVAILABLE } from './support-engine-login.ts';
import { HERE, loggedIn, MINUTE, REJECTED } from './support-file-authenticator.ts';
import { basic } from './support.ts';

describe('a login that the engine checks', () => {
  test('is let in under the name that was sent, when the engine accepts it', async () => {
    const { login, tried } = setUp();
    expect(await login('alice', 'fast cars')).toEqual(loggedIn('alice'));
    expect(tried).toMatchObject([{ name: 'alice', password: 'fast cars' }]);
  });

  test('is refused when the engine rejects it', async () => {
    const { login } = setUp();
    expect(await login('alice', 'slow cars')).toEqual(REJECTED);
    expect(await login('nobody', 'fast cars')).toEqual(REJECTED);
  });

  test('in another letter case is another principal, if the engine takes it at all', async () => {
    const { login, engineSays, authenticator } = setUp();
    engineSays((name) => (name.toLowerCase() === 'alice' ? 'accepted' : undefined));
    expect(await login('alice', 'fast cars')).toEqual(loggedIn('alice'));
    expect(await login('ALICE', 'fast cars')).toEqual(loggedIn('ALICE'));
    expect(authenticator.isLookAlike('alice')).toBe(true);
  });

  test.each([
    ['an empty password', basic('alice', '')],
    ['an empty name', basic('', 'fast cars')],
    ['nothing but a colon', basic('', '')],
    ['a control character in the name', basic('alice\u0007', 'fast cars')],
    ['a control character in the password', basic('alice', 'fast\ncars')],
    ['a zero byte', basic('alice\0', 'fast cars')],
    ['no colon', `Basic ${Buffer.from('alice').toString('base64')}`],
    ['Negotiate', 'Negotiate YIIFzQ=='],
    ['Bearer', 'Bearer abc'],
  ])('with %s is never tried', async (_case, header) => {
    const { authenticator, tried, engineSays } = setUp();
    engineSays(() => 'accepted');
    expect(await authenticator.authenticate(header, { id: 'id', address: HERE })).toEqual(REJECTED);
    expect(authenticator.authenticate(undefined, { id: 'id', address: HERE })).toEqual(REJECTED);
    expect(tried).toEqual([]);
  });

  test.each(['basic  %', 'BASIC %', ' Basic   % '])(
    'reaches the engine in the one spelling that all engines read, when it is spelt %j',
    async (spelling) => {
      const { authenticator, tried } = setUp();
      const header = basic('alice', 'fast cars');
      const spelt = spelling.replace('%', header.slice(6));
      expect(await authenticator.authenticate(spelt, { id: 'id', address: HERE })).toEqual(
        loggedIn('alice'),
      );
      expect(tried[0]?.header).toBe(header);
    },
  );

  test('with a long password, or one with colons, is tried as it is', async () => {
    const { login, users } = setUp();
    users.set('carol', `:${'a'.repeat(200)}:é`);
    expect(await login('carol', `:${'a'.repeat(200)}:é`)).toEqual(loggedIn('carol'));
    expect(await login('carol', `:${'a'.repeat(200)}:e`)).toEqual(REJECTED);
  });
});

describe('an engine that cannot say', () => {
  test.each<[string, () => 'unavailable' | Error]>([
    ['is unavailable', () => 'unavailable'],
    ['fails', () => new Error('no connection')],
  ])('refuses nobody and lets nobody in when it %s', async (_case, says) => {
    const { login, engineSays, events } = setUp();
    engineSays(says);
    expect(await login('alice', 'fast cars')).toEqual(UNAVAILABLE);
    expect(await login('alice', 'wrong')).toEqual(UNAVAILABLE);
    expect(events).toEqual([]);
  });

  test('is no strike, neither against a name nor against a client', async () => {
    const { login, engineSays } = setUp();
    engineSays(() => 'unavailable');
    for (let i = 0; i < 300; i += 1) await login('alice', `guess ${i}`);
    engineSays(undefined);
    expect(await login('alice', 'fast cars')).toEqual(loggedIn('alice'));
  });

  test('is asked again at once: that it was silent is not remembered', async () => {
    const { login, engineSays, tried } = setUp();
    engineSays(() => 'unavailable');
    await login('alice', 'fast cars');
    engineSays(undefined);
    expect(await login('alice', 'fast cars')).toEqual(loggedIn('alice'));
    expect(tried).toHaveLength(2);
  });

  test('leaves those in who were verified, and nobody for longer than that', async () => {
    const { login, engineSays, clock, tried } = setUp();
    await login('alice', 'fast cars');
    engineSays(() => 'unavailable');
    clock.advance(MINUTE - 1);
    expect(login('alice', 'fast cars')).toEqual(loggedIn('alice'));
    expect(tried).toHaveLength(1);
    clock.advance(1);
    expect(await login('alice', 'fast cars')).toEqual(UNAVAILABLE);
    expect(await login('alice', 'fast cars')).toEqual(UNAVAILABLE);
  });
});

describe('an engine that checks no logins', () => {
  test('lets nobody in, and the operator is told', async () => {
    const { login, engineSays, events } = setUp();
    engineSays(() => 'accepted');
    expect(await login('ADMIN', 'anything')).toEqual(UNAVAILABLE);
    expect(events).toEqual([
      {
        type: 'warning',
        message: expect.stringMatching(/^all logins are refused: the engine accepts every login/),
      },
    ]);
  });

  test('is found out also when it begins to be so, after some time', async () => {
    const { login, engineSays, clock } = setUp();
    await login('alice', 'fast cars');
    engineSays(() => 'accepted');
    clock.advance(60 * MINUTE);
    expect(await login('alice', 'fast cars')).toEqual(UNAVAILABLE);
  });

  test('is not proved to check them by a silence', async () => {
    const { login, engineSays } = setUp();
    engineSays((name) => (name.startsWith(STRANGER) ? 'unavailable' : 'accepted'));
    expect(await login('alice', 'fast cars')).toEqual(UNAVAILABLE);
    expect(await login('bob', 'slow cars')).toEqual(UNAVAILABLE);
    engineSays(undefined);
    expect(await login('alice', 'fast cars')).toEqual(loggedIn('alice'));
  });

  test('is asked for a stranger once for all who log in at one time, and each time for another', async () => {
    const strangers: string[] = [];
    const { login, engineSays, clock } = setUp();
    engineSays((name) => {
      if (name.startsWith(STRANGER)) strangers.push(name);
      return undefined;
    });
    await Promise.all([login('alice', 'fast cars'), login('bob', 'slow cars')]);
    expect(strangers).toHaveLength(1);
    clock.advance(60 * MINUTE);
    await login('alice', 'fast cars');
    expect(new Set(strangers).size).toBe(2);
  });
});
