import type { Purge } from '../cache/purge/purge.ts';
import type { Clock } from '../common/clock.ts';
import type { Emit } from '../common/events.ts';
import type { Finding } from '../common/finding.ts';
import type { Config } from '../config/config.ts';
import type { FleetStore } from '../freshness/fleet.ts';
import type { AdminPage } from '../http/admin-page.ts';
import type { Judge } from '../line/ports.ts';
import type { GaugeRow } from '../observability/metrics.ts';

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
  readonly gauges?: readonly GaugeRow[];
  /** Makes what the HTTP surface serves for it, when the first page is asked for. */
  readonly pages?: () => Promise<Pages>;
  /** Never rejects. */
  readonly findings?: () => Promise<readonly Finding[]>;
  /** Takes over the configuration that has just come into force. */
  readonly configure?: (config: Config) => void;
  /** Ends what the feature does by itself. Resolves when nothing of it is under way. */
  readonly close?: () => Promise<void>;
}

/** Pages of a feature. */
export interface Pages {
  /** By their paths below /admin. Several features may add members to one page. */
  readonly admin?: Readonly<Record<string, AdminPage>>;
}

/** Function that makes a feature: features are neither classes nor looked up anywhere. */
export type CreateFeature = (core: Core) => Feature;

export interface CheckParts {
  readonly clock: Clock;
  readonly sleep: (milliseconds: number) => Promise<void>;
}

/** Tries what a feature depends on, for `check --connect`. Never rejects. */
export type CheckFeature = (
  config: Config,
  parts: CheckParts,
) => Promise<readonly (readonly [what: string, state: string, why: string])[]>;
