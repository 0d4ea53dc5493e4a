import type { IncomingMessage } from 'node:http';
import type { Authenticator, Login, Permissions } from '../auth/authenticator.ts';
import type { AuthConfig } from '../auth/config.ts';
import type { QueryCache } from '../cache/cache.ts';
import type { CacheConfig } from '../cache/config.ts';
import type { MemoryTier } from '../cache/memory-tier.ts';
import type { KnownNames, projectPolicy, Scope } from '../cache/projects.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit, Invalidate } from '../common/events.ts';
import type { ClearCacheHandler } from '../http/clear-cache.ts';
import type { LimitsConfig } from '../http/config.ts';
import type { Cors } from '../http/cors.ts';
import type { RoleSets } from '../roles/role-sets.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Admission } from '../engine/admission.ts';
import type { Candidates } from '../cache/warm/candidates.ts';
import type { DroppedHeaders } from './dropped-headers.ts';
import type { EngineOf } from './understand.ts';

/** What the line is built on; each step takes its part. */
export interface LineOptions {
  readonly login: Login;
  readonly authenticator: Pick<Authenticator, 'remembered' | 'checkBehind'>;
  readonly permissions: Permissions;
  readonly config: {
    readonly auth: AuthConfig;
    readonly cache: CacheConfig;
    readonly limits: LimitsConfig;
  };
  /** What no entry may answer for now, since it is not seen whether its data changed. */
  readonly blind: ReadonlySet<Scope>;
  readonly roleSets: Pick<RoleSets, 'heldName' | 'nameFor'>;
  readonly engineOf: EngineOf;
  readonly policyOf: ReturnType<typeof projectPolicy>;
  readonly cache: QueryCache;
  readonly sessions: Sessions;
  /** What the warm-up asks again. */
  readonly candidates: Pick<Candidates, 'noteWay' | 'noteBeginning'>;
  readonly admitBackground: Admission['admitBackground'];
  readonly hasRoom: MemoryTier['hasRoom'];
  readonly names: Pick<KnownNames, 'admit' | 'wouldAdmit' | 'answered'>;
  readonly clearCache: ClearCacheHandler;
  /** Told of the headers of requests that go to an engine. */
  readonly dropped: Pick<DroppedHeaders, 'note'>;
  /** Which pages of other origins may ask. */
  readonly cors: Cors;
  readonly invalidate: Invalidate;
  /** The memory of its bodies. */
  readonly account: BodyAccount;
  /** Counts a body for as long as it is sent. */
  readonly holdBody: MemoryTier['hold'];
  /** How long a request of a project may wait in all until it is at the engine (ms). */
  readonly patience: (project: string | undefined) => number;
  /** Whose request it is, by the connection or a trusted proxy. */
  readonly addressOf: (request: IncomingMessage) => string;
  /** Told of what is under way. */
  readonly work: { readonly begin: () => void; readonly end: () => void };
  readonly clock: Clock;
  /** Keys digests of heads. */
  readonly secret: string;
  readonly newId: () => string;
  readonly emit: Emit;
}
