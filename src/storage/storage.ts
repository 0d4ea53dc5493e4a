import type { Dataset } from '../datasets/dataset.ts';
import type { Role } from '../roles/role.ts';

/** What only an operator can mend. The message is one line. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
}

/** One piece of a dump. */
export type StorageRecord =
  | {
      readonly kind: 'head';
      readonly roles: number;
      readonly datasets: number;
      /** The ids that the next role and dataset get. */
      readonly nextRoleId: number;
      readonly nextDatasetId: number;
    }
  | { readonly kind: 'role'; readonly role: Role }
  | {
      readonly kind: 'dataset';
      readonly id: number;
      /** Whole seconds since 1970 (UTC). */
      readonly lastModified: number;
      readonly dataset: Dataset;
    };

/** What a driver needs. */
export interface StorageParts {
  /** Members of the built-in role when the storage is made. */
  readonly firstMembers: readonly string[];
  /** Milliseconds since 1970. */
  readonly wallClock: () => number;
  /** That many random bytes. */
  readonly randomBytes: (count: number) => Buffer;
  /** Told of failures that no caller is told of, such as a lost idle connection. */
  readonly onError: (error: unknown) => void;
}
