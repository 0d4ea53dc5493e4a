import { CORE_EVENTS } from '../observability/core-events.ts';
import type { EventRows } from '../observability/event-rows.ts';
import { COMPARE_EVENTS } from './compare/events.ts';
import { HOOK_EVENTS } from './hooks/events.ts';
import { WARM_EVENTS } from './warm/events.ts';
import { WATCH_EVENTS } from './watch/events.ts';

/** All events: a type without a row does not compile. */
export const EVENTS: EventRows = {
  ...CORE_EVENTS,
  ...HOOK_EVENTS,
  ...WARM_EVENTS,
  ...WATCH_EVENTS,
  ...COMPARE_EVENTS,
};
