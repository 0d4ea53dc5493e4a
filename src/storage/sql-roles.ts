import { foldCase } from '../common/fold-case.ts';
import type { Member, Role, RoleStore } from '../roles/role.ts';
import {
  foldedBytes,
  isRefusal,
  newToken,
  only,
  type QueriedDatabase,
  type Row,
  type Session,
  type StorageParts,
  textOf,
  toBytes,
  type Value,
  type Work,
} from './sql-database.ts';

const SHARED_FOR_MS = 3_600_000;
/** A note is renewed with less time left than this, so that few token reads write. */
const SHARED_AT_LEAST_MS = SHARED_FOR_MS / 2;

/**
 * Lock order: names of all roles, for a change that names a role; the row of the role, shared for a
 * change of one member, exclusive otherwise; last the row with the token.
 */
export function createRoleStore(database: QueriedDatabase, parts: StorageParts): RoleStore {
  const { dialect, run } = database;
  const { roles, members } = dialect.tables;

  /** A successful change makes role sets read earlier stale. */
  const changing = <T>(change: Work<T>) =>
    run('write', async (session) => {
      const result = await change(session);
      if (!isRefusal(result)) await setRolesToken(session, newToken(parts));
      return result;
    });

  const inRole = <T>(id: number, roleName: string, change: Work<T>) =>
    changing(async (session) => {
      const locked = `SELECT folded FROM ${roles} WHERE id = ?1${dialect.forShare}`;
      const [role] = await session.rows(locked, [id]);
      if (role === undefined) return 'no-such-role';
      if (textOf(role['folded']) !== foldCase(roleName)) return 'other-name';
      return await change(session);
    });

  return {
    ...lookUps(database),

    create: (role) =>
      changing(async (session) => {
        const id = Number(only(await session.rows(dialect.takeId.role))['id']);
        return insertRole(session, { id, ...role });
      }),

    update: (id, { name, description, contains }) =>
      changing(async (session) => {
        if (dialect.lockNames !== undefined) await session.rows(dialect.lockNames);
        const folded = foldedBytes(name);
        const locked = `SELECT id FROM ${roles} WHERE id = ?1 OR folded = ?2${dialect.forUpdate}`;
        const found = await session.rows(locked, [id, folded]);
        if (!found.some((row) => Number(row['id']) === id)) return 'no-such-role';
        if (found.length > 1) return 'name-taken';
        const change = `UPDATE ${roles} SET name = ?2, folded = ?3, description = ?4 WHERE id = ?1`;
        await session.rows(change, [id, toBytes(name), folded, toBytes(description)]);
        await session.rows(`DELETE FROM ${members} WHERE ${dialect.roleOfMember} = ?1`, [id]);
        await session.rows(dialect.insertMembers, [id, membersJson(contains)]);
        return 'done';
      }),

    remove: (id) =>
      changing(async (session) => {
        const rows = await session.rows(`DELETE FROM ${roles} WHERE id = ?1 RETURNING id`, [id]);
        return rows.length === 0 ? 'no-such-role' : 'done';
      }),

    addMember: (id, roleName, member) =>
      inRole(id, roleName, async (session) => {
        const added = await session.rows(dialect.insertMembers, [id, membersJson([member])]);
        return added.length === 0 ? 'already-member' : 'done';
      }),

    removeMember: (id, roleName, { name }) =>
      inRole(id, roleName, async (session) => {
        const removal = `DELETE FROM ${members} WHERE ${dialect.roleOfMember} = ?1 AND folded = ?2 RETURNING 1`;
        const removed = await session.rows(removal, [id, foldedBytes(name)]);
        return removed.length === 0 ? 'not-a-member' : 'done';
      }),
  };
}

type LookUps = Pick<RoleStore, 'read' | 'list' | 'roleSet' | 'token' | 'lease'>;
function lookUps({ dialect, run, query }: QueriedDatabase): LookUps {
  const { storage, roles, members } = dialect.tables;
  /** The noted lease, if it is in force and longer than `other`. */
  const longerLease = (other: string) =>
    `CASE WHEN roles_shared_until > ${dialect.moment(0)} AND roles_lease > ${other}
      THEN roles_lease ELSE ${other} END`;

  return {
    read: (id) =>
      run('read', async (session) => (await readRoles(session, 'WHERE id = ?1', [id]))[0]),

    async list({ offset, limit, nameContains }) {
      const matching = `FROM ${roles} WHERE ${dialect.contains}`;
      // LEFT JOIN: a page without roles is one row of nulls.
      const asked = `SELECT found.total, page.id, page.name, page.description
        FROM (SELECT count(*) AS total ${matching}) found
        LEFT JOIN (SELECT id, name, description ${matching} ORDER BY id DESC LIMIT ?3 OFFSET ?2) page
        ON true ORDER BY page.id DESC`;
      const rows = await query(asked, [foldedBytes(nameContains), offset, limit]);
      const listed = rows.filter(({ id }) => id !== null);
      return { roles: listed.map(summaryOf), total: Number(rows[0]?.['total']) };
    },
    async roleSet(userName) {
      const asked = `SELECT s.roles_token AS token, m.${dialect.roleOfMember} AS role
        FROM ${storage} s LEFT JOIN ${members} m ON m.folded = ?1 ORDER BY role`;
      const rows = await query(asked, [foldedBytes(userName)]);
      const ids = rows.filter(({ role }) => role !== null).map(({ role }) => Number(role));
      return { token: String(only(rows)['token']), ids };
    },
    async token(lease) {
      const asked = `SELECT roles_token AS token, roles_lease >= ?1
        AND roles_shared_until >= ${dialect.moment(SHARED_AT_LEAST_MS)} AS noted FROM ${storage}`;
      const { token, noted } = only(await query(asked, [lease]));
      // PostgreSQL and SQLite differ in truth values.
      if (noted === true || noted === 1) return String(token);
      const renewal = `UPDATE ${storage} SET roles_lease = ${longerLease('?1')},
        roles_shared_until = ${dialect.moment(SHARED_FOR_MS)} RETURNING roles_token AS token`;
      // A write waits for a change that is being committed, and returns its token.
      const renewed = await run('write', (session) => session.rows(renewal, [lease]));
      return String(only(renewed)['token']);
    },
    async lease() {
      const rows = await query(`SELECT ${longerLease('0')} AS lease FROM ${storage}`);
      return Number(only(rows)['lease']);
    },
  };
}

export async function insertRole(session: Session, role: Role) {
  const { id, name, description, contains } = role;
  const { tables, insertMembers } = session.dialect;
  const rows = await session.rows(
    `INSERT INTO ${tables.roles} (id, name, folded, description) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (folded) DO NOTHING RETURNING id`,
    [id, toBytes(name), foldedBytes(name), toBytes(description)],
  );
  if (rows.length === 0) return 'name-taken';
  await session.rows(insertMembers, [id, membersJson(contains)]);
  return { id };
}

const membersJson = (members: readonly Member[]): string =>
  JSON.stringify(
    members.map(({ name }) => [toBytes(name), foldedBytes(name)].map((b) => b.toString('hex'))),
  );

/**
 * Must be the last statement of each change of a role: the locked row serializes commits, so that a
 * token stands for one moment.
 */
export async function setRolesToken(session: Session, token: string): Promise<void> {
  await session.rows(`UPDATE ${session.dialect.tables.storage} SET roles_token = ?1`, [token]);
}

export async function readRoles(session: Session, which: string, values: readonly Value[]) {
  const { tables, roleOfMember } = session.dialect;
  const rows = await session.rows(
    `SELECT r.id, r.name, r.description, m.name AS member
     FROM (SELECT id, name, description FROM ${tables.roles} ${which}) r
     LEFT JOIN ${tables.members} m ON m.${roleOfMember} = r.id
     ORDER BY r.id, m.position`,
    values,
  );
  return [...Map.groupBy(rows, ({ id }) => Number(id)).values()].map((ofRole) => {
    const named = ofRole.filter(({ member }) => member !== null);
    const contains = named.map(({ member }): Member => ({ type: 'user', name: textOf(member) }));
    return Object.assign(summaryOf(only(ofRole)), { contains });
  });
}

const summaryOf = ({ id, name, description }: Row) => ({
  id: Number(id),
  name: textOf(name),
  description: textOf(description),
});
