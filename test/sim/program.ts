import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type * as OperationsModule from '../../src/api/roles.ts';
import type * as LoginsModule from '../../src/auth/engine-login.ts';
import type * as KeyModule from '../../src/cache/key.ts';
import type * as ProjectsModule from '../../src/cache/projects.ts';
import type * as EntriesModule from '../../src/cache/shared-entries.ts';
import type * as FlightsModule from '../../src/cache/shared-flights.ts';
import type * as AccountModule from '../../src/common/body-account.ts';
import type * as AwayModule from '../../src/engine/away.ts';
import type * as ErrorsModule from '../../src/common/errors.ts';
import type * as PrincipalModule from '../../src/common/principal.ts';
import type * as CacheModule from '../../src/compose/cache.ts';
import type * as PurgesModule from '../../src/compose/purges.ts';
import type * as FillModule from '../../src/features/warm/fill.ts';
import type * as AheadModule from '../../src/features/warm/refresh-ahead.ts';
import type * as WarmModule from '../../src/features/warm/warm-up.ts';
import type * as WatchModule from '../../src/features/watch/watch.ts';
import type * as MemoryModule from '../../src/freshness/memory-store.ts';
import type * as UnnotedModule from '../../src/freshness/unnoted.ts';
import type * as BelievedModule from '../../src/line/believed-hit.ts';
import type * as HandlerModule from '../../src/line/handler.ts';
import type * as PassModule from '../../src/line/pass.ts';
import type * as QueryModule from '../../src/line/query.ts';
import type * as ReplayModule from '../../src/line/replay.ts';
import type * as StepModule from '../../src/line/session-step.ts';
import type * as UnderstandModule from '../../src/line/understand.ts';
import type * as RedisModule from '../../src/redis/redis-freshness.ts';
import type * as HealthModule from '../../src/redis/redis-health.ts';
import type * as SetsModule from '../../src/roles/role-sets.ts';
import type * as SessionsModule from '../../src/sessions/sessions.ts';
import type * as LinkModule from '../../src/workers/link.ts';
import type * as SharedModule from '../../src/workers/shared.ts';
import type { MutantProgram } from './mutants.ts';

const SOURCE = fileURLToPath(new URL('../../src', import.meta.url));

/** Where each part of the product stands below src/. */
const PARTS = {
  ahead: 'features/warm/refresh-ahead.ts',
  account: 'common/body-account.ts',
  away: 'engine/away.ts',
  believed: 'line/believed-hit.ts',
  cache: 'compose/cache.ts',
  entries: 'cache/shared-entries.ts',
  errors: 'common/errors.ts',
  fill: 'features/warm/fill.ts',
  flights: 'cache/shared-flights.ts',
  handler: 'line/handler.ts',
  health: 'redis/redis-health.ts',
  key: 'cache/key.ts',
  link: 'workers/link.ts',
  logins: 'auth/engine-login.ts',
  memory: 'freshness/memory-store.ts',
  operations: 'api/roles.ts',
  pass: 'line/pass.ts',
  principal: 'common/principal.ts',
  projects: 'cache/projects.ts',
  purges: 'compose/purges.ts',
  query: 'line/query.ts',
  redis: 'redis/redis-freshness.ts',
  replay: 'line/replay.ts',
  sessions: 'sessions/sessions.ts',
  sets: 'roles/role-sets.ts',
  shared: 'workers/shared.ts',
  step: 'line/session-step.ts',
  understand: 'line/understand.ts',
  unnoted: 'freshness/unnoted.ts',
  warm: 'features/warm/warm-up.ts',
  watch: 'features/watch/watch.ts',
} as const;

/** The parts of the product that are simulated. */
export interface Program {
  readonly ahead: typeof AheadModule;
  readonly account: typeof AccountModule;
  readonly away: typeof AwayModule;
  readonly believed: typeof BelievedModule;
  readonly cache: typeof CacheModule;
  readonly entries: typeof EntriesModule;
  readonly errors: typeof ErrorsModule;
  readonly fill: typeof FillModule;
  readonly flights: typeof FlightsModule;
  readonly handler: typeof HandlerModule;
  readonly health: typeof HealthModule;
  readonly key: typeof KeyModule;
  readonly link: typeof LinkModule;
  readonly logins: typeof LoginsModule;
  readonly memory: typeof MemoryModule;
  readonly operations: typeof OperationsModule;
  readonly pass: typeof PassModule;
  readonly principal: typeof PrincipalModule;
  readonly projects: typeof ProjectsModule;
  readonly purges: typeof PurgesModule;
  readonly query: typeof QueryModule;
  readonly redis: typeof RedisModule;
  readonly replay: typeof ReplayModule;
  readonly sessions: typeof SessionsModule;
  readonly sets: typeof SetsModule;
  readonly shared: typeof SharedModule;
  readonly step: typeof StepModule;
  readonly understand: typeof UnderstandModule;
  readonly unnoted: typeof UnnotedModule;
  readonly warm: typeof WarmModule;
  readonly watch: typeof WatchModule;
}

/** Names of the parts that one simulation runs. */
export type PartName = keyof Program;

/** Loads these parts of the product. @param mutant the copy of the sources that holds a fault */
export async function loadProgram<Name extends PartName>(
  names: readonly Name[],
  mutant?: MutantProgram,
): Promise<Pick<Program, Name>> {
  const source = mutant === undefined ? SOURCE : dirname(mutant.main);
  const program: Record<string, unknown> = {};
  for (const name of names) {
    program[name] = await import(pathToFileURL(join(source, PARTS[name])).href);
  }
  return program as unknown as Pick<Program, Name>;
}
