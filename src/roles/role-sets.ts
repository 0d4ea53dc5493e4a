import { LRUCache } from 'lru-cache';
import { type Clock, inTime } from '../common/clock.ts';
import { createLeaseCache } from '../common/leases.ts';
import type { RoleStore } from './role.ts';

/** Limits what is remembered of users: a change may pass every gateway. */
const MAX_USERS = 10_000;
const REMEMBERED_FOR_MS = 60_000;
/** A failed storage is left alone, so that no query waits for it. */
const PAUSE_MS = 1_000;
/** Limits a query's wait for roles; later ones serve the next query. */
const DEADLINE_MS = 200;
const TOKEN = 'roles';
const tooLate = () => new Error('the roles took too long');
export type RoleSets = ReturnType<typeof createRoleSets>;
export const NO_ROLE_SETS: RoleSets = { nameFor: async () => undefined, heldName: () => undefined };

/**
 * Uses role sets of users while the token under which they were read is in force. The storage notes
 * that a token may be used for `lease` ms after the question: a change of a role waits so long.
 */
export function createRoleSets(given: {
  storage: { id(): Promise<string>; roles: Pick<RoleStore, 'roleSet' | 'token'> };
  lease: number;
  /** Roles ignore letter case, so they may not tell this user from another. */
  isLookAlike: (user: string) => boolean;
  clock: Clock;
  onError: (error: unknown) => void;
}) {
  const { storage, lease, isLookAlike, clock, onError } = given;
  type RoleSet = Readonly<{ token: string; name: string | undefined; until: number }>;
  const remembered = new LRUCache<string, RoleSet>({ max: MAX_USERS });
  let pausedUntil = -Infinity;
  /** Reports a failure once for the queries that waited for one read. */
  function fail(error: unknown): undefined {
    if (clock.now() < pausedUntil) return;
    pausedUntil = clock.now() + PAUSE_MS;
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
    throw new Error('reading the token of the roles took longer than its lease');
  }

  function recall(user: string, token = tokenNow()) {
    const known = remembered.get(user);
    return known && known.token === token && clock.now() < known.until ? known : undefined;
  }

  /** Reads roles after the query came, so that they count for it in any case. */
  async function read(user: string): Promise<string | undefined> {
    const inForce = tokenNow() ?? (await obtainToken());
    const known = recall(user, inForce);
    if (known !== undefined) return known.name;
    const until = clock.now() + REMEMBERED_FOR_MS;
    const [id, { token, ids }] = await Promise.all([storage.id(), storage.roles.roleSet(user)]);
    const name = ids.length === 0 ? undefined : `roles:${id}:${token}:${ids.join(',')}`;
    remembered.set(user, { token, name, until });
    // Otherwise each query of a lease would find out anew that the roles were changed.
    if (token !== inForce && tokenNow() === inForce) tokens.forget([TOKEN]);
    return name;
  }

  return {
    /** Works as `nameFor`, but without reading. */
    heldName: (user: string): string | undefined =>
      isLookAlike(user) ? undefined : recall(user)?.name,
    /**
     * Names all users with equal roles; the token in the name hides answers of earlier sets.
     * @returns undefined without roles, with a look-alike, or for unknown roles; never rejects
     */
    async nameFor(user: string): Promise<string | undefined> {
      if (isLookAlike(user)) return undefined;
      const known = recall(user);
      if (known !== undefined) return known.name;
      if (clock.now() < pausedUntil) return undefined;
      return inTime(read(user), DEADLINE_MS, tooLate, clock).catch(fail);
    },
  };
}
