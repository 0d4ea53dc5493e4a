import type { DatabaseSync } from 'node:sqlite';
import { ADMIN_ROLE, type Role } from '../../roles/role.ts';
import { createDatasetOperations, type KeptDataset } from './dataset-operations.ts';
import { isConstraint, OperatorError } from './failures.ts';
import { createRoleOperations } from './role-operations.ts';
import { begin, commit, reading, step } from './transactions.ts';

/** What the thread of a database does when it is called. */
export type Operations = ReturnType<typeof createOperations>;

export function createOperations(database: DatabaseSync) {
  const { rolesAfter, insertRole, setToken, ...roles } = createRoleOperations(database);
  const { datasetAfter, insertDataset, ...datasets } = createDatasetOperations(database);
  const row = database.prepare('SELECT id, next_role_id, next_dataset_id FROM storage');
  const counts = database.prepare(`
    SELECT (SELECT count(*) FROM role) AS roles, (SELECT count(*) FROM dataset) AS datasets
  `);
  const removeBuiltIn = database.prepare('DELETE FROM role WHERE id = ?');
  const advance = database.prepare(`
    UPDATE storage
    SET next_role_id = max(next_role_id, ?), next_dataset_id = max(next_dataset_id, ?)
  `);

  const head = () => {
    const [found, next] = [counts.get(), row.get()];
    return {
      roles: numberOf(found, 'roles'),
      datasets: numberOf(found, 'datasets'),
      nextRoleId: numberOf(next, 'next_role_id'),
      nextDatasetId: numberOf(next, 'next_dataset_id'),
    };
  };
  const refusing = (message: string, insert: () => void) =>
    step(database, () => {
      try {
        insert();
      } catch (error) {
        throw isConstraint(error) ? new OperatorError(message) : error;
      }
    });

  return {
    ...roles,
    ...datasets,

    storageId: () => reading(database, () => String(row.get()?.['id'])),

    /** Nothing but what comes with every call: the database is open and can be read. */
    check: () => reading(database, () => row.get() !== undefined),

    /** Begins a transaction in which everything is as it is now, until the thread ends. */
    beginDump() {
      begin(database, 'BEGIN');
      return step(database, head);
    },
    dumpRoles: (after: number, most: number) => step(database, () => rolesAfter(after, most)),
    dumpDataset: (after: number) => step(database, () => datasetAfter(after)),

    /** Begins a transaction that is undone when the thread ends before {@link Operations.endRestore}. */
    beginRestore() {
      begin(database, 'BEGIN IMMEDIATE');
      step(database, () => {
        const { roles, datasets } = head();
        if (roles > 1 || datasets > 0) {
          throw new OperatorError(
            `the storage is not empty: it holds ${roles - 1} roles beside the built-in one, and ${datasets} datasets`,
          );
        }
        removeBuiltIn.run(ADMIN_ROLE.id);
      });
    },
    restoreRoles(restored: readonly Role[]) {
      for (const role of restored) {
        refusing(`role ${role.id} has the name of another one`, () => insertRole(role));
      }
    },
    restoreDataset(dataset: KeptDataset) {
      refusing(`dataset ${dataset.id} has the project and name of another one`, () =>
        insertDataset(dataset),
      );
    },
    /** Ids that were given away here or there are not given again. */
    endRestore(nextRoleId: number, nextDatasetId: number, token: string) {
      step(database, () => {
        advance.run(nextRoleId, nextDatasetId);
        setToken(token);
      });
      commit(database);
    },
  };
}

const numberOf = (row: Readonly<Record<string, unknown>> | undefined, name: string) =>
  Number(row?.[name]);
