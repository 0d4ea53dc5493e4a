import type * as ErrorsModule from '../../../src/common/errors.ts';
import type * as MemoryModule from '../../../src/freshness/memory-store.ts';
import type * as UnnotedModule from '../../../src/freshness/unnoted.ts';
import type * as PassModule from '../../../src/line/pass.ts';
import type * as QueryModule from '../../../src/line/query.ts';
import type * as StepModule from '../../../src/line/session-step.ts';
import type * as UnderstandModule from '../../../src/line/understand.ts';
import type * as RedisModule from '../../../src/redis/redis-freshness.ts';
import type * as HealthModule from '../../../src/redis/redis-health.ts';
import type * as SessionsModule from '../../../src/sessions/sessions.ts';
import type * as LinkModule from '../../../src/workers/link.ts';
import type * as SharedModule from '../../../src/workers/shared.ts';
import { loadFrom } from '../program.ts';

export type SessionProgram = Awaited<ReturnType<typeof loadSessions>>;

/** What the look-ups of sessions run: registries, stores, and what workers share. */
export async function loadSessions(part = loadFrom()) {
  return {
    sessions: (await part('sessions/sessions.ts')) as typeof SessionsModule,
    unnoted: (await part('freshness/unnoted.ts')) as typeof UnnotedModule,
    memory: (await part('freshness/memory-store.ts')) as typeof MemoryModule,
    health: (await part('redis/redis-health.ts')) as typeof HealthModule,
    link: (await part('workers/link.ts')) as typeof LinkModule,
    shared: (await part('workers/shared.ts')) as typeof SharedModule,
  };
}

export type Program = Awaited<ReturnType<typeof loadProgram>>;

/** What whole requests run: the same, and the line from the understood request to its answer. */
export async function loadProgram(part = loadFrom()) {
  return {
    ...(await loadSessions(part)),
    errors: (await part('common/errors.ts')) as typeof ErrorsModule,
    pass: (await part('line/pass.ts')) as typeof PassModule,
    query: (await part('line/query.ts')) as typeof QueryModule,
    step: (await part('line/session-step.ts')) as typeof StepModule,
    understand: (await part('line/understand.ts')) as typeof UnderstandModule,
    redis: (await part('redis/redis-freshness.ts')) as typeof RedisModule,
  };
}
