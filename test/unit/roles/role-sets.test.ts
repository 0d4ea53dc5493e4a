import { describe, expect, test } from '@jest/globals';
import { createEpochs } from '../../../src/query-cache/epochs.ts';
import type { Scope } from '../../../src/query-cache/scopes.ts';
import { createRoleSets } from '../../../src/roles/role-sets.ts';
import { gate } from '../../support/stub-engine.ts';
import { sharedEpochs } from '../query-cache/fake-epoch-stores.ts';
import { handClock } from '../query-cache/fakes.ts';

const LEASE = 1_000;

/** A storage whose roles a test changes by hand. */
function fakeStorage(members: Record<string, number[]>) {
  const storage = {
    members,
    asked: 0,
    failing: false,
    /** Closed: a read waits before it answers what was true when it began. */
    slow: gate(),
    async id() {
      return 'storage';
    },
    roles: {
      async rolesOf(user: string) {
        storage.asked += 1;
        if (storage.failing) throw new Error('away');
        const ids = storage.members[user] ?? [];
        await storage.slow.opened;
        return ids;
      },
    },
  };
  storage.slow.open();
  return storage;
}

function setUp(members: Record<string, number[]>) {
  const clock = handClock();
  const shared = sharedEpochs();
  const storage = fakeStorage(members);
  const errors: unknown[] = [];
  const replica = () => {
    const epochs = createEpochs({ store: shared.replica(LEASE), clock, lease: LEASE });
    const sets = createRoleSets({ storage, epochs, clock, onError: (error) => errors.push(error) });
    return { epochs, nameFor: sets.nameFor };
  };
  return { clock, shared, storage, errors, replica };
}

describe('users who share by roles', () => {
  test('have one name when they have the same roles, and another when they have not', async () => {
    const { replica } = setUp({ alice: [1, 2], bob: [1, 2], carol: [2], dave: [12] });
    const { nameFor } = replica();
    const [alice, bob, carol, dave] = await Promise.all(
      ['alice', 'bob', 'carol', 'dave'].map(nameFor),
    );
    expect(alice).toMatch(/^roles:storage:.+:1,2$/);
    expect(bob).toBe(alice);
    expect(new Set([alice, carol, dave]).size).toBe(3);
  });

  test('have no name without roles', async () => {
    const { nameFor } = setUp({ alice: [1] }).replica();
    expect(await nameFor('bob')).toBeUndefined();
  });

  test('do not share with the same role ids of another storage', async () => {
    const { storage, replica } = setUp({ alice: [2] });
    const { nameFor } = replica();
    const here = await nameFor('alice');
    storage.id = async () => 'another storage';
    expect(await replica().nameFor('alice')).not.toBe(here);
  });

  test('are looked up once while the epoch of roles holds', async () => {
    const { storage, replica } = setUp({ alice: [2] });
    const { nameFor } = replica();
    const first = await nameFor('alice');
    expect(await nameFor('alice')).toBe(first);
    expect(storage.asked).toBe(1);
  });
});

describe('a change of roles', () => {
  test('holds on this gateway as soon as the epoch is renewed', async () => {
    const { storage, replica } = setUp({ alice: [2], bob: [2] });
    const { epochs, nameFor } = replica();
    const before = await nameFor('alice');
    storage.members['alice'] = [3];
    await epochs.renew(['roles']);
    expect(await nameFor('alice')).toMatch(/:3$/);
    // Whose roles did not change finds nothing of what was fetched before either.
    expect(await nameFor('bob')).not.toBe(before);
  });

  test('holds on another gateway after the lease, also when no message arrives', async () => {
    const { clock, shared, storage, replica } = setUp({ alice: [2] });
    const [one, other] = [replica(), replica()];
    await other.nameFor('alice');
    shared.delivering = false;
    storage.members['alice'] = [];
    const lease = await one.epochs.renew(['roles']);
    clock.advance(lease * 1.1);
    expect(await other.nameFor('alice')).toBeUndefined();
  });

  test('is not hidden by a read that began before it and ended after it', async () => {
    const { storage, replica } = setUp({ alice: [2] });
    const { epochs, nameFor } = replica();
    storage.slow = gate();
    const old = nameFor('alice');
    while (storage.asked === 0) await new Promise((resolve) => setImmediate(resolve));
    storage.members['alice'] = [3];
    await epochs.renew(['roles']);
    storage.slow.open();
    expect(await old).toMatch(/:2$/);
    expect(await nameFor('alice')).toMatch(/:3$/);
  });

  test('is not undone by an epoch of roles that comes back from a snapshot', async () => {
    const { clock, storage } = setUp({ alice: [2] });
    let tokens = ['everything 1', 'roles 1'];
    const held = (scopes: readonly Scope[]) => ({ scopes, tokens, keySecret: 'secret' });
    const { nameFor } = createRoleSets({
      storage,
      epochs: { held, obtain: async () => undefined },
      clock,
      onError: () => {},
    });
    await nameFor('alice');
    storage.members['alice'] = [3];
    // Another incarnation renews the epoch of everything, and knows the older epoch of roles.
    tokens = ['everything 2', 'roles 1'];
    expect(await nameFor('alice')).toMatch(/:3$/);
  });

  test('that came past every gateway is seen after a minute', async () => {
    const { clock, storage, replica } = setUp({ alice: [2] });
    const { nameFor } = replica();
    await nameFor('alice');
    storage.members['alice'] = [];
    clock.advance(61_000);
    expect(await nameFor('alice')).toBeUndefined();
  });
});

describe('without what it takes to know the roles', () => {
  test('nobody shares while the epochs are unknown', async () => {
    const { shared, replica } = setUp({ alice: [2] });
    shared.reachable = false;
    expect(await replica().nameFor('alice')).toBeUndefined();
  });

  test('nobody shares while the storage is away, and not every query asks it', async () => {
    const { clock, storage, errors, replica } = setUp({ alice: [2] });
    const { nameFor } = replica();
    storage.failing = true;
    expect(await nameFor('alice')).toBeUndefined();
    expect(await nameFor('alice')).toBeUndefined();
    expect([storage.asked, errors.length]).toEqual([1, 1]);
    storage.failing = false;
    clock.advance(1_001);
    expect(await nameFor('alice')).toMatch(/:2$/);
  });

  test('a storage that hangs holds a query up for a moment only', async () => {
    const { storage, errors, replica } = setUp({ alice: [2] });
    storage.slow = gate();
    expect(await replica().nameFor('alice')).toBeUndefined();
    expect(String(errors[0])).toContain('took too long');
    storage.slow.open();
  });

  test('what was read before still counts while the storage is away', async () => {
    const { storage, replica } = setUp({ alice: [2] });
    const { nameFor } = replica();
    const name = await nameFor('alice');
    storage.failing = true;
    expect(await nameFor('alice')).toBe(name);
  });
});
