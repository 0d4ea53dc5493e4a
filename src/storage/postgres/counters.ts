import type { BigintText } from './bytes.ts';
import type { Session } from './session.ts';

/**
 * The next id. The row of the counter stays locked until the transaction ends, and is rolled back with it: so
 * ids are consecutive, and one at a time is given away.
 */
export async function takeId(session: Session, kind: 'role' | 'dataset'): Promise<number> {
  const [row] = await session.rows<{ id: BigintText }>(
    'UPDATE mdx_gateway_counters SET next = next + 1 WHERE kind = $1 RETURNING next - 1 AS id',
    [kind],
  );
  if (row === undefined) throw new Error(`The table mdx_gateway_counters has no row for ${kind}.`);
  return Number(row.id);
}
