import type { DatabaseSync } from 'node:sqlite';
import { foldCase } from '../../fold-case.ts';
import type { Member, Role, RoleInput, RoleSummary } from '../../roles/role.ts';
import {
  SHARED_AT_LEAST,
  SHARED_FOR,
  type RolePage,
  type RoleSet,
} from '../../roles/role-store.ts';
import { foldedBytes, textOf, toBytes } from './text.ts';
import { reading, writing } from './transactions.ts';

/**
 * What a port of roles does, in the thread of the database. Each one is a transaction. A change is given the
 * token that the roles have from then on.
 */
export function createRoleOperations(database: DatabaseSync) {
  const sql = (text: string) => database.prepare(text);
  const takeId = sql(
    'UPDATE storage SET next_role_id = next_role_id + 1 RETURNING next_role_id - 1 AS id',
  );
  const byId = sql('SELECT name, folded, description FROM role WHERE id = ?');
  const byName = sql('SELECT id FROM role WHERE folded = ?');
  const insert = sql('INSERT INTO role (id, name, folded, description) VALUES (?, ?, ?, ?)');
  const replace = sql('UPDATE role SET name = ?, folded = ?, description = ? WHERE id = ?');
  const remove = sql('DELETE FROM role WHERE id = ?');
  const count = sql('SELECT count(*) AS total FROM role WHERE instr(folded, ?) > 0');
  const list = sql(`
    SELECT id, name, description FROM role WHERE instr(folded, ?) > 0
    ORDER BY id DESC LIMIT ? OFFSET ?
  `);
  const after = sql('SELECT id, name, description FROM role WHERE id > ? ORDER BY id LIMIT ?');
  const members = sql('SELECT name FROM member WHERE role_id = ? ORDER BY position');
  const insertMember = sql(
    'INSERT INTO member (role_id, position, name, folded) VALUES (?, ?, ?, ?)',
  );
  const addMember = sql(`
    INSERT INTO member (role_id, position, name, folded)
    SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3 FROM member WHERE role_id = ?1
  `);
  const memberOf = sql('SELECT 1 FROM member WHERE folded = ? AND role_id = ?');
  const removeMember = sql('DELETE FROM member WHERE folded = ? AND role_id = ?');
  const removeMembers = sql('DELETE FROM member WHERE role_id = ?');
  const rolesOf = sql('SELECT role_id FROM member WHERE folded = ? ORDER BY role_id');
  const sharing = sql('SELECT roles_token, roles_shared_until, roles_lease FROM storage');
  const setToken = sql('UPDATE storage SET roles_token = ?');
  const note = sql('UPDATE storage SET roles_shared_until = ?, roles_lease = ?');

  const membersOf = (id: number): Member[] =>
    members.all(id).map(({ name }) => ({ type: 'user', name: textOf(name) }));
  const insertMembers = (id: number, contains: readonly Member[]) => {
    for (const [i, { name }] of contains.entries()) {
      insertMember.run(id, i + 1, toBytes(name), foldedBytes(name));
    }
  };
  const insertRole = (role: Role) => {
    const { id, name, description, contains } = role;
    insert.run(id, toBytes(name), foldedBytes(name), toBytes(description));
    insertMembers(id, contains);
  };
  /** A change that succeeds makes the role sets of before old. */
  const changing = <T>(token: string, change: () => T) =>
    writing(database, () => {
      const result = change();
      if (typeof result !== 'string' || result === 'done') setToken.run(token);
      return result;
    });
  const sharingNow = () => {
    const row = sharing.get();
    return {
      token: String(row?.['roles_token']),
      until: Number(row?.['roles_shared_until']),
      lease: Number(row?.['roles_lease']),
    };
  };
  /** Runs a change of one member within the role that has both id and name. */
  const inRole = <T>(id: number, roleName: string, token: string, change: () => T) =>
    changing(token, () => {
      const found = byId.get(id);
      if (found === undefined) return 'no-such-role';
      return foldCase(roleName) === textOf(found['folded']) ? change() : 'other-name';
    });

  return {
    createRole: (role: RoleInput, token: string) =>
      changing(token, () => {
        if (byName.get(foldedBytes(role.name)) !== undefined) return 'name-taken';
        const id = Number(takeId.get()?.['id']);
        insertRole({ ...role, id });
        return { id };
      }),

    readRole: (id: number): Role | undefined =>
      reading(database, () => {
        const found = byId.get(id);
        if (found === undefined) return undefined;
        const { name, description } = found;
        return {
          id,
          name: textOf(name),
          description: textOf(description),
          contains: membersOf(id),
        };
      }),

    updateRole: (id: number, { name, description, contains }: RoleInput, token: string) =>
      changing(token, () => {
        if (byId.get(id) === undefined) return 'no-such-role';
        const folded = foldedBytes(name);
        const owner = byName.get(folded);
        if (owner !== undefined && owner['id'] !== id) return 'name-taken';
        replace.run(toBytes(name), folded, toBytes(description), id);
        removeMembers.run(id);
        insertMembers(id, contains);
        return 'done';
      }),

    removeRole: (id: number, token: string) =>
      changing(token, () => (remove.run(id).changes === 0 ? 'no-such-role' : 'done')),

    addMember: (id: number, roleName: string, { name }: Member, token: string) =>
      inRole(id, roleName, token, () => {
        const folded = foldedBytes(name);
        if (memberOf.get(folded, id) !== undefined) return 'already-member';
        addMember.run(id, toBytes(name), folded);
        return 'done';
      }),

    removeMember: (id: number, roleName: string, { name }: Member, token: string) =>
      inRole(id, roleName, token, () =>
        removeMember.run(foldedBytes(name), id).changes === 0 ? 'not-a-member' : 'done',
      ),

    listRoles: ({ offset, limit, nameContains }: RolePage) =>
      reading(database, () => {
        const part = foldedBytes(nameContains);
        return {
          roles: list.all(part, limit, offset).map(({ id, name, description }): RoleSummary => ({
            id: Number(id),
            name: textOf(name),
            description: textOf(description),
          })),
          total: Number(count.get(part)?.['total']),
        };
      }),

    roleSet: (userName: string): RoleSet =>
      reading(database, () => ({
        token: sharingNow().token,
        ids: rolesOf.all(foldedBytes(userName)).map(({ role_id: id }) => Number(id)),
      })),

    /** @returns undefined when the lease must be noted first, by {@link noteLease} */
    tokenNoted: (lease: number, now: number): string | undefined =>
      reading(database, () => {
        const noted = sharingNow();
        const enough = noted.until - now >= SHARED_AT_LEAST && noted.lease >= lease;
        return enough ? noted.token : undefined;
      }),

    /** @returns the token */
    noteLease: (lease: number, now: number): string =>
      writing(database, () => {
        const noted = sharingNow();
        const longest = noted.until > now ? Math.max(noted.lease, lease) : lease;
        note.run(Math.max(noted.until, now + SHARED_FOR), longest);
        return noted.token;
      }),

    leaseNoted: (now: number): number =>
      reading(database, () => {
        const { until, lease } = sharingNow();
        return until > now ? lease : 0;
      }),

    /** The next roles behind an id, at most so many. Within a transaction that is under way. */
    rolesAfter: (id: number, most: number) =>
      after.all(id, most).map(({ id, name, description }): Role => ({
        id: Number(id),
        name: textOf(name),
        description: textOf(description),
        contains: membersOf(Number(id)),
      })),

    /** Within a transaction that is under way. */
    insertRole,
    setToken: (token: string) => void setToken.run(token),
  };
}
