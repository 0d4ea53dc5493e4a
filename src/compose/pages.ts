import { type ApiFront, createApiRouter } from '../api/api.ts';
import { createDatasetOperations } from '../api/datasets.ts';
import { createDocumentGate, slotsBeside } from '../api/documents.ts';
import { createRemoteOperations } from '../api/remote.ts';
import { createRoleOperations } from '../api/roles.ts';
import { createApp } from '../app.ts';
import type { Invalidate } from '../common/events.ts';
import { type Config, LEASE_LIMITS } from '../config/config.ts';
import type { Storage } from '../storage/storage.ts';
import type { Parts } from './parts.ts';

type Given = Omit<Parameters<typeof createApp>[1], 'api'> &
  ApiFront &
  Pick<Parts, 'sleep'> & { storage: Storage | undefined; invalidate: Invalidate };

/**
 * Everything that Express serves. It is loaded when the first page is asked for, since Express takes as long as half of
 * a start.
 * @param given.storage behind /api; undefined where a remote server is
 */
export function createPages(config: Config, given: Given) {
  const { handlers, reachable, close } = apiOf(config, given);
  const { driver } = config.storage;
  const api = { driver, reachable, router: createApiRouter(handlers, given) };
  return { app: createApp(config, { ...given, api }), close };
}

function apiOf({ storage: config, limits }: Config, given: Given) {
  const { storage, invalidate, sleep } = given;
  if (config.driver === 'http') {
    const documents = createDocumentGate();
    return createRemoteOperations(config, { invalidate, documents, limits });
  }
  if (storage === undefined) throw new Error(`the driver ${config.driver} needs a storage`);
  const { roles, datasets, reachable } = storage;
  const documents = createDocumentGate(
    config.driver === 'postgres' ? { slots: slotsBeside(config.connections) } : {},
  );
  const longestLease = LEASE_LIMITS.longest;
  const handlers = {
    ...createRoleOperations({ roles, sleep, longestLease, limits }),
    ...createDatasetOperations(datasets, { invalidate, documents, limits }),
  };
  return { handlers, reachable, close() {} };
}
