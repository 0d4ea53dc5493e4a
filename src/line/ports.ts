import type { CacheScope } from '../freshness/freshness-store.ts';
import type { Query } from '../cache/query.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { KnownSession } from './session-step.ts';
import type { Destination, UnderstoodRequest } from './understand.ts';

/**
 * Port: says why no entry of these scopes may be served now; undefined where entries may be.
 * @param isOld one past its ttl, behind a failure of the engine
 */
export type Judge = (scopes: readonly CacheScope[], isOld?: boolean) => BypassReason | undefined;

/** A request that a cache may answer, or one that began a clean session. */
export interface SeenRequest {
  readonly asked: UnderstoodRequest;
  readonly body: Buffer;
  readonly destination: Pick<Destination, 'addressee'>;
}

/** Port: hears how queries are asked and how sessions begin. */
export interface Seen {
  query(
    request: SeenRequest,
    user: string,
    parts: Query['parts'],
    session: KnownSession | undefined,
  ): void;
  beginning(request: SeenRequest, profile: string): void;
}
