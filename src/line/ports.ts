import type { RememberedLogin } from '../auth/verified-credentials.ts';
import type { CacheScope, SessionRecord } from '../freshness/freshness-store.ts';
import type { Query } from '../cache/query.ts';
import type { BypassReason } from '../common/reasons.ts';
import type { EngineAddressee } from '../engine/replicas.ts';
import type { KnownSession } from './session-step.ts';
import type { UnderstoodRequest } from './understand.ts';

/**
 * Port: says why no entry of these scopes may be served now; undefined where entries may be.
 * @param isOld one past its ttl, behind a failure of the engine
 */
export type Judge = (scopes: readonly CacheScope[], isOld?: boolean) => BypassReason | undefined;

/** A request that a cache may answer, or one that began a clean session. */
export interface SeenRequest {
  readonly asked: UnderstoodRequest;
  readonly body: Buffer;
  readonly destination: { readonly addressee: Pick<EngineAddressee, 'project' | 'query'> };
}

/** A hit whose entry should be asked for anew before it ends. */
export interface EndingHit extends SeenRequest {
  readonly key: string;
  readonly login: RememberedLogin | undefined;
  readonly authorization: string;
  readonly session: SessionRecord | undefined;
  /** When the entry was asked for (wall clock, ms). */
  readonly requestedAt: number;
}

/** Port: hears how queries are asked, how sessions begin, and which entries end soon. */
export interface Seen {
  query(
    request: SeenRequest,
    user: string,
    parts: Query['parts'],
    session: KnownSession | undefined,
  ): void;
  beginning(request: SeenRequest, profile: string): void;
  ending(hit: EndingHit): void;
}
