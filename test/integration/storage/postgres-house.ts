import { randomBytes } from 'node:crypto';
import type { PostgresConfig } from '../../../src/storage/config.ts';
import { createPostgresStorage } from '../../../src/storage/postgres.ts';
import type { Storage } from '../../../src/storage/sql-storage.ts';
import type { PostgresServer } from '../../support/postgres-server.ts';

/** The configuration of a storage; a busy machine has more time than by default, where a test is not about time. */
export function postgresConfig(url: string, changed: Partial<PostgresConfig> = {}): PostgresConfig {
  return {
    driver: 'postgres',
    url,
    tls: false,
    ca: undefined,
    certificate: undefined,
    key: undefined,
    connections: 10,
    timeout: 10_000,
    ...changed,
  };
}

/** @param onError told of lost idle connections */
export function storageAt(
  url: string,
  changed: Partial<PostgresConfig> = {},
  onError: (error: unknown) => void = () => {},
): Storage {
  return createPostgresStorage({
    config: postgresConfig(url, changed),
    firstMembers: ['ADMIN'],
    wallClock: Date.now,
    randomBytes,
    onError,
  });
}

/** Resolves when commits wait for a standby: each process of the server reads its settings when it comes to it. */
export async function commitsWait({ ask }: PostgresServer): Promise<void> {
  const letGo = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`;
  for (let waits = false; !waits;) {
    const commit = { over: false };
    const committed = ask(`SELECT pg_logical_emit_message(true, '', '')`).finally(
      () => (commit.over = true),
    );
    while (!commit.over && !waits) waits = (await ask(letGo)).length > 0;
    await committed;
  }
}
