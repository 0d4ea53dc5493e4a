import { StorageUnavailable } from '../common/errors.ts';
import type { Config } from '../config/config.ts';
import type { PostgresConfig, SqliteConfig } from '../storage/config.ts';
import type { Storage } from '../storage/sql-storage.ts';
import type { Parts } from './parts.ts';

/** Makes a storage, and loads its driver: a start without PostgreSQL is 25 ms shorter. */
export async function createStorage(
  config: SqliteConfig | PostgresConfig,
  firstMembers: readonly string[],
  { clock, randomBytes, emit }: Pick<Parts, 'clock' | 'randomBytes' | 'emit'>,
): Promise<Storage> {
  const onError = (error: unknown) =>
    emit({ type: 'warning', message: 'the storage failed while it was idle', error });
  const parts = { firstMembers, wallClock: clock.wall, randomBytes, onError };
  if (config.driver === 'sqlite') {
    const { createSqliteStorage } = await import('../storage/sqlite.ts');
    return createSqliteStorage({ path: config.path, ...parts });
  }
  const { createPostgresStorage } = await import('../storage/postgres.ts');
  return createPostgresStorage({ config, ...parts });
}

/**
 * Opens the storage; while its server is away, it opens by itself later. `http` has none.
 * @throws Error with one line for the operator when only an operator can mend it
 */
export async function openStorage(
  { storage: config, auth }: Pick<Config, 'storage' | 'auth'>,
  parts: Parameters<typeof createStorage>[2],
): Promise<Storage | undefined> {
  if (config.driver === 'http') return undefined;
  const storage = await createStorage(config, auth.admins, parts);
  try {
    await storage.open();
  } catch (error) {
    if (!(error instanceof StorageUnavailable)) {
      await storage.close();
      throw error;
    }
    const message = 'the storage cannot be reached; /api answers 503 until it can';
    parts.emit({ type: 'warning', message, error: error.cause });
  }
  return storage;
}
