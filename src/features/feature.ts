import type { RequestHandler } from 'express';
import type { IncomingMessage } from 'node:http';
import type { Login } from '../auth/authenticator.ts';
import type { AskLeave } from '../auth/login-throttle.ts';
import type { PurgeLog } from '../cache/purge/purge-log.ts';
import type { Purge } from '../cache/purge/purge.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Finding } from '../common/finding.ts';
import type { Config } from '../config/config.ts';
import type { FleetStore } from '../freshness/fleet.ts';
import type { AdminPage } from '../http/admin-page.ts';
import type { Judge } from '../line/ports.ts';
import type { Figure } from '../observability/figures.ts';

/** The parts of a gateway that outlive every reload, as features use them. */
export interface Core {
  readonly clock: Clock;
  readonly emit: Emit;
  readonly fleet: FleetStore;
  readonly purge: Purge;
}

/** Port: what a feature adds to the gateway. It outlives every reload. */
export interface Feature {
  /** Hears every event, after the metrics and the statistics. */
  readonly on?: Emit;
  /** Says why no entry of some scopes may be served now. */
  readonly judge?: Judge;
  readonly gauges?: readonly Figure[];
  /** Makes what the HTTP surface serves for it, once for each configuration, when that is needed. */
  readonly pages?: (runtime: RuntimeCore) => Promise<Pages>;
  /** Never rejects. */
  readonly findings?: (hour: HourCounts) => Promise<readonly Finding[]>;
  /** Takes over the configuration that has just come into force. */
  readonly configure?: (config: Config) => void;
  /** Ends what the feature does by itself. Resolves when nothing of it is under way. */
  readonly close?: () => Promise<void>;
}

/** The parts of a gateway that each reload builds anew, as pages of features use them. */
export interface RuntimeCore {
  readonly config: Config;
  readonly login: Login;
  readonly askLeave: AskLeave;
  readonly addressOf: (request: IncomingMessage) => string;
  /** Counts work that goes on after its answer as a request under way. */
  readonly during: <T>(work: Promise<T>) => Promise<T>;
  readonly newId: () => string;
  readonly purgeLog: Pick<PurgeLog, 'latest'>;
  readonly lastHour: () => Promise<HourCounts>;
}

/** Events of the last hour at all gateways, of one kind, by name. */
export type HourCounts = (kind: string) => readonly Readonly<{ name: string; asks: number }>[];

/** Pages of a feature. */
export interface Pages {
  /** In their order, before those of /admin. A route leaves to the next what it does not know. */
  readonly routes?: readonly (readonly [path: string, route: RequestHandler])[];
  /** By their paths below /admin. Several features may add members to one page. */
  readonly admin?: Readonly<Record<string, AdminPage>>;
}

/** Function that makes a feature: features are neither classes nor looked up anywhere. */
export type CreateFeature = (core: Core) => Feature;

/** What an operator should know of a configuration that is not wrong. */
export interface ConfigWarnings {
  /** One sentence each. */
  readonly warnings?: (config: Config) => readonly string[];
  /** Users that the feature expects in the users file, with the keys that name them. */
  readonly users?: (config: Config) => readonly (readonly [user: string, key: string])[];
}

export interface CheckParts {
  readonly clock: Clock;
  readonly sleep: (milliseconds: number) => Promise<void>;
}

/** Tries what a feature depends on, for `check --connect`. Never rejects. */
export type CheckFeature = (
  config: Config,
  parts: CheckParts,
) => Promise<readonly (readonly [what: string, state: string, why: string])[]>;
