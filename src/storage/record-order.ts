import { foldCase } from '../fold-case.ts';
import { ADMIN_ROLE, type Role } from '../roles/role.ts';
import { OperatorError, type StorageRecord } from './storage.ts';

type Head = Extract<StorageRecord, { kind: 'head' }>;

/**
 * The same records; fails when one is missing, too much or not where it should be.
 * @throws OperatorError
 */
export async function* inOrder(
  records: AsyncIterable<StorageRecord>,
): AsyncGenerator<StorageRecord, void, undefined> {
  let head: Head | undefined;
  const last = { role: 0, dataset: 0 };
  const counted = { role: 0, dataset: 0 };
  for await (const record of records) {
    if (record.kind === 'head') {
      if (head !== undefined) throw new OperatorError('the records hold two heads');
      head = record;
    } else {
      if (head === undefined) throw new OperatorError('the records must begin with a head');
      const { kind } = record;
      const id = record.kind === 'role' ? record.role.id : record.id;
      if (kind === 'role' && counted.dataset > 0)
        throw new OperatorError('a role stands behind a dataset');
      if (id <= last[kind])
        throw new OperatorError(`${kind} ${id} stands behind ${kind} ${last[kind]}`);
      const next = kind === 'role' ? head.nextRoleId : head.nextDatasetId;
      if (id >= next)
        throw new OperatorError(`${kind} ${id} is not below the next id, which is ${next}`);
      if (record.kind === 'role') refuseRepeatedMembers(record.role);
      if (kind === 'role' && counted.role === 0 && id !== ADMIN_ROLE.id) {
        throw new OperatorError(`the first role must be the built-in one, ${ADMIN_ROLE.id}`);
      }
      last[kind] = id;
      counted[kind] += 1;
    }
    yield record;
  }
  if (head === undefined) throw new OperatorError('there are no records');
  if (counted.role !== head.roles || counted.dataset !== head.datasets) {
    throw new OperatorError(
      `the head names ${head.roles} roles and ${head.datasets} datasets, but ${counted.role} and ${counted.dataset} came`,
    );
  }
}

/** Each driver would do something else with them. */
function refuseRepeatedMembers({ id, contains }: Role): void {
  const names = contains.map(({ name }) => foldCase(name));
  if (new Set(names).size < names.length) throw new OperatorError(`role ${id} has a member twice`);
}
