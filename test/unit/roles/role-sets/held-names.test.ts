import { describe, expect, test } from '@jest/globals';
import { createRoleSets } from '../../../../src/roles/role-sets.ts';
import { LEASE, setUp } from '../role-sets-house.ts';

describe('a name that is held', () => {
  test('is the one that was read, until the lease is over or it is read anew', async () => {
    const { clock, storage, nameFor, heldName } = setUp({ alice: [2], bob: [] });
    expect(heldName('alice')).toBeUndefined();
    const name = await nameFor('alice');
    expect(heldName('alice')).toBe(name);
    clock.advance(LEASE - 1);
    expect(heldName('alice')).toBe(name);
    clock.advance(1);
    expect(heldName('alice')).toBeUndefined();
    await nameFor('bob');
    expect(heldName('alice')).toBe(name);
    expect(heldName('bob')).toBeUndefined();
    expect(storage.asked).toEqual({ sets: 2, tokens: 2 });
  });

  test('is none under roles that were changed', async () => {
    const { clock, storage, nameFor, heldName } = setUp({ alice: [2], bob: [2] });
    await nameFor('alice');
    storage.change('alice', [3]);
    clock.advance(LEASE);
    await nameFor('bob');
    expect(heldName('alice')).toBeUndefined();
    expect(await nameFor('alice')).toBe(heldName('alice'));
    expect(heldName('alice')).toMatch(/:3$/);
  });

  test('is none of a user who has become a look-alike since', async () => {
    const { clock, storage } = setUp({ alice: [2] });
    const lookAlikes = new Set<string>();
    const { nameFor, heldName } = createRoleSets({
      storage,
      lease: LEASE,
      isLookAlike: (user) => lookAlikes.has(user),
      clock,
      onError: () => {},
    });
    expect(await nameFor('alice')).toBe(heldName('alice'));
    expect(heldName('alice')).toBeDefined();
    lookAlikes.add('alice');
    expect(heldName('alice')).toBeUndefined();
  });

  test('is none when it was read too long ago', async () => {
    const { clock, nameFor, heldName } = setUp({ alice: [2], bob: [] });
    const name = await nameFor('alice');
    for (let passed = 0; passed < 59_000; passed += LEASE) {
      clock.advance(LEASE);
      await nameFor('bob');
      expect(heldName('alice')).toBe(name);
    }
    clock.advance(LEASE);
    await nameFor('bob');
    expect(heldName('alice')).toBeUndefined();
  });
});
