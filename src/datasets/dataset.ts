/** Datasets as the interface document §2.3 has them: documents that belong to a project. */

/** What a document says of itself. Project and name together are unique, and compared exactly. */
export interface DatasetIdentity {
  readonly project: string;
  readonly name: string;
  /** As it was spelt; compared without regard to case. */
  readonly type: string;
}

export interface Dataset extends DatasetIdentity {
  /** The bytes that were imported. */
  readonly document: Buffer;
}

/** A dataset as it is listed. */
export interface DatasetSummary {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  /** Whole seconds since 1970 (UTC) of the last import or update. */
  readonly lastModified: number;
}
