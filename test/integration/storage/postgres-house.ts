import { randomBytes } from 'node:crypto';
import type { PostgresConfig } from '../../../src/config/config.ts';
import { createPostgresStorage } from '../../../src/storage/postgres/postgres-storage.ts';
import type { Storage } from '../../../src/storage/storage.ts';

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
