/** Roles as the interface document §2.1 has them, and the port behind which they are kept. */

/** The role that is always there. It grants nothing in the gateway, and cannot be deleted. */
export const ADMIN_ROLE = {
  id: 1,
  name: 'Admin',
  description: 'This role is an admin role with all semantic information access to all datasets',
} as const;

/** A member of a role. `user` is the only type there is. */
export interface Member {
  readonly type: 'user';
  /** As it was first spelt; compared without regard to case ({@link foldCase}). */
  readonly name: string;
}

/** A role as it is created or replaced: checked, each member once. */
export interface RoleInput {
  /** Unique without regard to case. */
  readonly name: string;
  readonly description: string;
  /** In the order in which they were given or added. */
  readonly contains: readonly Member[];
}

export interface Role extends RoleInput {
  /** A positive integer that is never given again. */
  readonly id: number;
}

/** A role as it is listed. */
export type RoleSummary = Omit<Role, 'contains'>;

/** A page of the list of roles. */
export interface RolePage {
  /** How many roles come before the page. */
  readonly offset: number;
  /** How many roles the page holds at most. */
  readonly limit: number;
  /** Only roles whose name contains this without regard to case; empty: all. */
  readonly nameContains: string;
}

/**
 * Port: where the roles are. What it is given was checked before. Names of roles and users are compared by
 * {@link foldCase}. Each method is atomic, and what it reports as done outlives the process.
 *
 * Every method rejects with `StorageUnavailable` when the storage cannot be reached or does not answer in time.
 */
export interface RoleStore {
  /** The ids are consecutive: a role that could not be created takes none. */
  create(role: RoleInput): Promise<{ readonly id: number } | 'name-taken'>;
  read(id: number): Promise<Role | undefined>;
  /** Replaces name, description and members. */
  update(id: number, role: RoleInput): Promise<'done' | 'no-such-role' | 'name-taken'>;
  remove(id: number): Promise<'done' | 'no-such-role'>;
  /** @param roleName the name that the caller gives the role; it must be the one of `id` */
  addMember(
    id: number,
    roleName: string,
    member: Member,
  ): Promise<'done' | 'no-such-role' | 'other-name' | 'already-member'>;
  /** @param roleName as with {@link RoleStore.addMember} */
  removeMember(
    id: number,
    roleName: string,
    member: Member,
  ): Promise<'done' | 'no-such-role' | 'other-name' | 'not-a-member'>;
  /** Newest first. `total` counts all roles that match. */
  list(page: RolePage): Promise<{ readonly roles: readonly RoleSummary[]; readonly total: number }>;
  /** The roles of a user and the token of all roles, of one moment. */
  roleSet(userName: string): Promise<RoleSet>;
  /**
   * The token of all roles. Notes that the caller may use role sets under it for `lease` milliseconds after it
   * asked: a change that is made later is told of that by {@link RoleStore.lease}.
   */
  token(lease: number): Promise<string>;
  /**
   * For how long role sets that were read before now may still be in use anywhere, in milliseconds: the longest
   * of all leases that were noted, 0 when none was for an hour.
   */
  lease(): Promise<number>;
}

/** What decides with whom a user shares. */
export interface RoleSet {
  /** A random text; every change of any role makes a new one in the same transaction. */
  readonly token: string;
  /** Ids of the roles that the user is a member of, ascending. */
  readonly ids: readonly number[];
}

/** For how long a note of {@link RoleStore.token} counts (ms). */
export const SHARED_FOR = 3_600_000;
/** A note that counts for less than this is renewed (ms), so that hardly any token is asked for by a write. */
export const SHARED_AT_LEAST = SHARED_FOR / 2;
