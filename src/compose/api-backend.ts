import type { RequestHandler } from 'express';
import { type ApiFront, createApiRouter } from '../api/api.ts';
import { createDatasetOperations } from '../api/datasets.ts';
import { createDocumentGate, slotsBeside } from '../api/documents.ts';
import { createRemoteOperations } from '../api/remote.ts';
import { createRoleOperations } from '../api/roles.ts';
import type { Login, Permissions } from '../auth/authenticator.ts';
import type { Invalidate } from '../common/events.ts';
import { type Config, LEASE_LIMITS } from '../config/config.ts';
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
  const front = { login, permissions, during, newId: () => newToken(parts), clock, emit };
  if (config.driver === 'http') {
    const documents = createDocumentGate();
    const remote = createRemoteOperations({ config, invalidate, documents, limits });
    const { handlers, reachable, close } = remote;
    return { driver: 'http', router: createApiRouter(handlers, front), reachable, close };
  }
  if (storage === undefined) throw new Error(`the driver ${config.driver} needs a storage`);
  const { roles, datasets, reachable } = storage;
  const documents = createDocumentGate(
    config.driver === 'postgres' ? { slots: slotsBeside(config.connections) } : {},
  );
  const longestLease = LEASE_LIMITS.longest;
  const handlers = {
    ...createRoleOperations({ roles, sleep, longestLease, maxBody: limits.body }),
    ...createDatasetOperations({ datasets, invalidate, documents, maxDocument: limits.dataset }),
  };
  return {
    driver: config.driver,
    router: createApiRouter(handlers, front),
    reachable,
    close() {},
  };
}
