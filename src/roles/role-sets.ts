import { LRUCache } from 'lru-cache';
import type { Clock } from '../clock.ts';
import type { Epochs } from '../query-cache/epochs.ts';
import type { Scope } from '../query-cache/scopes.ts';

/** Users whose role sets are remembered. */
const MAX_USERS = 10_000;
/** Even so they are read again from time to time (ms), for a change that came past every gateway. */
const REMEMBERED_FOR = 60_000;
/** A storage that failed is left alone for this long (ms), so that no query waits for it. */
const PAUSE = 1_000;
/** A query does not wait longer than this for the roles of its user (ms). */
const DEADLINE = 200;

/**
 * The epoch of everything is renewed where that of roles may have come back from a snapshot of before a change.
 */
const SCOPES: readonly Scope[] = ['everything', 'roles'];

/** Whose entries a user with roles shares. */
export interface RoleSets {
  /**
   * A name for all users who have the same roles as this one, at this moment: storage, epoch of roles, and the
   * ids. Since the epoch is in it, an answer that was fetched under a set of before is never found afterwards.
   * @returns undefined for a user without roles, and when the roles cannot be known; never rejects
   */
  nameFor(user: string): Promise<string | undefined>;
}

/** Where roles are not known, everybody is for himself. */
export const NO_ROLE_SETS: RoleSets = { nameFor: async () => undefined };

/**
 * Remembers the role sets of users under the epoch of roles. A change of roles renews that epoch after it was
 * saved and before it is answered, so what is read under the new epoch is never of before.
 */
export function createRoleSets(options: {
  storage: { id(): Promise<string>; roles: { rolesOf(user: string): Promise<readonly number[]> } };
  epochs: Pick<Epochs, 'held' | 'obtain'>;
  clock: Clock;
  onError: (error: unknown) => void;
}): RoleSets {
  const { storage, epochs, clock } = options;
  const remembered = new LRUCache<
    string,
    { epoch: string; name: string | undefined; until: number }
  >({ max: MAX_USERS });
  let pausedUntil = -Infinity;

  async function read(user: string, epoch: string): Promise<string | undefined> {
    const until = clock.now() + REMEMBERED_FOR;
    const [id, roles] = await Promise.all([storage.id(), storage.roles.rolesOf(user)]);
    const name = roles.length === 0 ? undefined : `roles:${id}:${epoch}:${roles.join(',')}`;
    remembered.set(user, { epoch, name, until });
    return name;
  }

  return {
    async nameFor(user) {
      const captured = epochs.held(SCOPES) ?? (await epochs.obtain(SCOPES));
      if (captured === undefined) return undefined;
      const epoch = captured.tokens.join('.');
      const known = remembered.get(user);
      if (known?.epoch === epoch && clock.now() < known.until) return known.name;
      if (clock.now() < pausedUntil) return undefined;
      try {
        return await inTime(read(user, epoch));
      } catch (error) {
        pausedUntil = clock.now() + PAUSE;
        options.onError(error);
        return undefined;
      }
    },
  };
}

/** What comes later is remembered all the same, for the next query. */
async function inTime<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error('the roles took too long')), DEADLINE);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
