import { foldCase } from '../../fold-case.ts';
import type { RoleStore } from '../../roles/role-store.ts';
import { bytes } from './bytes.ts';
import type { BigintText } from './bytes.ts';
import { takeId } from './counters.ts';
import type { Database } from './database.ts';
import { insertMembers, insertRole, ROLE_COLUMNS, roleOf } from './role-rows.ts';
import type { RoleRow } from './role-rows.ts';
import {
  noteLease,
  readNotedLease,
  readNotedToken,
  readRoleSet,
  setRolesToken,
} from './role-sharing.ts';
import type { Session } from './session.ts';

/**
 * Roles in PostgreSQL. Locks, in this order: the counter of the roles for whoever gives a role a name; the row of
 * the role, shared for a change of one member, alone for every other change; the row with the token, last.
 * @param newToken a random token
 */
export function createPostgresRoleStore(database: Database, newToken: () => string): RoleStore {
  /** A change that succeeds makes the role sets of before old. */
  const changing = <T>(change: (session: Session) => Promise<T>): Promise<T> =>
    database.write(async (session) => {
      const result = await change(session);
      if (typeof result !== 'string' || result === 'done') await setRolesToken(session, newToken());
      return result;
    });

  return {
    create: (role) =>
      changing(async (session) => {
        const id = await takeId(session, 'role');
        const result = await insertRole(session, { id, ...role });
        return result === 'done' ? { id } : result;
      }),

    read: (id) =>
      database.read(async (session) => {
        const [row] = await session.rows<RoleRow>(
          `SELECT ${ROLE_COLUMNS} FROM mdx_gateway_roles r WHERE r.id = $1`,
          [id],
        );
        return row && roleOf(row);
      }),

    update: (id, { name, description, contains }) =>
      changing(async (session) => {
        await session.rows(`SELECT FROM mdx_gateway_counters WHERE kind = 'role' FOR UPDATE`);
        const folded = bytes(foldCase(name));
        const found = await session.rows<{ id: BigintText }>(
          'SELECT id FROM mdx_gateway_roles WHERE id = $1 OR folded = $2 FOR UPDATE',
          [id, folded],
        );
        if (!found.some((row) => Number(row.id) === id)) return 'no-such-role';
        if (found.length > 1) return 'name-taken';
        await session.rows(
          'UPDATE mdx_gateway_roles SET name = $2, folded = $3, description = $4 WHERE id = $1',
          [id, bytes(name), folded, bytes(description)],
        );
        await session.rows('DELETE FROM mdx_gateway_members WHERE role = $1', [id]);
        await insertMembers(session, id, contains);
        return 'done';
      }),

    remove: (id) =>
      changing(async (session) => {
        const rows = await session.rows(
          'DELETE FROM mdx_gateway_roles WHERE id = $1 RETURNING id',
          [id],
        );
        return rows.length === 0 ? 'no-such-role' : 'done';
      }),

    addMember: (id, roleName, member) =>
      changing(async (session) => {
        const wrong = await shareRole(session, id, roleName);
        if (wrong !== undefined) return wrong;
        return (await insertMembers(session, id, [member])) === 0 ? 'already-member' : 'done';
      }),

    removeMember: (id, roleName, { name }) =>
      changing(async (session) => {
        const wrong = await shareRole(session, id, roleName);
        if (wrong !== undefined) return wrong;
        const rows = await session.rows(
          'DELETE FROM mdx_gateway_members WHERE role = $1 AND folded = $2 RETURNING 1',
          [id, bytes(foldCase(name))],
        );
        return rows.length === 0 ? 'not-a-member' : 'done';
      }),

    list: ({ offset, limit, nameContains }) =>
      database.read(async (session) => {
        // One statement, so that list and number are of one moment; without a role on the page, a row of nulls.
        const rows = await session.rows<ListRow>(
          `SELECT found.total, page.id, page.name, page.description
           FROM (SELECT count(*) AS total FROM mdx_gateway_roles WHERE ${MATCHES}) found
           LEFT JOIN (
             SELECT id, name, description FROM mdx_gateway_roles WHERE ${MATCHES}
             ORDER BY id DESC OFFSET $2 LIMIT $3
           ) page ON true
           ORDER BY page.id DESC`,
          [bytes(foldCase(nameContains)), offset, limit],
        );
        const roles = rows.flatMap(({ id, name, description }) =>
          id === null
            ? []
            : [{ id: Number(id), name: name.toString(), description: description.toString() }],
        );
        return { roles, total: Number(rows[0]?.total) };
      }),

    roleSet: (userName) => database.read((session) => readRoleSet(session, userName)),

    token: async (lease) => {
      const noted = await database.read((session) => readNotedToken(session, lease));
      if (noted !== undefined) return noted;
      return (await database.write((session) => noteLease(session, lease))).token;
    },

    lease: () => database.read(readNotedLease),
  };
}

/** Bytes of UTF-8 are found in others only where the characters are. */
const MATCHES = 'position($1::bytea IN folded) > 0';

type ListRow = { readonly total: BigintText } & (
  | { readonly id: BigintText; readonly name: Buffer; readonly description: Buffer }
  | { readonly id: null; readonly name: null; readonly description: null }
);

/** Sees to it that the role neither goes nor changes its name before the transaction ends. */
async function shareRole(
  session: Session,
  id: number,
  roleName: string,
): Promise<'no-such-role' | 'other-name' | undefined> {
  const [row] = await session.rows<{ folded: Buffer }>(
    'SELECT folded FROM mdx_gateway_roles WHERE id = $1 FOR SHARE',
    [id],
  );
  if (row === undefined) return 'no-such-role';
  return row.folded.equals(bytes(foldCase(roleName))) ? undefined : 'other-name';
}
