import { LRUCache } from 'lru-cache';
import { type Clock, inTime } from '../common/clock.ts';
import { createLeaseCache } from '../common/leases.ts';
import type { RoleStore } from './role.ts';

/** Users whose role sets are remembered, and how long (ms): a change may pass every gateway. */
const MAX_USERS = 10_000;
const REMEMBERED_FOR = 60_000;
/** A storage that failed is left alone for this long (ms), so that no query waits for it. */
const PAUSE = 1_000;
/** Longest wait of a query for its user's roles (ms); later ones serve the next query. */
const DEADLINE = 200;
const TOKEN = 'roles';
const tooLate = () => new Error('the roles took too long');
export type RoleSets = ReturnType<typeof createRoleSets>;
export const NO_ROLE_SETS: RoleSets = { nameFor: async () => undefined, heldName: () => undefined };

/**
 * Uses the role sets of users while the token under which they were read is the one of the roles. A
 * token may be used for `lease` milliseconds after it was asked for, which the storage has noted:
 * who changes a role knows how long to wait.
 */
export function createRoleSets(given: {
  storage: { id(): Promise<string>; roles: Pick<RoleStore, 'roleSet' | 'token'> };
  lease: number;
  /** Whether roles, which ignore letter case, cannot tell this user from another. */
  isLookAlike: (user: string) => boolean;
  clock: Clock;
  onError: (error: unknown) => void;
}) {
  const { storage, lease, isLookAlike, clock, onError } = given;
  type RoleSet = Readonly<{ token: string; name: string | undefined; until: number }>;
  const remembered = new LRUCache<string, RoleSet>({ max: MAX_USERS });
  let pausedUntil = -Infinity;
  /** Reports a failure once for the many queries that waited for one read. */
  function fail(error: unknown): undefined {
    if (clock.now() < pausedUntil) return;
    pausedUntil = clock.now() + PAUSE;
    onError(error);
  }

  const ofAll = { lease: () => lease, max: 1, ownerOf: () => '' };
  const tokens = createLeaseCache<string>({ clock, ...ofAll, onError: fail });
  const tokenNow = () => tokens.held(TOKEN);
  const askToken = () => storage.roles.token(lease);

  async function obtainToken(): Promise<string> {
    const token = await tokens.readOnce([TOKEN], askToken, (reply, since) => {
      tokens.keep(TOKEN, reply, since);
      return tokenNow();
    });
    if (token !== undefined) return token;
    throw new Error('the token of the roles took longer to read than it may be used');
  }

  function recall(user: string, token = tokenNow()) {
    const known = remembered.get(user);
    return known && known.token === token && clock.now() < known.until ? known : undefined;
  }

  /** Reads roles, which count for its query in any case: they were asked for after it came. */
  async function read(user: string): Promise<string | undefined> {
    const inForce = tokenNow() ?? (await obtainToken());
    const known = recall(user, inForce);
    if (known !== undefined) return known.name;
    const until = clock.now() + REMEMBERED_FOR;
    const [id, { token, ids }] = await Promise.all([storage.id(), storage.roles.roleSet(user)]);
    const name = ids.length === 0 ? undefined : `roles:${id}:${token}:${ids.join(',')}`;
    remembered.set(user, { token, name, until });
    // So that not each query of a lease finds out anew that the roles were changed.
    if (token !== inForce && tokenNow() === inForce) tokens.forget([TOKEN]);
    return name;
  }

  return {
    /** Names as `nameFor`, but undefined also when it would have to be read. */
    heldName: (user: string): string | undefined =>
      isLookAlike(user) ? undefined : recall(user)?.name,
    /**
     * A name for all users who have the same roles now; the token in it keeps answers of earlier
     * sets from being found.
     * @returns undefined for a user without roles or with a look-alike, and when the roles cannot
     *   be known; never rejects
     */
    async nameFor(user: string): Promise<string | undefined> {
      if (isLookAlike(user)) return undefined;
      const known = recall(user);
      if (known !== undefined) return known.name;
      if (clock.now() < pausedUntil) return undefined;
      return inTime(read(user), DEADLINE, tooLate, clock).catch(fail);
    },
  };
}
