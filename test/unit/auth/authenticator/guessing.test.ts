import { describe, expect, test } from '@jest/globals';
import { EventEmitter } from 'node:events';
import {
  ELSEWHERE,
  HERE,
  loggedIn,
  MINUTE,
  out,
  REJECTED,
  setUp,
} from '../support-file-authenticator.ts';
import { basic, createGate, HASHES, settle } from '../support.ts';

/** So many wrong passwords, one after the other. */
async function guess(
  login: (name: string, password: string, address?: string) => unknown,
  name: string,
  count: number,
  address = HERE,
): Promise<void> {
  for (let i = 0; i < count; i += 1) await login(name, `guess ${i}`, address);
}

describe('logins at one time', () => {
  test('with one header from one client share one comparison', async () => {
    const { login, calls, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const logins = Array.from({ length: 20 }, () => login('ANALYST', 'fast cars'));
    await settle();
    expect(calls).toHaveLength(1);
    gate.open();
    expect(await Promise.all(logins)).toEqual(
      Array.from({ length: 20 }, () => loggedIn('ANALYST')),
    );
    expect(calls).toHaveLength(1);
  });

  test('with one wrong header count as one guess', async () => {
    const { login, calls } = await setUp();
    await Promise.all(Array.from({ length: 50 }, () => login('ANALYST', 'old cars')));
    expect(calls).toHaveLength(1);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });

  test('with different headers do not share', async () => {
    const { login, calls } = await setUp();
    const logins = [login('ANALYST', 'fast cars'), login('ANALYST', 'x'), login('ADMIN', 'KYLIN')];
    expect(await Promise.all(logins)).toEqual([loggedIn('ANALYST'), REJECTED, loggedIn('ADMIN')]);
    expect(calls).toHaveLength(3);
  });

  test('after a refusal are compared anew: a refusal is not remembered', async () => {
    const { login, calls } = await setUp();
    await login('ANALYST', 'x');
    await login('ANALYST', 'x');
    expect(calls).toHaveLength(2);
  });

  test('of ten seconds are all let in, each by one comparison, with as many at once as there are cores', async () => {
    const people = Array.from({ length: 160 }, (_, i) => `USER${i}`);
    const lines = people.map((name) => `${name}:${HASHES.fastCars}`);
    const { login, calls, holdAt } = await setUp({ lines, comparisons: 3 });
    const gate = createGate();
    holdAt(gate);
    // As browsers and Excel do: some at once, and behind one proxy.
    const logins = people.flatMap((name) =>
      Array.from({ length: 3 }, async () => login(name, 'fast cars')),
    );
    await settle();
    expect(calls).toHaveLength(3);
    gate.open();
    const answers = await Promise.all(logins);
    expect(answers).toEqual(
      people.flatMap((name) => Array.from({ length: 3 }, () => loggedIn(name))),
    );
    expect(calls).toHaveLength(people.length);
  });

  test('that nothing is known of yet count as no failures of their address', async () => {
    const { login, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const others = Array.from({ length: 300 }, (_, i) => login(`USER${i}`, 'x'));
    await settle();
    const right = login('ANALYST', 'fast cars', ELSEWHERE);
    const rightToo = login('ADMIN', 'KYLIN');
    gate.open();
    expect(await right).toEqual(loggedIn('ANALYST'));
    // A hundred have really failed by then.
    expect(await rightToo).toEqual(out('throttled', 1));
    await Promise.all(others);
  });
});

describe('clients that go away', () => {
  test('leave the line, and no comparison is made', async () => {
    const { login, calls, holdAt, events } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const connection = new EventEmitter();
    const others = [login('NOBODY', 'a', ELSEWHERE), login('NOBODY', 'b', ELSEWHERE)];
    const left = login('ANALYST', 'fast cars', HERE, connection);
    await settle();
    connection.emit('close');
    expect(await left).toEqual(out('gone'));
    gate.open();
    await Promise.all(others);
    expect(calls).toHaveLength(2);
    expect(connection.listenerCount('close')).toBe(0);
    expect(events.filter(({ type }) => type === 'login-refused')).toHaveLength(2);
    for (let i = 0; i < 9; i += 1) expect(await login('ANALYST', `guess ${i}`)).toEqual(REJECTED);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });

  test('take none with them who wait with the same header', async () => {
    const { login, calls, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const others = [login('NOBODY', 'a', ELSEWHERE), login('NOBODY', 'b', ELSEWHERE)];
    const [goes, stays] = [new EventEmitter(), new EventEmitter()];
    const logins = [goes, stays].map((one) => login('ANALYST', 'fast cars', HERE, one));
    await settle();
    goes.emit('close');
    gate.open();
    await Promise.all(others);
    expect(await Promise.all(logins)).toEqual([loggedIn('ANALYST'), loggedIn('ANALYST')]);
    expect(calls).toHaveLength(3);
    expect(stays.listenerCount('close')).toBe(0);
  });

  test('while it is asked whether they may try, take none with them who come a moment later', async () => {
    const gate = createGate();
    const askLeave = async () => gate.passed.then(() => async () => 0);
    const { login, calls } = await setUp({ askLeave });
    const [goes, comes] = [new EventEmitter(), new EventEmitter()];
    const left = login('ANALYST', 'fast cars', HERE, goes);
    goes.emit('close');
    const right = login('ANALYST', 'fast cars', HERE, comes);
    const alone = new EventEmitter();
    const gone = login('ADMIN', 'KYLIN', HERE, alone);
    alone.emit('close');
    gate.open();
    expect(await right).toEqual(loggedIn('ANALYST'));
    expect(await gone).toEqual(out('gone'));
    await left;
    expect(calls).toHaveLength(1);
  });
});

describe('guessing', () => {
  test('that fills the line does not put out those who are at work', async () => {
    const { login, clock, holdAt } = await setUp();
    await login('ANALYST', 'fast cars');
    clock.advance(MINUTE);
    const gate = createGate();
    holdAt(gate);
    const guesses = Array.from({ length: 66 }, (_, i) => login('NOBODY', 'x', `203.0.113.${i}`));
    const atWork = login('ANALYST', 'fast cars');
    gate.open();
    expect(await atWork).toEqual(loggedIn('ANALYST'));
    await Promise.all(guesses);
  });

  test.each(['ANALYST', 'NOBODY'])(
    'is stopped after ten failures of %s, without a comparison, even for the right password',
    async (name) => {
      const { login, calls, clock } = await setUp();
      await guess(login, name, 10);
      expect(await login(name, 'fast cars')).toEqual(out('throttled', 6));
      expect(calls).toHaveLength(10);
      clock.advance(6_000);
      expect((await login(name, 'fast cars')).ok).toBe(name === 'ANALYST');
    },
  );

  test('does not get further by sending all guesses at once', async () => {
    const { login, calls } = await setUp();
    await Promise.all(Array.from({ length: 60 }, (_, i) => login('ANALYST', `guess ${i}`)));
    expect(calls).toHaveLength(10);
  });

  test('does not get further by spelling the header otherwise', async () => {
    const { authenticator, login, calls } = await setUp();
    await guess(login, 'ANALYST', 10);
    const header = basic('ANALYST', 'fast cars');
    const spellings = [
      header.replace('Basic', 'basic'),
      header.replace('Basic', 'BASIC'),
      header.replace(' ', '   '),
      ` ${header}`,
      `${header} `,
    ];
    for (const spelling of spellings) {
      expect(await authenticator.authenticate(spelling, { id: 'id', address: HERE })).toEqual(
        out('throttled', 6),
      );
    }
    expect(calls).toHaveLength(10);
  });

  test('does not get further by moving within an IPv6 network', async () => {
    const { login, calls } = await setUp();
    for (let i = 0; i < 30; i += 1) await login('ANALYST', `guess ${i}`, `2001:db8::${i}`);
    expect(calls).toHaveLength(10);
  });

  test('does not get further by logging in to an account of its own in between', async () => {
    const { login, calls, clock } = await setUp();
    for (let i = 0; i < 30; i += 1) {
      await login('ANALYST', `guess ${i}`);
      await login('ADMIN', 'KYLIN');
    }
    clock.advance(1);
    expect(calls.filter(({ hash }) => hash === HASHES.fastCars)).toHaveLength(10);
  });

  test('over many names does not get further by an account of its own, verified again and again', async () => {
    const { login, calls, clock } = await setUp({ verifiedFor: 1 });
    for (let i = 0; i < 150; i += 1) {
      await login('ADMIN', 'KYLIN');
      await login(`user ${i}`, 'x');
      clock.advance(1);
    }
    expect(calls.filter(({ password }) => password === 'x')).toHaveLength(100);
  });

  test('at a thousand names at once is stopped when a hundred have failed, and what waits is not compared', async () => {
    const { login, calls, clock } = await setUp();
    const guesses = Array.from({ length: 1_000 }, (_, i) => login(`user ${i}`, 'x'));
    const right = login('ANALYST', 'fast cars', ELSEWHERE);
    const answers = await Promise.all(guesses);
    // And a few that had begun.
    const compared = answers.filter((answer) => 'reason' in answer && answer.reason === 'rejected');
    expect(compared.length).toBeGreaterThanOrEqual(100);
    expect(compared.length).toBeLessThanOrEqual(105);
    expect(await right).toEqual(loggedIn('ANALYST'));
    expect(calls).toHaveLength(compared.length + 1);
    clock.advance(3_600);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });

  test('at one name a thousand times at once is compared ten times', async () => {
    const { login, calls, holdAt } = await setUp();
    const gate = createGate();
    holdAt(gate);
    const guesses = Array.from({ length: 1_000 }, (_, i) => login('ANALYST', `guess ${i}`));
    await settle();
    gate.open();
    const answers = await Promise.all(guesses);
    expect(calls).toHaveLength(10);
    expect(
      answers.filter((answer) => 'reason' in answer && answer.reason === 'throttled'),
    ).toHaveLength(990);
  });

  test('from many addresses at once keeps no right one out, also where many are behind one address', async () => {
    const people = Array.from({ length: 100 }, (_, i) => `USER${i}`);
    const lines = people.map((name) => `${name}:${HASHES.fastCars}`);
    const { login, calls, holdAt } = await setUp({ lines });
    const gate = createGate();
    holdAt(gate);
    const guesses = Array.from({ length: 2_000 }, (_, i) =>
      login(`user ${i}`, 'x', `203.0.113.${i % 40}`),
    );
    await settle();
    const right = people.map((name) => login(name, 'fast cars'));
    gate.open();
    expect(await Promise.all(right)).toEqual(people.map(loggedIn));
    // Few for each other address, and what was begun before.
    const last = calls.findLastIndex(({ hash }) => hash === HASHES.fastCars);
    expect(last).toBeLessThan(100 + 2 * 40 + 10);
    await Promise.all(guesses);
  });

  test('over many names is stopped after a hundred failures', async () => {
    const { login, calls } = await setUp();
    for (let i = 0; i < 150; i += 1) await login(`user ${i}`, 'x');
    expect(calls).toHaveLength(100);
    expect(await login('ANALYST', 'fast cars')).toEqual(out('throttled', 1));
    expect(await login('ANALYST', 'fast cars', ELSEWHERE)).toEqual(loggedIn('ANALYST'));
  });

  test('locks nobody out elsewhere', async () => {
    const { login } = await setUp();
    await guess(login, 'ANALYST', 50, ELSEWHERE);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });

  test('behind the same address locks nobody out who is at work, not even when the time of a login is over', async () => {
    const { login, clock } = await setUp();
    await login('ANALYST', 'fast cars');
    clock.advance(MINUTE);
    await guess(login, 'ANALYST', 15);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });

  test('with an old password is throttled like any other', async () => {
    const { login, file } = await setUp();
    await login('ANALYST', 'fast cars');
    file.write([`ANALYST:${HASHES.newCars}`]);
    await file.pass(2);
    for (let i = 0; i < 10; i += 1) expect(await login('ANALYST', 'fast cars')).toEqual(REJECTED);
    expect(await login('ANALYST', 'fast cars')).toEqual(out('throttled', 6));
  });

  test('a right password in time forgets the failures', async () => {
    const { login } = await setUp({ verifiedFor: 0 });
    await guess(login, 'ANALYST', 9);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
    await guess(login, 'ANALYST', 9);
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });

  test('missing, foreign and malformed headers are no failures', async () => {
    const { authenticator, login } = await setUp();
    for (let i = 0; i < 200; i += 1) {
      await authenticator.authenticate(undefined, { id: 'id', address: HERE });
      await authenticator.authenticate('Negotiate abc', { id: 'id', address: HERE });
      await authenticator.authenticate(basic('ANALYST', 'x'.repeat(100)), {
        id: 'id',
        address: HERE,
      });
    }
    expect(await login('ANALYST', 'fast cars')).toEqual(loggedIn('ANALYST'));
  });
});
