import { expect } from '@jest/globals';
import { createRoleSets } from '../../../src/roles/role-sets.ts';
import { gate } from '../../support/stub-engine.ts';
import { handClock } from '../cache/fakes.ts';

export const LEASE = 1_000;

/** A storage whose roles a test changes by hand, and whose replies it holds up. */
function fakeStorage(members: Record<string, number[]>) {
  let changes = 0;
  const storage = {
    members,
    asked: { sets: 0, tokens: 0 },
    failing: false,
    /** Closed: a read waits before it answers what was true when it began. */
    slowSets: gate(),
    slowTokens: gate(),
    change(user: string, ids: number[]) {
      members[user] = ids;
      changes += 1;
    },
    async id() {
      return 'storage';
    },
    roles: {
      async roleSet(user: string) {
        storage.asked.sets += 1;
        if (storage.failing) throw new Error('away');
        const set = { token: `token${changes}`, ids: storage.members[user] ?? [] };
        await storage.slowSets.opened;
        return set;
      },
      async token(lease: number) {
        expect(lease).toBe(LEASE);
        storage.asked.tokens += 1;
        if (storage.failing) throw new Error('away');
        const token = `token${changes}`;
        await storage.slowTokens.opened;
        return token;
      },
    },
  };
  storage.slowSets.open();
  storage.slowTokens.open();
  return storage;
}

export function setUp(members: Record<string, number[]>) {
  const clock = handClock();
  const storage = fakeStorage(members);
  const errors: unknown[] = [];
  const replica = () =>
    createRoleSets({
      storage,
      lease: LEASE,
      isLookAlike: (user) => user.startsWith('twin'),
      clock,
      onError: (error) => errors.push(error),
    });
  const { nameFor, heldName } = replica();
  return { clock, storage, errors, replica, nameFor, heldName };
}
