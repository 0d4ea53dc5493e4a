/**
 * Roles as the interface document §2.1 has them, the port behind which they are kept, and what paths, queries and bodies
 * of role requests may hold (§4.1). Fields of bodies that are not named are ignored.
 */

import { z } from 'zod';
import { foldCase } from '../common/fold-case.ts';

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

/** What becomes of a change of a member, beside that it was made before. */
type OfMember = 'done' | 'no-such-role' | 'other-name';

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
  addMember(id: number, roleName: string, member: Member): Promise<OfMember | 'already-member'>;
  /** @param roleName as with {@link RoleStore.addMember} */
  removeMember(id: number, roleName: string, member: Member): Promise<OfMember | 'not-a-member'>;
  /** Newest first. `total` counts all roles that match. */
  list(page: RolePage): Promise<{ readonly roles: readonly RoleSummary[]; readonly total: number }>;
  /** The roles of a user and the token of all roles, of one moment. */
  roleSet(userName: string): Promise<RoleSet>;
  /** The token of all roles. Role sets may be used under it for `lease` milliseconds, which {@link RoleStore.lease} tells of. */
  token(lease: number): Promise<string>;
  /** For how long role sets that were read before now may still be in use anywhere (ms); 0 when no lease was noted. */
  lease(): Promise<number>;
}

/** What decides with whom a user shares. */
export interface RoleSet {
  /** A random text; every change of any role makes a new one in the same transaction. */
  readonly token: string;
  /** Ids of the roles that the user is a member of, ascending. */
  readonly ids: readonly number[];
}

/** In characters (code points), as all lengths here. */
const LONGEST = { roleName: 128, userName: 255, description: 2_000 } as const;

const orMissing = (problem: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? 'is missing' : problem;

const text = z.string({ error: orMissing('must be a string') });

/** Not one that is blank, or drawn as nothing. */
const VISIBLE = /[^\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u;
/** They make text read in another order than it has. */
const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/u;

/** Text in one line that people can tell from its like when they see it. */
function name(longest: number) {
  return text
    .refine((text) => text !== '', 'must not be empty')
    .refine((text) => isWithin(text, longest), `must have at most ${longest} characters`)
    .refine((text) => text === text.trim(), 'must not begin or end with white space')
    .refine(
      (text) => !/[\p{Cc}\p{Cs}\u2028\u2029]/u.test(text),
      'must not hold control characters, line breaks or halves of surrogate pairs',
    )
    .refine(
      (text) => !BIDI_CONTROLS.test(text),
      'must not hold controls of the direction of text (U+202A to U+202E, U+2066 to U+2069)',
    )
    .refine((text) => text.trim() === '' || VISIBLE.test(text), 'must hold a visible character');
}

const description = text
  .refine(
    (text) => isWithin(text, LONGEST.description),
    `must have at most ${LONGEST.description} characters`,
  )
  .refine((text) => text.isWellFormed(), 'must not hold halves of surrogate pairs');

const member = z.object(
  { type: z.literal('user', { error: orMissing('must be "user"') }), name: name(LONGEST.userName) },
  'must be an object with type and name',
);

/** A body can hold millions of wrong members; more are of no use to a reader, and looking at them takes seconds. */
const ENOUGH_PROBLEMS = 100;

function members(exactly?: number) {
  return z
    .array(z.unknown(), { error: orMissing('must be an array') })
    .transform((items, context): Member[] => {
      const complain = (message: string, path: PropertyKey[]) =>
        context.addIssue({ code: 'custom', message, path });
      if (exactly !== undefined && items.length !== exactly) {
        complain(`must hold exactly ${exactly} user`, []);
      }
      const read: Member[] = [];
      for (const [index, item] of items.entries()) {
        if (context.issues.length >= ENOUGH_PROBLEMS) break;
        const { success, data, error } = member.safeParse(item);
        if (success) read.push(data);
        else for (const { path, message } of error.issues) complain(message, [index, ...path]);
      }
      return read;
    });
}

/** The fields of both bodies. */
export const ROLE_FIELDS = ['name', 'description', 'contains'] as const;

/** The body of create and update. Of users that are named twice the first spelling counts. */
export const roleBody = z
  .object(
    { name: name(LONGEST.roleName), description, contains: members() },
    'must be a JSON object',
  )
  .transform(({ contains, ...role }): RoleInput => {
    const byName = Map.groupBy(contains, (member) => foldCase(member.name));
    return { ...role, contains: [...byName.values()].flatMap(([first]) => first ?? []) };
  });

/** The body of add user and remove user; the description says nothing there and may be missing. */
export const membershipBody = z
  .object(
    { name: name(LONGEST.roleName), description: description.optional(), contains: members(1) },
    'must be a JSON object',
  )
  .transform(({ name, contains }) => ({ roleName: name, member: contains[0] as Member }));

/** Counts no further than it must. */
function isWithin(text: string, longest: number): boolean {
  return text.length <= longest || (text.length <= 2 * longest && [...text].length <= longest);
}

/** The largest integer that every client has (32 bits with a sign). */
const LARGEST = 2_147_483_647;

const ONCE = 'must be given exactly once';

/** An id in a path. */
export const roleIdPath = z.object({
  roleId: z
    .string()
    .refine(
      (text) => /^[1-9]\d*$/.test(text) && Number.isSafeInteger(Number(text)),
      `must be a positive integer of at most ${Number.MAX_SAFE_INTEGER}`,
    )
    .transform(Number),
});

function integer(smallest: number) {
  return z
    .string({ error: ONCE })
    .refine(
      (text) => /^\d{1,10}$/.test(text) && Number(text) >= smallest && Number(text) <= LARGEST,
      `must be an integer from ${smallest} to ${LARGEST}`,
    )
    .transform(Number);
}

/** The query of the list of roles; the page counts from 0. */
export const roleListQuery = z
  .object({
    pageNum: integer(0),
    pageSize: integer(1),
    containsDesc: z
      .string({ error: ONCE })
      .refine((text) => /^(?:true|false)$/i.test(text), 'must be true or false')
      .transform((text) => text.toLowerCase() === 'true'),
    RoleName: z.string({ error: 'must be given once or not at all' }).default(''),
  })
  .transform(({ RoleName, ...page }) => ({
    ...page,
    nameContains: RoleName,
    // No storage holds so many; beyond, a number would no longer be exact.
    offset: Math.min(page.pageNum * page.pageSize, Number.MAX_SAFE_INTEGER),
  }));
