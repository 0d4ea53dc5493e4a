import { ApiError, StorageUnavailable } from './errors.ts';
import type { PurgeCause } from './events.ts';

/** What a change made stale in the query cache. */
export type Stale = { readonly project: string } | 'everything';

/**
 * What is known of the change: it will be made (`before`), it was made (`after`), or it is not known whether it was
 * made, or will be made yet (`unknown`).
 */
export type ChangeState = 'before' | 'after' | 'unknown';

/**
 * Port: drops what the cache holds of it, as a purge does. Unless the change is still to come, it waits until no
 * replica answers from it any more, as an acknowledgement must. What is unknown is dropped again later.
 * @param principal who makes the change; for the log
 * @param cause what changed it; `change`, of a dataset, when it is not said
 * @returns false when that could not be done; it then stays owed
 */
export type Invalidate = (
  stale: Stale,
  principal: string,
  state: ChangeState,
  cause?: PurgeCause,
) => Promise<boolean>;

/**
 * Runs a write and resolves only when no replica answers from what it made stale. Also a write of which it is
 * not known whether it was done is taken for done.
 * @param options.made what a result says of the change
 * @throws ApiError `not-cleared` when the change is saved and the cache could not be cleared
 */
export async function invalidating<T>(options: {
  readonly invalidate: Invalidate;
  readonly stale: Stale;
  readonly principal: string;
  readonly write: () => Promise<T>;
  readonly made: (result: T) => 'yes' | 'no' | 'unknown';
}): Promise<T> {
  const { invalidate, stale, principal } = options;
  let result: T;
  try {
    result = await options.write();
  } catch (error) {
    const nothingDone = error instanceof StorageUnavailable && error.outcome === 'nothing-done';
    if (!nothingDone) await invalidate(stale, principal, 'unknown');
    throw error;
  }
  const made = options.made(result);
  if (made === 'no') return result;
  const cleared = await invalidate(stale, principal, made === 'yes' ? 'after' : 'unknown');
  if (cleared || made === 'unknown') return result;
  const what = typeof stale === 'string' ? stale : stale.project;
  throw new ApiError('not-cleared', `saved; cache of ${what} not yet cleared`, { retryAfter: 5 });
}
