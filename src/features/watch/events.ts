import type { EventRows } from '../../observability/event-rows.ts';
import type { Figure } from '../../observability/figures.ts';

declare module '../../common/events.ts' {
  interface EventMap {
    /** A source stops answering, or answers again. `why` holds no secrets; '' for again. */
    'watch-state': {
      readonly project: string;
      readonly state: 'seeing' | 'blind';
      readonly why: string;
    };
  }
}

export const WATCH_EVENTS = {
  'watch-state': { level: ({ state }) => (state === 'seeing' ? 'info' : 'warn') },
} as const satisfies Partial<EventRows>;

/** Tells whether sources answer. @param sight `age`: time since the last answer (ms) */
export const watchFigures = (
  sight: () => readonly (readonly [project: string, age: number, isBlind: boolean])[],
): readonly Figure[] => [
  {
    name: 'watch_age_seconds',
    help: 'Seconds since the watched source of a project last answered any gateway.',
    labels: ['project'],
    aggregator: 'min',
    read: () => sight().map(([project, ageMs]) => [{ project }, ageMs / 1000]),
  },
  {
    name: 'watch_blind',
    help: 'Whether the watched source of a project has failed to answer three times in a row (1), or not (0).',
    labels: ['project'],
    aggregator: 'min',
    read: () => sight().map(([project, , isBlind]) => [{ project }, Number(isBlind)]),
  },
];
