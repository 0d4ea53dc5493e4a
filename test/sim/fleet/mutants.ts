import type { Replacement } from '../mutants.ts';
import type { FleetSettings } from './run.ts';

/** A fault, and what shows it best. */
export interface FleetMutant {
  readonly replacements: readonly Replacement[];
  readonly settings?: Partial<FleetSettings>;
}

const one = (file: string, find: string, put: string): readonly Replacement[] => [
  { file, find, put },
];
const REDIS = { form: 'redis' } as const;
/** Without announcements there is nothing but epochs and leases. */
const DEAF = { troubles: ['announcements are lost'] };
const WORKERS = { ...DEAF, form: 'workers', lease: 200 } as const;
/** What a worker is told comes late. */
const LATE = { hopMs: 20, slowOneIn: 2, slowMs: 200, loseOneIn: 0 };
const KEEPS = `memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);`;

/** The faults that the simulation has to find. */
export const FLEET_MUTANTS: Readonly<Record<string, FleetMutant>> = {
  'the epochs are captured after the fetch': {
    replacements: one(
      'cache/cache.ts',
      KEEPS,
      `const late = parts.epochs.held(query.scopes);
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
    ),
  },
  'a run of the warm-up outlives a purge, and what it read before is kept under the epochs behind it':
    {
      replacements: [
        { file: 'features/warm/warm-up.ts', find: `runs.running()?.cut('purge');`, put: `` },
        {
          file: 'cache/cache.ts',
          find: KEEPS,
          put: `const late = query.background ? parts.epochs.held(query.scopes) : undefined;
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
        },
      ],
      settings: { ...REDIS, troubles: [], engineMs: 300, clients: 4, lease: 100 },
    },
  'a purge does not wait for the lease': {
    replacements: one(
      'cache/purge/purge.ts',
      `if (lease > 0) await options.sleep(lease * LEASE_MARGIN);`,
      ``,
    ),
    settings: { ...DEAF, ...REDIS },
  },
  'entries in memory do not carry epochs': {
    replacements: [
      {
        file: 'cache/key.ts',
        find: "  return hash('sha512-256', `${epochs.keySecret}\\0${encoded}`, 'base64url');",
        put: `  const digest = (text: string) => hash('sha512-256', epochs.keySecret + text, 'base64url');
  const key = digest(encoded);
  (globalThis.bareKeys ??= new Map()).set(key, digest(JSON.stringify([parts.asked.hash, ...others.slice(0, -1)])));
  return key;`,
      },
      {
        file: 'cache/memory-tier.ts',
        find: `new LRUCache<string, MemoryEntry>({`,
        put: `new (class extends LRUCache<string, MemoryEntry> {
    override get = (key: string) => super.get(globalThis.bareKeys.get(key) ?? key);
    override peek = (key: string) => super.peek(globalThis.bareKeys.get(key) ?? key);
    override set = (key: string, entry: MemoryEntry) => super.set(globalThis.bareKeys.get(key) ?? key, entry);
  })({`,
      },
    ],
  },
  'a purge shares one that began before it came': {
    replacements: [
      {
        file: 'cache/purge/purge.ts',
        find: `return begin(acted).finally(acted);`,
        put: `const run = begin(acted).finally(acted).finally(() => begun.delete(key));
    begun.set(key, run);
    return run;`,
      },
      {
        file: 'cache/purge/purge.ts',
        find: `  function start(key: string, begin: Begin<T>): Promise<T> {`,
        put: `  const begun = new Map<string, Promise<T>>();
  function start(key: string, begin: Begin<T>): Promise<T> {`,
      },
      {
        file: 'cache/purge/purge.ts',
        find: `if (!acting.has(key)) return start(key, begin);`,
        put: `if (acting !== undefined) return begun.get(key) ?? start(key, begin);`,
      },
    ],
  },
  'a watcher forgets the second purge': {
    replacements: one(
      'features/watch/watcher.ts',
      `due: note.due || (same === SETTLED && note.same < SETTLED)`,
      `due: note.due`,
    ),
    settings: { answers: 200, troubles: [] },
  },
  'a watcher takes a purge that did not hold for done': {
    replacements: one(
      'features/watch/watcher.ts',
      `if (ok) note = { ...note, due: false, purged };`,
      `note = { ...note, due: false, purged };
      if (ok) return every;`,
    ),
    settings: { answers: 200, troubles: [] },
  },
  'a hit does not ask whether its tokens are in force': {
    replacements: [
      {
        file: 'cache/cache.ts',
        find: `if (captured === undefined || !epochs.areCurrent(captured)) return undefined;`,
        put: `if (captured === undefined) return undefined;`,
      },
    ],
  },
  'engines clear their caches behind the new tokens': {
    replacements: one(
      'cache/purge/purge.ts',
      `      const cleared = clears ? await engineClearing.clear(stale, authorization) : [];
      return { id: run, engines: cleared, passed: await renewForAll(scopes, run, acted) };`,
      `      const passed = await renewForAll(scopes, run, acted);
      const cleared = clears ? await engineClearing.clear(stale, authorization) : [];
      return { id: run, engines: cleared, passed };`,
    ),
  },
  'without epochs a request joins a flight that began before a purge': {
    replacements: one(
      'cache/cache.ts',
      `captured === undefined ? purgeTakes : undefined;`,
      `undefined;`,
    ),
    settings: { ...REDIS, troubles: ['rough links', 'a link is away'] },
  },
  'a change is not dropped behind it': {
    replacements: one(
      'compose/purges.ts',
      `    const { ok } = await drop(stale);`,
      `    const ok = true;`,
    ),
  },
  'a worker uses epochs after its lease': {
    replacements: one(
      'common/leases.ts',
      `return now - start.now < length && wall >= start.wall && wall - start.wall < length;`,
      `return now - start.now < 100 * length && wall >= start.wall;`,
    ),
    settings: WORKERS,
  },
  'a purge of workers does not wait for the lease': {
    replacements: one(
      'cache/purge/purge.ts',
      `if (lease > 0) await options.sleep(lease * LEASE_MARGIN);`,
      ``,
    ),
    settings: WORKERS,
  },
  'the primary process forgets the leases of all workers but the one that asks': {
    replacements: one(
      'freshness/memory-store.ts',
      `[leases.longest(), leases.longest(holder.id)]`,
      `[holder.lease, leases.longest(holder.id)]`,
    ),
    settings: { ...DEAF, form: 'workers' },
  },
  'a worker counts its lease from the answer': {
    replacements: one(
      'common/leases.ts',
      `      const since = begin();
      using watching = watch(names);
      try {
        const reply = await ask();`,
      `      using watching = watch(names);
      try {
        const reply = await ask();
        const since = begin();`,
    ),
    settings: { ...WORKERS, troubles: [...DEAF.troubles, 'rough links'], links: LATE, lease: 100 },
  },
};
