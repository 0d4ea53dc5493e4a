import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type * as KeyModule from '../../../src/cache/key.ts';
import type * as ProjectsModule from '../../../src/cache/projects.ts';
import type * as EntriesModule from '../../../src/cache/shared-entries.ts';
import type * as FlightsModule from '../../../src/cache/shared-flights.ts';
import type * as WarmModule from '../../../src/features/warm/warm-up.ts';
import type * as AccountModule from '../../../src/common/body-account.ts';
import type * as CacheModule from '../../../src/compose/cache.ts';
import type * as PurgesModule from '../../../src/compose/purges.ts';
import type * as WatcherModule from '../../../src/features/watch/watcher.ts';
import type * as HealthModule from '../../../src/redis/redis-health.ts';
import type * as LinkModule from '../../../src/workers/link.ts';
import type * as SharedModule from '../../../src/workers/shared.ts';

const SOURCE = fileURLToPath(new URL('../../../src', import.meta.url));

export type Program = Awaited<ReturnType<typeof loadProgram>>;

/** Loads what the simulated fleet is made of. @param source its folder; that of this tree unless given */
export async function loadProgram(source = SOURCE) {
  const part = (path: string): Promise<unknown> => import(pathToFileURL(join(source, path)).href);
  return {
    account: (await part('common/body-account.ts')) as typeof AccountModule,
    cache: (await part('compose/cache.ts')) as typeof CacheModule,
    entries: (await part('cache/shared-entries.ts')) as typeof EntriesModule,
    flights: (await part('cache/shared-flights.ts')) as typeof FlightsModule,
    health: (await part('redis/redis-health.ts')) as typeof HealthModule,
    key: (await part('cache/key.ts')) as typeof KeyModule,
    link: (await part('workers/link.ts')) as typeof LinkModule,
    projects: (await part('cache/projects.ts')) as typeof ProjectsModule,
    purges: (await part('compose/purges.ts')) as typeof PurgesModule,
    shared: (await part('workers/shared.ts')) as typeof SharedModule,
    warm: (await part('features/warm/warm-up.ts')) as typeof WarmModule,
    watcher: (await part('features/watch/watcher.ts')) as typeof WatcherModule,
  };
}
