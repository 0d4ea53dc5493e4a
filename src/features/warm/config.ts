import * as kinds from '../../settings/kinds.ts';
import { key, section, type ValueOf } from '../../settings/setting.ts';

export const warm = section({
  /** auto repeats the most valuable queries after each purge, before users ask them. For that it
   * keeps the requests of these queries, without logins and session ids: in this process, and in
   * Redis if there is one. off keeps nothing. docs/WARMUP.md says more. */
  mode: key(kinds.choice('off', 'auto'), 'off'),
  /** How long after the last purge a run of the warm-up begins. */
  settle: key(kinds.duration('1s', '1h', 'off'), '30s'),
  /** How many queries a run asks at most. */
  queries: key(kinds.integer(1, 2_000), 200),
  /** How many of them are at the engine at one time. */
  concurrency: key(kinds.integer(1, 16), 2),
  /** How much engine time a run may take. */
  budget: key(kinds.duration('1s', '1d'), '10m'),
});

export type WarmConfig = ValueOf<typeof warm>;
