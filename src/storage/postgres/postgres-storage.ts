import type { PostgresConfig } from '../../config/config.ts';
import type { Storage, StorageParts } from '../storage.ts';
import { createDatabase } from './database.ts';
import { dumpDatabase } from './dump.ts';
import { createPostgresDatasetStore } from './postgres-dataset-store.ts';
import { createPostgresRoleStore } from './postgres-role-store.ts';
import { restoreDatabase } from './restore.ts';
import { bringUpToDate, readStorageId } from './schema.ts';

/**
 * Roles and datasets in a PostgreSQL that replicas share, in tables `mdx_gateway_…` of the first schema of the
 * search path.
 * @throws Error when a PEM file cannot be read
 */
export function createPostgresStorage({
  config,
  ...parts
}: { readonly config: PostgresConfig } & StorageParts): Storage {
  const database = createDatabase({
    config,
    prepare: (session) => bringUpToDate(session, parts),
    onError: parts.onError,
  });
  const newToken = () => parts.randomBytes(16).toString('base64url');
  return {
    roles: createPostgresRoleStore(database, newToken),
    datasets: createPostgresDatasetStore(database, parts.wallClock),
    open: () => database.open(),
    id: () => database.read(readStorageId),
    reachable: () => database.answers(),
    dump: () => dumpDatabase(database),
    restore: (records) => restoreDatabase(database, records, newToken()),
    close: () => database.close(),
  };
}
