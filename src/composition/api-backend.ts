import type { RequestHandler } from 'express';
import type { Permissions } from '../auth/permissions.ts';
import type { Config } from '../config/config.ts';
import { createApi } from '../http/api/api.ts';
import type { ApiFront } from '../http/api/guards.ts';
import { createRemoteApi } from '../http/api/remote-api.ts';
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
  const { emit, clock } = parts;
  const newId = () => newToken(parts);
  const common = { login, permissions, during, invalidate, limits, newId, clock, emit };
  if (config.driver === 'http') {
    return { driver: 'http', ...createRemoteApi({ config, ...common }) };
  }
  if (storage === undefined) throw new Error(`the driver ${config.driver} needs a storage`);
  const { roles, datasets, reachable } = storage;
  return {
    driver: config.driver,
    router: createApi({ roles, datasets, ...common }),
    reachable,
    close() {},
  };
}
