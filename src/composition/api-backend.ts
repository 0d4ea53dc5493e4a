import type { RequestHandler } from 'express';
import type { Permissions } from '../auth/permissions.ts';
import { LEASE_LIMITS, type Config } from '../config/config.ts';
import { type ApiFront, createApi } from '../api/api.ts';
import { createDocumentGate, placesBeside } from '../api/documents.ts';
import { createRemoteApi } from '../api/remote.ts';
import type { Login } from '../http/login.ts';
import type { Invalidate } from '../invalidation.ts';
import type { Storage } from '../storage/storage.ts';
import { newToken, type Parts } from './parts.ts';

/** What stands behind /api: a storage of this gateway, or a remote server. */
export interface ApiBackend {
  readonly router: RequestHandler;
  readonly driver: Config['storage']['driver'];
  /** Never rejects. */
  reachable(): Promise<boolean>;
  /** Closes what it made; not the storage that it was given. */
  close(): void;
}

export function createApiBackend(
  { storage: config, limits }: Config,
  given: {
    readonly login: Login;
    readonly permissions: Permissions;
    readonly during: ApiFront['during'];
    readonly storage: Storage | undefined;
    readonly invalidate: Invalidate;
    readonly parts: Parts;
  },
): ApiBackend {
  const { login, permissions, during, storage, invalidate, parts } = given;
  const { emit, clock, sleep } = parts;
  const newId = () => newToken(parts);
  const common = { login, permissions, during, invalidate, limits, newId, clock, emit };
  if (config.driver === 'http') {
    const documents = createDocumentGate();
    return { driver: 'http', ...createRemoteApi({ config, documents, ...common }) };
  }
  if (storage === undefined) throw new Error(`the driver ${config.driver} needs a storage`);
  const { roles, datasets, reachable } = storage;
  const documents = createDocumentGate(
    config.driver === 'postgres' ? { places: placesBeside(config.connections) } : {},
  );
  return {
    driver: config.driver,
    router: createApi({
      roles,
      datasets,
      documents,
      sleep,
      longestLease: LEASE_LIMITS.longest,
      ...common,
    }),
    reachable,
    close() {},
  };
}
