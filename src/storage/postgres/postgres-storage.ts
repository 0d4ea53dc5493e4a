import type { PostgresConfig } from '../../config/config.ts';
import { bytesOf, createSqlStorage, type Dialect } from '../sql-storage.ts';
import type { Storage, StorageParts } from '../storage.ts';
import { createDatabase } from './database.ts';
import { bringUpToDate } from './schema.ts';
import type { PostgresSession } from './session.ts';

/** Bytes. What is copied and decoded for one of them in one go keeps no other request waiting. */
const PIECE = 1024 * 1024;

/** The SQL of PostgreSQL, for the tables of schema.ts. */
const POSTGRES: Dialect<PostgresSession> = {
  tables: {
    storage: 'mdx_gateway_storage',
    roles: 'mdx_gateway_roles',
    members: 'mdx_gateway_members',
    datasets: 'mdx_gateway_datasets',
  },
  roleOfMember: 'role',
  forUpdate: ' FOR UPDATE',
  forShare: ' FOR SHARE',
  lockNames: `SELECT FROM mdx_gateway_counters WHERE kind = 'role' FOR UPDATE`,
  lockIds: 'SELECT FROM mdx_gateway_counters ORDER BY kind FOR UPDATE',
  takeId: { role: takeId('role'), dataset: takeId('dataset') },
  head: `SELECT (SELECT count(*) FROM mdx_gateway_roles) AS roles,
    (SELECT count(*) FROM mdx_gateway_datasets) AS datasets,
    (SELECT next FROM mdx_gateway_counters WHERE kind = 'role') AS role,
    (SELECT next FROM mdx_gateway_counters WHERE kind = 'dataset') AS dataset`,
  advanceIds: `UPDATE mdx_gateway_counters
    SET next = greatest(next, CASE kind WHEN 'role' THEN ?1::bigint ELSE ?2::bigint END)`,
  // Bytes of UTF-8 are found in others only where the characters are.
  contains: 'position(?1::bytea IN folded) > 0',
  greatest: 'greatest',
  moment: (milliseconds) => `clock_timestamp() + interval '${milliseconds} milliseconds'`,
  insertMembers: `INSERT INTO mdx_gateway_members (role, name, folded)
    SELECT ?1, decode(member ->> 0, 'hex'), decode(member ->> 1, 'hex')
    FROM jsonb_array_elements(?2::jsonb) WITH ORDINALITY AS given(member, place) ORDER BY place
    ON CONFLICT (folded, role) DO NOTHING RETURNING 1`,
  // In pieces, so that neither side holds a document more than once in memory.
  documents: {
    columns: ['document', 'octets'],
    dropped: ['document'],
    async keep(session, document) {
      const [row] = await session.rows(`SELECT nextval('mdx_gateway_documents') AS id`);
      const id = String(row?.['id']);
      for (let from = 0; from < document.length; from += PIECE) {
        const piece = document.subarray(from, from + PIECE);
        await session.carry('INSERT INTO mdx_gateway_pieces VALUES (?1, ?2, ?3)', [
          id,
          from / PIECE,
          piece,
        ]);
      }
      return [id, document.length];
    },
    async load(session, { document, octets }) {
      const whole = Buffer.allocUnsafe(Number(octets));
      for (let from = 0; from < whole.length; from += PIECE) {
        // The result comes as hexadecimal text: pg reads binary results as if they were text.
        const [row] = await session.carry(
          'SELECT bytes FROM mdx_gateway_pieces WHERE document = ?1 AND number = ?2',
          [String(document), from / PIECE],
        );
        const piece = row && bytesOf(row['bytes']);
        if (piece?.length !== Math.min(PIECE, whole.length - from)) {
          throw new Error(`Document ${String(document)} is damaged at byte ${from}.`);
        }
        piece.copy(whole, from);
      }
      return whole;
    },
    async drop(session, { document }) {
      await session.rows('DELETE FROM mdx_gateway_pieces WHERE document = ?1', [String(document)]);
    },
  },
};

/** The row of the counter stays locked until its transaction ends, so that one id at a time is given away. */
function takeId(kind: 'role' | 'dataset'): string {
  return `UPDATE mdx_gateway_counters SET next = next + 1 WHERE kind = '${kind}' RETURNING next - 1 AS id`;
}

/**
 * Roles and datasets in a PostgreSQL that several gateways share, in tables `mdx_gateway_…` of the first schema of the
 * search path.
 * @throws Error when a PEM file cannot be read
 */
export function createPostgresStorage({
  config,
  ...parts
}: { readonly config: PostgresConfig } & StorageParts): Storage {
  const database = createDatabase({
    config,
    dialect: POSTGRES,
    prepare: (session) => bringUpToDate(session, POSTGRES, parts),
    onError: parts.onError,
  });
  const newToken = () => parts.randomBytes(16).toString('base64url');
  return createSqlStorage({ database, wallClock: parts.wallClock, newToken });
}
