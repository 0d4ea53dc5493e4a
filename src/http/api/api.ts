import type { Router } from 'express';
import type { DatasetStore } from '../../datasets/dataset.ts';
import type { Invalidate } from '../../invalidation.ts';
import type { RoleStore } from '../../roles/role.ts';
import { createDatasetOperations } from './dataset-operations.ts';
import type { DocumentGate } from './document-gate.ts';
import { createApiRouter, type ApiFront } from './front.ts';
import { createRoleOperations } from './role-operations.ts';

/** The role and dataset API over a storage of the gateway's own, to be mounted at /api. */
export function createApi(
  options: ApiFront & {
    readonly roles: RoleStore;
    readonly datasets: DatasetStore;
    readonly invalidate: Invalidate;
    readonly documents: DocumentGate;
    readonly sleep: (milliseconds: number) => Promise<void>;
    /** The longest lease under which any gateway may use role sets (ms). */
    readonly longestLease: number;
    /** Largest body of a role request, and largest dataset document, in bytes. */
    readonly limits: { readonly body: number; readonly dataset: number };
  },
): Router {
  const { roles, datasets, invalidate, documents, sleep, longestLease, limits, ...front } = options;
  return createApiRouter(
    {
      ...createRoleOperations({ roles, sleep, longestLease, maxBody: limits.body }),
      ...createDatasetOperations({ datasets, invalidate, documents, maxDocument: limits.dataset }),
    },
    front,
  );
}
