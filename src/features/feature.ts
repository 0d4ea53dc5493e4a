import type { RequestHandler } from 'express';
import type { IncomingMessage } from 'node:http';
import type { Login, Permissions } from '../auth/authenticator.ts';
import type { AskLeave } from '../auth/login-throttle.ts';
import type { QueryCache } from '../cache/cache.ts';
import type { MemoryTier } from '../cache/memory-tier.ts';
import type { KnownNames } from '../cache/projects.ts';
import type { PurgeLog } from '../cache/purge/purge-log.ts';
import type { Purge } from '../cache/purge/purge.ts';
import type { BodyAccount } from '../common/body-account.ts';
import type { Clock } from '../common/clock.ts';
import type {
  Emit,
  EngineAway,
  RedisFacts,
  ReplicaState,
  TimedOutQuery,
} from '../common/events.ts';
import type { Finding } from '../common/finding.ts';
import type { Principal } from '../common/principal.ts';
import type { Config } from '../settings/setting.ts';
import type { Admission } from '../engine/admission.ts';
import type { FleetStore, ReportStore } from '../freshness/fleet.ts';
import type { AdminAct } from '../http/admin-act.ts';
import type { AdminPages } from '../http/admin-page.ts';
import type { PageOrigins } from '../http/page-origins.ts';
import type { Look } from '../line/explain.ts';
import type { Judge, Seen } from '../line/ports.ts';
import type { QueryOf } from '../line/query.ts';
import type { Examine } from '../line/session-step.ts';
import type { EngineOf } from '../line/understand.ts';
import type { EventRows } from '../observability/event-rows.ts';
import type { Figure, Gauges } from '../observability/figures.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Link } from '../workers/link.ts';

/** Parts of a gateway that outlive every reload, as features use them. */
export interface Core {
  readonly clock: Clock;
  readonly emit: Emit;
  readonly fleet: FleetStore;
  readonly purge: Purge;
  readonly id: string;
  readonly newId: () => string;
  readonly memory: MemoryTier;
  readonly names: Pick<KnownNames, 'find'>;
  readonly readings: Readings;
  /** Undefined without Redis. */
  readonly reports: ReportStore | undefined;
  /** Undefined where this process is the only one. */
  readonly primary?: Link | undefined;
  readonly about: About;
  readonly events: EventRows;
  readonly metrics: () => Pick<Metrics, 'registry'>;
  /** Judges of features that bar something now. */
  readonly judges: Set<Judge>;
  /** Steps under the configuration in force. */
  readonly line: () => Line;
}

type Used = 'memory' | 'evictions' | 'limits' | 'connections' | 'engine' | 'epochAge';
export interface Readings extends Pick<Gauges, Used> {
  readonly owed: () => readonly string[];
  /** Headers of clients that were not forwarded, though an engine might answer by them. */
  readonly droppedHeaders: () => readonly string[];
  readonly timedOut: () => readonly TimedOutQuery[];
  readonly enginesAway: () => readonly EngineAway[];
  readonly node: NodeFacts;
}

export type NodeFacts = Pick<NodeJS.Process, 'pid' | 'version'> & {
  readonly memoryUsage: Pick<NodeJS.MemoryUsageFn, 'rss'>;
};

export interface About {
  readonly version: string;
  readonly node: NodeFacts;
  /** End of its own certificate (Unix time, ms). */
  readonly certificateEnd: () => number | undefined;
  /** Writes the configuration in force as YAML, without secrets. It takes milliseconds. */
  readonly configuration: () => Promise<string>;
  /** `waiting`: keys that wait for a restart; `workers`: processes that there should be. */
  readonly inForce: () => Promise<{
    readonly waiting: readonly string[];
    readonly reloaded: boolean;
    readonly workers: number;
  }>;
}

/** Port: what a feature adds to the gateway. It outlives every reload. */
export interface Feature {
  /** Hears every event; undefined while there is nothing to hear. Asked for after `configure`. */
  readonly on?: () => Emit | undefined;
  /** Says which pages of other origins may ask. @param headers those that `engine.headers` names */
  readonly pageOrigins?: (config: Config, headers: readonly string[]) => PageOrigins;
  /** Hears how queries are asked and how sessions begin; undefined where it need not. */
  readonly seen?: (config: Config) => Seen | undefined;
  readonly gauges?: readonly Figure[];
  /** Makes what the HTTP surface serves for it, once for each configuration, when it is needed. */
  readonly pages?: (runtime: RuntimeCore) => Promise<Pages>;
  /** Never rejects. */
  readonly findings?: (hour: HourCounts) => Promise<readonly Finding[]>;
  /** Takes over the configuration that has just come into force. */
  readonly configure?: (config: Config) => void;
  /** Ends what the feature does by itself. Resolves when nothing of it is under way. */
  readonly close?: () => Promise<void>;
}

export interface Line {
  readonly engineOf: EngineOf;
  readonly examine: Examine;
  readonly queryOf: QueryOf;
  readonly look: Look;
  readonly cache: QueryCache;
  readonly sessions: Sessions;
  readonly memory: Pick<MemoryTier, 'hold' | 'hasRoom'>;
  readonly account: Pick<BodyAccount, 'open'>;
  /** Longest wait of a request until it is at the engine (ms). */
  readonly patience: (project: string | undefined) => number;
  readonly admitBackground: Admission['admitBackground'];
  /** Counts work under way: what it uses of this configuration is closed after it. */
  readonly work: Readonly<Record<'begin' | 'end', () => void>>;
}

/** Parts of a gateway that each reload builds anew, as pages of features use them. */
export interface RuntimeCore {
  readonly config: Config;
  readonly login: Login;
  readonly askLeave: AskLeave;
  readonly addressOf: (request: IncomingMessage) => string;
  /** Counts work that goes on after its answer as a request under way. */
  readonly during: <T>(work: Promise<T>) => Promise<T>;
  readonly newId: () => string;
  readonly purgeLog: Pick<PurgeLog, 'latest'>;
  readonly line: Line;
  readonly permissions: Permissions;
  readonly engines: () => Promise<{ readonly replicas: readonly ReplicaState[] }>;
  readonly redis: () => RedisFacts;
  readonly storageState: () => Promise<Readonly<Record<'driver' | 'state', string>>>;
  readonly lastHour: () => Promise<HourCounts>;
  /** Tells what `GET` of a path below /admin tells a user. */
  readonly tellAdmin: (target: string, principal: Principal) => Promise<object>;
}

/** Events of one kind in the last hour at all gateways, by name. */
export type HourCounts = (kind: string) => readonly Readonly<{ name: string; asks: number }>[];

export interface Pages extends AdminPages {
  /** Routes before those of /admin. One leaves to the next what it does not know. */
  readonly routes?: readonly (readonly [path: string, ...route: RequestHandler[]])[];
  /** Acts (`POST`) by their paths below /admin. */
  readonly acts?: Readonly<Record<string, AdminAct>>;
}

/** Warnings of a feature about a configuration that is not wrong. */
export interface ConfigWarnings {
  readonly warnings?: (config: Config) => readonly string[];
  /** Users that the feature expects in the users file, with the keys that name them. */
  readonly users?: (config: Config) => readonly (readonly [user: string, key: string])[];
}
