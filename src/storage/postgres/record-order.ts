import { ADMIN_ROLE } from '../../roles/role.ts';
import type { StorageRecord } from '../storage.ts';

type Head = Extract<StorageRecord, { kind: 'head' }>;

/**
 * Passes records on as long as they stand in the order of a dump: one head, as many roles and then datasets as
 * it says, by ascending id below the next one that it names, first the built-in role.
 * @throws Error with one line for the operator
 */
export async function* inOrder(
  records: AsyncIterable<StorageRecord>,
): AsyncGenerator<StorageRecord, void> {
  let head: Head | undefined;
  const counts = { role: 0, dataset: 0 };
  const last = { role: 0, dataset: 0 };
  for await (const record of records) {
    if (record.kind === 'head') {
      if (head !== undefined) throw new Error('the records hold a second head');
      head = record;
    } else {
      if (head === undefined) throw new Error('the records do not begin with a head');
      const { kind } = record;
      const id = record.kind === 'role' ? record.role.id : record.id;
      if (kind === 'role' && counts.dataset > 0) {
        throw new Error(`the role ${id} comes after a dataset`);
      }
      if (kind === 'role' && counts.role === 0 && id !== ADMIN_ROLE.id) {
        throw new Error(`the first role has the id ${id}, not the one of the built-in role`);
      }
      if (id <= last[kind]) throw new Error(`the ${kind} ${id} comes after ${last[kind]}`);
      const next = kind === 'role' ? head.nextRoleId : head.nextDatasetId;
      if (id >= next) throw new Error(`the ${kind} ${id} is beyond the next id ${next}`);
      counts[kind] += 1;
      last[kind] = id;
    }
    yield record;
  }
  if (head === undefined) throw new Error('there are no records');
  if (counts.role !== head.roles || counts.dataset !== head.datasets) {
    throw new Error(
      `the head names ${head.roles} roles and ${head.datasets} datasets, but there are ${counts.role} and ${counts.dataset}`,
    );
  }
}
