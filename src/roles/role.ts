/** Roles as the interface document §2.1 has them. */

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
