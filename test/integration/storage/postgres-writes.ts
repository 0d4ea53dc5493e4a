import type { Dataset } from '../../../src/datasets/dataset.ts';
import type { RoleInput } from '../../../src/roles/role.ts';
import type { Storage } from '../../../src/storage/sql-storage.ts';

/** How many writes are under way at one time. */
const AT_ONCE = 8;

/** The role that write number `write` creates, if it is one of those that create a role. */
function roleOf(write: number): RoleInput {
  return {
    name: `role ${write}`,
    description: `of write ${write}`,
    contains: [0, 1, 2].map((i) => ({ type: 'user', name: `user ${i} of ${write}` })),
  };
}

/** The dataset that write number `write` creates otherwise; its document has more than one piece at times. */
function datasetOf(write: number): Dataset {
  return {
    project: 'p',
    name: `dataset ${write}`,
    type: 'MDX',
    document: Buffer.alloc(write % 100 === 1 ? 1_500_000 : 2_000, `${write};`),
  };
}

const writesRole = (write: number): boolean => write % 2 === 0;

/** Does the writes 0 to `count` - 1, some at one time, and tells what became of each. */
export async function writeAll(
  storage: Storage,
  count: number,
  told: {
    readonly acknowledged: (write: number) => void;
    readonly failed: (write: number, error: unknown) => void;
  },
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const write = next++;
      try {
        await (writesRole(write)
          ? storage.roles.create(roleOf(write))
          : storage.datasets.create(datasetOf(write)));
        told.acknowledged(write);
      } catch (error) {
        told.failed(write, error);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** The numbers of the writes that are in the storage. @throws Error when one of them is there in part only */
export async function writesIn(storage: Storage): Promise<Set<number>> {
  const found = new Set<number>();
  for await (const record of storage.dump()) {
    if (record.kind === 'head' || (record.kind === 'role' && record.role.id === 1)) continue;
    const { name } = record.kind === 'role' ? record.role : record.dataset;
    const write = Number(name.split(' ')[1]);
    const whole =
      record.kind === 'role'
        ? JSON.stringify({ ...record.role, id: 0 }) === JSON.stringify({ id: 0, ...roleOf(write) })
        : record.dataset.document.equals(datasetOf(write).document);
    if (!whole) throw new Error(`write ${write} is there in part`);
    found.add(write);
  }
  return found;
}
