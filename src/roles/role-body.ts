import { z } from 'zod';
import { foldCase } from '../common/fold-case.ts';
import type { Member, RoleInput } from './role.ts';

/**
 * What paths, queries and bodies of role requests may hold (interface document §2.1 and §4.1). Fields of bodies that
 * are not named are ignored.
 */

/** In characters (code points), as all lengths here. */
const LONGEST = { roleName: 128, userName: 255, description: 2_000 } as const;

const orMissing = (problem: string) => (issue: { input?: unknown }) =>
  issue.input === undefined ? 'is missing' : problem;

const TEXT = orMissing('must be a string');

/** Not one that is blank, or drawn as nothing. */
const VISIBLE = /[^\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u;
/** They make text read in another order than it has. */
const BIDI_CONTROLS = /[\u202a-\u202e\u2066-\u2069]/u;

/** Text in one line that people can tell from its like when they see it. */
function name(longest: number) {
  return z
    .string({ error: TEXT })
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

const description = z
  .string({ error: TEXT })
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

const fields = { name: name(LONGEST.roleName), description };

/** The fields of both bodies. */
export const ROLE_FIELDS = ['name', 'description', 'contains'] as const;

const BODY = 'must be a JSON object';

/** The body of create and update. Of users that are named twice the first spelling counts. */
export const roleBody = z
  .object({ ...fields, contains: members() }, BODY)
  .transform(({ contains, ...role }): RoleInput => {
    const byName = Map.groupBy(contains, (member) => foldCase(member.name));
    return { ...role, contains: [...byName.values()].flatMap(([first]) => first ?? []) };
  });

/** The body of add user and remove user; the description says nothing there and may be missing. */
export const membershipBody = z
  .object({ ...fields, description: description.optional(), contains: members(1) }, BODY)
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
