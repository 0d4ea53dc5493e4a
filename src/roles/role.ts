/** Roles (interface document §2.1), the port of their storage, and request bodies (§4.1). */
import { z } from 'zod';
import { foldCase } from '../common/fold-case.ts';

/** The permanent role, which cannot be deleted. It grants nothing in the gateway. */
export const ADMIN_ROLE = {
  id: 1,
  name: 'Admin',
  description: 'This role is an admin role with all semantic information access to all datasets',
} as const;

/** A member of a role: its name as first spelt, compared by {@link foldCase}. */
export type Member = Readonly<z.output<typeof member>>;
/** Its name is unique in any letter case, and each member occurs once. */
export type RoleInput = Readonly<z.output<typeof roleBody>>;
/** Ids are positive and never given again. */
export type Role = RoleInput & { readonly id: number };
export type RoleSummary = Omit<Role, 'contains'>;
export type RolePage = Readonly<{ offset: number; limit: number; nameContains: string }>;
type OfMember = 'done' | 'no-such-role' | 'other-name';

/** Port of the storage: atomic, durable; rejects with `StorageUnavailable` when that is away. */
export interface RoleStore {
  /** Ids are consecutive: a role that could not be created takes none. */
  create(role: RoleInput): Promise<{ readonly id: number } | 'name-taken'>;
  read(id: number): Promise<Role | undefined>;
  update(id: number, role: RoleInput): Promise<'done' | 'no-such-role' | 'name-taken'>;
  remove(id: number): Promise<'done' | 'no-such-role'>;
  addMember(id: number, roleName: string, member: Member): Promise<OfMember | 'already-member'>;
  removeMember(id: number, roleName: string, member: Member): Promise<OfMember | 'not-a-member'>;
  /** Newest first; `total` counts all that match. */
  list(page: RolePage): Promise<{ readonly roles: readonly RoleSummary[]; readonly total: number }>;
  /** Reads ids, ascending, and the token of all roles in one moment. */
  roleSet(userName: string): Promise<{ readonly token: string; readonly ids: readonly number[] }>;
  /** A random text that every change renews; role sets may be used under it for `lease` ms. */
  token(lease: number): Promise<string>;
  /** The longest use (ms) that any gateway may still make of role sets read before now. */
  lease(): Promise<number>;
}

/** Code points. */
const LONGEST = { roleName: 128, userName: 255, description: 2_000 } as const;
const orMissing = (problem: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? 'is missing' : problem;
const text = z.string({ error: orMissing('must be a string') });
const upTo = (longest: number) =>
  text.refine((text) => isWithin(text, longest), `must have at most ${longest} characters`);
/** Counts no further than it must. */
const isWithin = (text: string, longest: number) =>
  text.length <= longest || (text.length <= 2 * longest && [...text].length <= longest);
const HALVES = 'halves of surrogate pairs';
const NO_BREAKS = `must not hold control characters, line breaks or ${HALVES}`;
const BREAKS = /[\p{Cc}\p{Cs}\u2028\u2029]/u;
/** Some character that is not blank, and not drawn as nothing. */
const VISIBLE = /[^\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u;
/** They change the order in which text is read. */
const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/u;
const NO_BIDI =
  'must not hold controls of the direction of text (U+202A to U+202E, U+2066 to U+2069)';

function name(longest: number) {
  return upTo(longest)
    .refine((text) => text !== '', 'must not be empty')
    .refine((text) => text === text.trim(), 'must not begin or end with white space')
    .refine((text) => !BREAKS.test(text), NO_BREAKS)
    .refine((text) => !BIDI_CONTROLS.test(text), NO_BIDI)
    .refine((text) => text.trim() === '' || VISIBLE.test(text), 'must hold a visible character');
}

const whole = (text: string) => text.isWellFormed();
const description = upTo(LONGEST.description).refine(whole, `must not hold ${HALVES}`);

const member = z.object(
  { type: z.literal('user', { error: orMissing('must be "user"') }), name: name(LONGEST.userName) },
  'must be an object with type and name',
);

/** A body can hold millions of wrong members, which take seconds. */
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

/** Fields of both bodies; others are ignored. */
export const ROLE_FIELDS = ['name', 'description', 'contains'] as const;
const bodyOf = <T extends z.core.$ZodShape>(shape: T) =>
  z.object({ name: name(LONGEST.roleName), ...shape }, 'must be a JSON object');

/** Body of create and update. The first spelling of a user counts. */
export const roleBody = bodyOf({ description, contains: members() }).transform(
  ({ contains, ...role }) => {
    const byName = Map.groupBy(contains, (member) => foldCase(member.name));
    const once: readonly Member[] = [...byName.values()].flatMap(([first]) => first ?? []);
    return { ...role, contains: once };
  },
);

/** Body of add user and remove user; the description says nothing. */
export const membershipBody = bodyOf({
  description: description.optional(),
  contains: members(1),
}).transform(({ name, contains }) => ({ roleName: name, member: contains[0] as Member }));

const userNames = z.array(z.object({ name: z.string() }).transform(({ name }) => name));
/** Names in either body, as far as readable, for the log. */
export const namedRole = z.object({
  name: z.string(),
  contains: userNames.optional().catch(undefined),
});

/** The largest integer that every client has. */
const LARGEST = 2 ** 31 - 1;
const ONCE = 'must be given exactly once';
const isId = (text: string) => /^[1-9]\d*$/.test(text) && Number.isSafeInteger(Number(text));
const MUST_BE_ID = `must be a positive integer of at most ${Number.MAX_SAFE_INTEGER}`;
const roleId = z.string().refine(isId, MUST_BE_ID).transform(Number);
export const roleIdPath = z.object({ roleId });

function integer(smallest: number) {
  const isOne = (text: string) =>
    /^\d{1,10}$/.test(text) && Number(text) >= smallest && Number(text) <= LARGEST;
  const problem = `must be an integer from ${smallest} to ${LARGEST}`;
  return z.string({ error: ONCE }).refine(isOne, problem).transform(Number);
}

/** The query of the role list; pages count from 0. */
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
    // No storage holds more; larger numbers would not be exact.
    offset: Math.min(page.pageNum * page.pageSize, Number.MAX_SAFE_INTEGER),
  }));
