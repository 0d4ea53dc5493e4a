import { describe, expect, test } from '@jest/globals';
import { gate } from '../../support/stub-engine.ts';
import type { handClock } from '../cache/fakes.ts';
import { LEASE, setUp } from './role-sets-house.ts';

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

describe('users who share by roles', () => {
  test('are not those whom roles cannot tell from another user', async () => {
    const { nameFor } = setUp({ twin: [2], alice: [2] });
    expect(await nameFor('twin')).toBeUndefined();
    expect(await nameFor('alice')).toMatch(/:2$/);
  });

  test('have one name when they have the same roles, and another when they have not', async () => {
    const { nameFor } = setUp({ alice: [1, 2], bob: [1, 2], carol: [2], dave: [12] });
    const [alice, bob, carol, dave] = await Promise.all(
      ['alice', 'bob', 'carol', 'dave'].map(nameFor),
    );
    expect(alice).toBe('roles:storage:token0:1,2');
    expect(bob).toBe(alice);
    expect(new Set([alice, carol, dave]).size).toBe(3);
  });

  test('have no name without roles', async () => {
    const { nameFor } = setUp({ alice: [1] });
    expect(await nameFor('bob')).toBeUndefined();
  });

  test('do not share with the same role ids of another storage', async () => {
    const { storage, replica, nameFor } = setUp({ alice: [2] });
    const here = await nameFor('alice');
    storage.id = async () => 'another storage';
    expect(await replica().nameFor('alice')).not.toBe(here);
  });

  test('are looked up once while the roles stay, whatever the number of leases', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2], bob: [] });
    for (let lease = 0; lease < 3; lease += 1) {
      expect(await nameFor('alice')).toBe('roles:storage:token0:2');
      expect(await nameFor('bob')).toBeUndefined();
      clock.advance(LEASE);
    }
    expect(storage.asked).toEqual({ sets: 2, tokens: 3 });
  });

  test('wait for one read of the token when they come together', async () => {
    const { storage, nameFor } = setUp({ alice: [2], bob: [2] });
    storage.slowTokens = gate();
    const names = ['alice', 'bob', 'alice'].map(nameFor);
    storage.slowTokens.open();
    expect(new Set(await Promise.all(names)).size).toBe(1);
    expect(storage.asked.tokens).toBe(1);
  });
});

describe('a change of roles', () => {
  test('holds everywhere when the lease is over', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2], bob: [2] });
    const before = await nameFor('bob');
    await nameFor('alice');
    storage.change('alice', []);
    clock.advance(LEASE - 1);
    expect(await nameFor('alice')).toBe(before);
    clock.advance(1);
    expect(await nameFor('alice')).toBeUndefined();
    // Whose roles did not change finds nothing of what was fetched before either.
    expect(await nameFor('bob')).toBe('roles:storage:token1:2');
  });

  test.each([
    ['the monotonic clock', (clock: ReturnType<typeof handClock>) => clock.advance(LEASE)],
    ['the wall clock alone', (clock: ReturnType<typeof handClock>) => clock.stepWall(LEASE)],
    ['a wall clock that steps back', (clock: ReturnType<typeof handClock>) => clock.stepWall(-1)],
  ])('holds when the lease is over by %s', async (_which, pass) => {
    const { clock, storage, nameFor } = setUp({ alice: [2] });
    await nameFor('alice');
    storage.change('alice', [3]);
    pass(clock);
    expect(await nameFor('alice')).toMatch(/:3$/);
  });

  test('is not hidden by a token that was long on its way', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2] });
    await nameFor('alice');
    clock.advance(LEASE);
    storage.slowTokens = gate();
    const old = nameFor('alice');
    await until(() => storage.asked.tokens === 2);
    storage.change('alice', [3]);
    clock.advance(LEASE - 1);
    storage.slowTokens.open();
    expect(await old).toMatch(/:2$/);
    clock.advance(1);
    expect(await nameFor('alice')).toMatch(/:3$/);
  });

  test('is seen by who waits for a token that comes when its lease is over', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2] });
    await nameFor('alice');
    clock.advance(LEASE);
    storage.slowTokens = gate();
    const first = nameFor('alice');
    await until(() => storage.asked.tokens === 2);
    storage.change('alice', [3]);
    clock.advance(LEASE);
    const second = nameFor('alice');
    storage.slowTokens.open();
    expect(await second).toMatch(/:3$/);
    expect(await first).toMatch(/:3$/);
  });

  test('is not hidden by a role set that was read before it and came after it', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2] });
    storage.slowSets = gate();
    const old = nameFor('alice');
    await until(() => storage.asked.sets === 1);
    storage.change('alice', [3]);
    clock.advance(LEASE);
    // Somebody else learns of the change before the old set is there.
    const other = nameFor('bob');
    await until(() => storage.asked.sets === 2);
    storage.slowSets.open();
    expect(await old).toBe('roles:storage:token0:2');
    await other;
    expect(await nameFor('alice')).toBe('roles:storage:token1:3');
  });

  test('between the token and the role set gives the name of after it', async () => {
    const { storage, nameFor } = setUp({ alice: [2], bob: [2] });
    await nameFor('bob');
    storage.change('alice', [3]);
    expect(await nameFor('alice')).toBe('roles:storage:token1:3');
    storage.change('alice', [2]);
    storage.change('bob', [4]);
    // The set of before the last two changes is remembered, and not under their token.
    expect(await nameFor('alice')).toBe('roles:storage:token3:2');
    expect(await nameFor('bob')).toBe('roles:storage:token3:4');
  });

  test('that one read has shown is known to all from then on', async () => {
    const { storage, nameFor } = setUp({ alice: [2], bob: [2] });
    await nameFor('bob');
    storage.change('bob', [4]);
    const name = await nameFor('alice');
    expect(await nameFor('bob')).toMatch(/:4$/);
    expect(await nameFor('alice')).toBe(name);
    expect(storage.asked).toEqual({ sets: 3, tokens: 2 });
  });

  test('that was made past every gateway is seen after a minute', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2] });
    await nameFor('alice');
    storage.members['alice'] = [];
    clock.advance(61_000);
    expect(await nameFor('alice')).toBeUndefined();
  });
});

describe('without what it takes to know the roles', () => {
  test('nobody shares while the storage is away, and not every query asks it', async () => {
    const { clock, storage, errors, nameFor } = setUp({ alice: [2], bob: [2] });
    storage.failing = true;
    expect(await Promise.all([nameFor('alice'), nameFor('bob')])).toEqual([undefined, undefined]);
    expect(await nameFor('alice')).toBeUndefined();
    expect([storage.asked.tokens, errors.length]).toEqual([1, 1]);
    storage.failing = false;
    clock.advance(1_001);
    expect(await nameFor('alice')).toMatch(/:2$/);
  });

  test.each(['slowSets', 'slowTokens'] as const)(
    'a storage that hangs holds a query up for a moment only (%s)',
    async (which) => {
      const { storage, errors, nameFor } = setUp({ alice: [2] });
      storage[which] = gate();
      expect(await nameFor('alice')).toBeUndefined();
      expect(String(errors[0])).toContain('took too long');
      storage[which].open();
    },
  );

  test('what the storage said while this process stood still counts', async () => {
    const { storage, nameFor } = setUp({ alice: [2] });
    storage.slowSets = gate();
    const name = await new Promise((resolve, reject) => {
      // From here the loop comes to the timer of the deadline before it comes to what the storage says.
      setImmediate(() => {
        nameFor('alice').then(resolve, reject);
        setImmediate(storage.slowSets.open);
        const until = performance.now() + 250;
        while (performance.now() < until);
      });
    });
    expect(name).toMatch(/:2$/);
  });

  test('what was read before counts until the lease is over', async () => {
    const { clock, storage, nameFor } = setUp({ alice: [2] });
    const name = await nameFor('alice');
    storage.failing = true;
    clock.advance(LEASE - 1);
    expect(await nameFor('alice')).toBe(name);
    clock.advance(1);
    expect(await nameFor('alice')).toBeUndefined();
  });

  test('a token that never comes in time is given up', async () => {
    const { clock, storage, errors, nameFor } = setUp({ alice: [2] });
    const { token } = storage.roles;
    storage.roles.token = (lease) => {
      clock.advance(LEASE);
      return token(lease);
    };
    expect(await nameFor('alice')).toBeUndefined();
    expect(String(errors[0])).toContain('took longer than its lease');
  });
});
