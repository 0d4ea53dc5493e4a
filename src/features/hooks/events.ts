import { type EventRows, move } from '../../observability/event-rows.ts';
import type { Figure } from '../../observability/figures.ts';

/** `accepted`: the purge is not over; `failed`: an engine kept its cache, or the gateway failed. */
export type HookResult = 'cleared' | 'accepted' | 'ignored' | 'refused' | 'failed';

declare module '../../common/events.ts' {
  interface EventMap {
    /** One for each call of a hook that is configured. */
    'hook-called': {
      readonly id: string;
      readonly hook: string;
      readonly result: HookResult;
      readonly projects: readonly string[];
      readonly why?: string;
    };
  }
}

const CALLS = {
  name: 'hook_calls_total',
  help: 'Calls of hooks by result: cleared, accepted, ignored, refused, failed.',
  labels: ['hook', 'result'],
} as const;

const FAILURES: readonly HookResult[] = ['refused', 'failed'];
const isFailure = (result: HookResult) => FAILURES.includes(result);

export const HOOK_EVENTS = {
  'hook-called': {
    level: ({ result }) => (isFailure(result) ? 'warn' : 'info'),
    noted: ({ hook, result }) => [isFailure(result) ? 'hook-refused' : 'hook', hook],
    moves: [move(CALLS, ({ hook, result }) => ({ hook, result }))],
  },
} as const satisfies Partial<EventRows>;

/** Failures of each hook begin at 0. */
export const hookFigures = (hooks: () => Iterable<string>): readonly Figure[] => [
  {
    ...CALLS,
    isTotal: true,
    read: () =>
      [...hooks()].flatMap((hook) => FAILURES.map((result) => [{ hook, result }, 0] as const)),
  },
];
