import { byWord, closed, type EventRows, move, REASON } from '../../observability/event-rows.ts';
import type { Figure } from '../../observability/figures.ts';

export type WarmResult = (typeof WARM_RESULTS)[number];
/** Results of a query of the warm-up; `overtaken`: given up for a user, or when its run ended. */
export const WARM_RESULTS = [
  'stored',
  'there',
  'not-stored',
  'failed',
  'skipped',
  'overtaken',
] as const;
export type WarmCut = (typeof WARM_CUTS)[number];
export const WARM_CUTS = [
  'purge',
  'budget',
  'failures',
  'off',
  'shutdown',
  'gateway-gone',
  'other-gateway',
] as const;

/** A run as it is told and noted. Moments are ISO 8601. */
export interface WarmRun {
  readonly id: string;
  readonly gateway: string;
  /** Purge after which it began by itself; null for one that was asked for. */
  readonly purge: string | null;
  /** User who asked for it; null for one that began by itself. */
  readonly by: string | null;
  readonly project: string | null;
  readonly begun: string;
  ended: string | null;
  cut: WarmCut | null;
  planned: number;
  stored: number;
  there: number;
  readonly not_stored: Record<string, number>;
  readonly failed: Record<string, number>;
  readonly skipped: Record<string, number>;
  engine_seconds: number;
}

declare module '../../common/events.ts' {
  interface EventMap {
    'warm-run': { readonly state: 'begun' | 'ended' } & Readonly<WarmRun>;
    warmed: {
      readonly run: string;
      readonly digest: string;
      readonly project: string;
      readonly result: WarmResult;
      readonly reason?: string;
      /** Engine time. */
      readonly milliseconds: number;
    };
    refreshed: Omit<EventMap['warmed'], 'run'>;
  }
}

const RUNS = closed(
  'warm_runs_total',
  'Runs of the warm-up that ended, by end: whole, or what cut them (purge, budget, failures, off, shutdown, gateway-gone, other-gateway).',
  'end',
  ['whole', ...WARM_CUTS],
);
const SECONDS = {
  name: 'warm_engine_seconds_total',
  help: 'Seconds of engine work for the warm-up.',
};

export const WARM_EVENTS = {
  refreshed: {
    level: 'debug',
    noted({ result }) {
      if (result === 'stored') return [REASON, 'refreshed'];
      return result === 'failed' || result === 'not-stored'
        ? [REASON, 'refresh-failed']
        : undefined;
    },
    moves: [
      byWord(
        'refreshes_total',
        'Answers asked for ahead of the end of their ttl, by result (stored, there, not-stored, failed, skipped, overtaken).',
        'result',
        WARM_RESULTS,
      ),
    ],
  },
  warmed: {
    level: 'debug',
    moves: [
      byWord(
        'warm_queries_total',
        'Queries of the warm-up, by result (stored, there, not-stored, failed, skipped, overtaken).',
        'result',
        WARM_RESULTS,
      ),
      move(SECONDS, undefined, ({ milliseconds }) => milliseconds / 1000),
    ],
  },
  'warm-run': {
    level: 'info',
    noted: ({ cut }) => (cut === 'failures' ? [REASON, 'warm-up-failed'] : undefined),
    moves: [
      move(
        RUNS,
        ({ cut }) => ({ end: cut ?? 'whole' }),
        ({ state }) => (state === 'ended' ? 1 : 0),
      ),
    ],
  },
} as const satisfies Partial<EventRows>;

export const warmFigures = (
  read: () => Readonly<Record<'hits' | 'wasted', number>>,
): readonly Figure[] => [
  {
    name: 'warmed_hits_total',
    help: 'Entries of the warm-up that a user hit, at the gateway that filled them.',
    isTotal: true,
    read: () => read().hits,
  },
  {
    name: 'warmed_wasted_total',
    help: 'Entries of the warm-up that were dropped before a user hit them.',
    isTotal: true,
    read: () => read().wasted,
  },
];
