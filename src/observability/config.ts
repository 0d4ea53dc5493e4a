import { choice, duration } from '../settings/kinds.ts';
import { key, section, type ValueOf } from '../settings/setting.ts';

export const log = section({
  /** The least important lines that are written. Hits are logged from debug on. */
  level: key(choice('trace', 'debug', 'info', 'warn', 'error', 'silent'), 'info'),
  /** The duration from which a request, even a hit, is logged at level warn. 0 switches this
   * off. */
  slow: key(duration('1ms', '1h', 'off'), '5s'),
  /** The requests whose line in the log holds the text of the statement, at most 2,000 characters.
   * It may hold personal data. */
  statements: key(choice('off', 'slow', 'all'), 'off'),
});

export type LogConfig = ValueOf<typeof log>;
