import type { Principal } from './authenticator.ts';

/** What a principal may do beyond querying and reading, which every known user may. */
export interface Permissions {
  /** Change roles and datasets, and purge. */
  mayAdminister(principal: Principal): boolean;
  /** Purge the cache. Every administrator may. */
  mayPurge(principal: Principal): boolean;
  /** Have the cache passed by or renewed for a request, by its header Cache-Control. */
  mayControlCache(principal: Principal): boolean;
}

export interface PermissionLists {
  /** `auth.admins`. */
  readonly admins: readonly string[];
  /** `auth.purgers`. */
  readonly purgers: readonly string[];
}

/**
 * Answers from the two lists of the configuration. Names count exactly as spelt, like those of the users
 * file: letter case matters, and nothing is trimmed or normalised.
 * @param controlling `cache.client_control`
 */
export function createPermissions(
  { admins, purgers }: PermissionLists,
  controlling: 'nobody' | 'purgers' | 'everybody',
): Permissions {
  const administering = new Set(admins);
  const purging = new Set([...admins, ...purgers]);
  return {
    mayAdminister: ({ name }) => administering.has(name),
    mayPurge: ({ name }) => purging.has(name),
    mayControlCache: ({ name }) =>
      controlling === 'everybody' || (controlling === 'purgers' && purging.has(name)),
  };
}
