import type { Router } from 'express';
import type { DatasetStore } from '../../datasets/dataset-store.ts';
import type { Invalidate } from '../../invalidation.ts';
import type { RoleStore } from '../../roles/role-store.ts';
import { createDatasetOperations } from './dataset-operations.ts';
import { createApiRouter, type ApiFront } from './guards.ts';
import { createRoleOperations } from './role-operations.ts';

/** The role and dataset API over a storage of the gateway's own, to be mounted at /api. */
export function createApi(
  options: ApiFront & {
    readonly roles: RoleStore;
    readonly datasets: DatasetStore;
    readonly invalidate: Invalidate;
    /** Largest body of a role request, and largest dataset document, in bytes. */
    readonly limits: { readonly body: number; readonly dataset: number };
  },
): Router {
  const { roles, datasets, invalidate, limits, ...front } = options;
  return createApiRouter(
    {
      ...createRoleOperations({ roles, invalidate, maxBody: limits.body }),
      ...createDatasetOperations({ datasets, invalidate, maxDocument: limits.dataset }),
    },
    front,
  );
}
