import { type EventRows, move } from '../../observability/event-rows.ts';
import type { Figure } from '../../observability/figures.ts';

/** `accepted`: a purge is under way or pending; `failed`: an engine did not clear its own cache, or the gateway failed. */
export type HookResult = 'cleared' | 'accepted' | 'ignored' | 'refused' | 'failed';

declare module '../../common/events.ts' {
  interface EventMap {
    /** One for each call of a hook that is configured. */
    'hook-called': {
      readonly id: string;
      readonly hook: string;
      readonly result: HookResult;
      /** Those that are purged. */
      readonly projects: readonly string[];
      /** Of one that was refused or failed. */
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

/** The failures of each hook begin at 0. */
export const hookFigures = (hooks: () => Iterable<string>): readonly Figure[] => [
  {
    ...CALLS,
    isTotal: true,
    read: () =>
      [...hooks()].flatMap((hook) => FAILURES.map((result) => [{ hook, result }, 0] as const)),
  },
];
