import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type * as ErrorsModule from '../../../src/common/errors.ts';
import type * as MemoryModule from '../../../src/freshness/memory-store.ts';
import type * as PassModule from '../../../src/line/pass.ts';
import type * as QueryModule from '../../../src/line/query.ts';
import type * as StepModule from '../../../src/line/session-step.ts';
import type * as UnderstandModule from '../../../src/line/understand.ts';
import type * as RedisModule from '../../../src/redis/redis-freshness.ts';
import type * as HealthModule from '../../../src/redis/redis-health.ts';
import type * as SessionsModule from '../../../src/sessions/sessions.ts';
import type * as UnnotedModule from '../../../src/freshness/unnoted.ts';

const SOURCE = fileURLToPath(new URL('../../../src', import.meta.url));

export type Program = Awaited<ReturnType<typeof loadProgram>>;

/** What of the program the oracle runs. @param source its folder; that of this tree unless given */
export async function loadProgram(source = SOURCE) {
  const part = (path: string): Promise<unknown> => import(pathToFileURL(join(source, path)).href);
  return {
    errors: (await part('common/errors.ts')) as typeof ErrorsModule,
    pass: (await part('line/pass.ts')) as typeof PassModule,
    query: (await part('line/query.ts')) as typeof QueryModule,
    step: (await part('line/session-step.ts')) as typeof StepModule,
    understand: (await part('line/understand.ts')) as typeof UnderstandModule,
    sessions: (await part('sessions/sessions.ts')) as typeof SessionsModule,
    unnoted: (await part('freshness/unnoted.ts')) as typeof UnnotedModule,
    memory: (await part('freshness/memory-store.ts')) as typeof MemoryModule,
    redis: (await part('redis/redis-freshness.ts')) as typeof RedisModule,
    health: (await part('redis/redis-health.ts')) as typeof HealthModule,
  };
}
