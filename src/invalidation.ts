import { ApiError, StorageUnavailable } from './errors.ts';

/** What a change made stale in the query cache. */
export type Stale = { readonly project: string } | 'roles' | 'everything';

/**
 * Port: drops what the cache holds of it, as a purge does.
 * @param principal who made the change; for the log
 * @param wait whether to wait until no replica answers from it any more, as an acknowledgement must
 * @returns false when that could not be done; it then stays owed
 */
export type Invalidate = (stale: Stale, principal: string, wait: boolean) => Promise<boolean>;

/**
 * Runs a write and resolves only when no replica answers from what it made stale. Also a write of which nobody
 * knows whether it was done is taken for done.
 * @param changed whether this result says that something was changed
 * @throws ApiError `not-cleared` when the change is saved and the cache could not be cleared
 */
export async function invalidating<T>(options: {
  readonly invalidate: Invalidate;
  readonly stale: Stale;
  readonly principal: string;
  readonly write: () => Promise<T>;
  readonly changed: (result: T) => boolean;
}): Promise<T> {
  const { invalidate, stale, principal } = options;
  let result: T;
  try {
    result = await options.write();
  } catch (error) {
    const nothingDone = error instanceof StorageUnavailable && error.outcome === 'nothing-done';
    if (!nothingDone) await invalidate(stale, principal, true);
    throw error;
  }
  if (!options.changed(result) || (await invalidate(stale, principal, true))) return result;
  const what = typeof stale === 'string' ? stale : stale.project;
  throw new ApiError('not-cleared', `saved; cache of ${what} not yet cleared`, { retryAfter: 5 });
}
