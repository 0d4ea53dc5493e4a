import { z } from 'zod';

/** What paths and queries of role requests may hold (interface document §4.1). */

/** The largest integer that every client has (32 bits with a sign). */
const LARGEST = 2_147_483_647;

const ONCE = 'must be given exactly once';

/** An id in a path. */
export const roleIdPath = z.object({
  roleId: z
    .string()
    .refine((text) => /^[1-9]\d*$/.test(text) && Number.isSafeInteger(Number(text)), {
      error: `must be a positive integer of at most ${Number.MAX_SAFE_INTEGER}`,
    })
    .transform(Number),
});

function integer(smallest: number) {
  return z
    .string({ error: ONCE })
    .refine(
      (text) => /^\d{1,10}$/.test(text) && Number(text) >= smallest && Number(text) <= LARGEST,
      { error: `must be an integer from ${smallest} to ${LARGEST}` },
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
      .refine((text) => /^(?:true|false)$/i.test(text), { error: 'must be true or false' })
      .transform((text) => text.toLowerCase() === 'true'),
    RoleName: z.string({ error: 'must be given once or not at all' }).default(''),
  })
  .transform(({ RoleName, ...page }) => ({
    ...page,
    nameContains: RoleName,
    // No storage holds so many; beyond, a number would no longer be exact.
    offset: Math.min(page.pageNum * page.pageSize, Number.MAX_SAFE_INTEGER),
  }));
