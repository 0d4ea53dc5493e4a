import { always, type EventRows } from '../../observability/event-rows.ts';

/** How a cached answer compares with what the engine says now (docs/OPERATIONS.md). */
export type Verdict =
  | 'same'
  | 'stale'
  | 'unstable'
  | 'purged'
  | 'no-entry'
  | 'not-cached'
  | 'failed';

declare module '../../common/events.ts' {
  interface EventMap {
    /** One for each POST /admin/compare; `digest` as in `xmla-answered`. */
    compared: {
      readonly id: string;
      readonly principal: string;
      readonly project: string;
      readonly digest: string;
      readonly verdict: Verdict;
    };
  }
}

export const COMPARE_EVENTS = {
  compared: {
    level: 'info',
    isAudit: always,
    noted: ({ digest, project, verdict }) =>
      verdict === 'stale' ? ['stale', `${digest} (${project || 'no project'})`] : undefined,
  },
} as const satisfies Partial<EventRows>;
