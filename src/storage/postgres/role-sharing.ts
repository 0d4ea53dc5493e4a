import { foldCase } from '../../fold-case.ts';
import { SHARED_AT_LEAST, SHARED_FOR, type RoleSet } from '../../roles/role-store.ts';
import { bytes } from './bytes.ts';
import type { BigintText } from './bytes.ts';
import type { Session } from './session.ts';

/**
 * Gives the roles a new token. The last statement of every change of a role: the row is locked until its
 * transaction ends, so that changes of all roles are committed one after the other, and what a token stands for
 * is of one moment.
 */
export async function setRolesToken(session: Session, token: string): Promise<void> {
  await session.rows('UPDATE mdx_gateway_storage SET roles_token = $1', [token]);
}

/** In one statement, so that both are of one moment. */
export async function readRoleSet(session: Session, userName: string): Promise<RoleSet> {
  const [row] = await session.rows<{ token: string; ids: readonly BigintText[] }>(
    `SELECT roles_token AS token, ARRAY(
       SELECT role FROM mdx_gateway_members WHERE folded = $1 ORDER BY role
     ) AS ids
     FROM mdx_gateway_storage`,
    [bytes(foldCase(userName))],
  );
  const { token, ids } = theRow(row);
  return { token, ids: ids.map(Number) };
}

/** @returns undefined when the lease must be noted first, by {@link noteLease} */
export async function readNotedToken(session: Session, lease: number): Promise<string | undefined> {
  const [row] = await session.rows<{ token: string; noted: boolean }>(
    `SELECT roles_token AS token, roles_lease >= $1 AND
       roles_shared_until >= clock_timestamp() + interval '${SHARED_AT_LEAST} milliseconds' AS noted
     FROM mdx_gateway_storage`,
    [lease],
  );
  const { token, noted } = theRow(row);
  return noted ? token : undefined;
}

/** @returns the token; it waits for a change that is being committed, and is then the new one */
export async function noteLease(session: Session, lease: number): Promise<{ token: string }> {
  const [row] = await session.rows<{ token: string }>(
    `UPDATE mdx_gateway_storage SET
       roles_lease =
         CASE WHEN roles_shared_until > clock_timestamp() THEN greatest(roles_lease, $1) ELSE $1 END,
       roles_shared_until =
         greatest(roles_shared_until, clock_timestamp() + interval '${SHARED_FOR} milliseconds')
     RETURNING roles_token AS token`,
    [lease],
  );
  return theRow(row);
}

/** Milliseconds. */
export async function readNotedLease(session: Session): Promise<number> {
  const [row] = await session.rows<{ lease: number }>(
    `SELECT CASE WHEN roles_shared_until > clock_timestamp() THEN roles_lease ELSE 0 END AS lease
     FROM mdx_gateway_storage`,
  );
  return theRow(row).lease;
}

function theRow<Row>(row: Row | undefined): Row {
  if (row === undefined) throw new Error('The table mdx_gateway_storage is empty.');
  return row;
}
