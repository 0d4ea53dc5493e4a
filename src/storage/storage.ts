import type { Dataset, DatasetStore } from '../datasets/dataset.ts';
import type { Role, RoleStore } from '../roles/role.ts';

/** Port: one storage with roles and datasets. */
export interface Storage {
  readonly roles: RoleStore;
  readonly datasets: DatasetStore;
  /**
   * Brings the schema up to date, and makes the built-in role in an empty storage. Every method does that by
   * itself when it has not been done yet; a start calls it to learn early of what only an operator can mend.
   * @throws StorageUnavailable when it may succeed later
   * @throws OperatorError when it cannot: a schema of a newer program, a folder that cannot be written
   */
  open(): Promise<void>;
  /**
   * A random id that was made with the storage and tells it from all others: the same role id in another
   * storage is another role.
   */
  id(): Promise<string>;
  /** Whether it answers now. Never rejects. */
  reachable(): Promise<boolean>;
  /** Everything in it, of one moment: first one `head`, then the roles, then the datasets, by ascending id. */
  dump(): AsyncIterable<StorageRecord>;
  /**
   * Fills an empty storage (nothing but the built-in role) with what another one dumped, as one transaction.
   * Ids and times stay; ids that were given away there are not given again here.
   * @throws OperatorError when the storage is not empty or the records are not in order; then nothing has changed
   */
  restore(records: AsyncIterable<StorageRecord>): Promise<void>;
  /** Reads the certificates again, for the next connections. @throws Error when one cannot be read */
  renewCertificates(): void;
  /** Finishes what is under way. */
  close(): Promise<void>;
}

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
