import { foldCase } from '../../fold-case.ts';
import type { Member, Role } from '../../roles/role.ts';
import { bytes } from './bytes.ts';
import type { BigintText } from './bytes.ts';
import type { Session } from './session.ts';

/** The columns of a role with its members, of a table `r`. */
export const ROLE_COLUMNS = `r.id, r.name, r.description, ARRAY(
    SELECT m.name FROM mdx_gateway_members m WHERE m.role = r.id ORDER BY m.position
  ) AS members`;

export interface RoleRow {
  readonly id: BigintText;
  readonly name: Buffer;
  readonly description: Buffer;
  readonly members: readonly Buffer[];
}

export function roleOf({ id, name, description, members }: RoleRow): Role {
  return {
    id: Number(id),
    name: name.toString(),
    description: description.toString(),
    contains: members.map((member) => ({ type: 'user', name: member.toString() })),
  };
}

export async function insertRole(session: Session, role: Role): Promise<'done' | 'name-taken'> {
  const rows = await session.rows(
    `INSERT INTO mdx_gateway_roles (id, name, folded, description) VALUES ($1, $2, $3, $4)
     ON CONFLICT (folded) DO NOTHING RETURNING id`,
    [role.id, bytes(role.name), bytes(foldCase(role.name)), bytes(role.description)],
  );
  if (rows.length === 0) return 'name-taken';
  await insertMembers(session, role.id, role.contains);
  return 'done';
}

/** Adds them at the end, in their order, each name once. @returns how many of them were not there */
export async function insertMembers(
  session: Session,
  id: number,
  members: readonly Member[],
): Promise<number> {
  const rows = await session.rows(
    `INSERT INTO mdx_gateway_members (role, name, folded)
     SELECT $1, name, folded FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS m(name, folded, place)
     ORDER BY place
     ON CONFLICT (folded, role) DO NOTHING RETURNING 1`,
    [id, members.map(({ name }) => bytes(name)), members.map(({ name }) => bytes(foldCase(name)))],
  );
  return rows.length;
}
