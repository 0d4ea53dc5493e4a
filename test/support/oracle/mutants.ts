import type { Replacement } from '../../sim/mutants.ts';

/** A fault, and the weather that it takes to show it. */
export interface Mutant {
  readonly replacements: readonly Replacement[];
  readonly needs?: 'snapshots';
  /** Of the runs that look for it, in the sizes of the oracle; `mutant` unless given. */
  readonly goals?: 'mutant' | 'calmMutant' | 'lastMutant';
}

/** The faults that the oracle has to find. */
export const MUTANTS: Readonly<Record<string, Mutant>> = {
  'the epochs are captured after the fetch': {
    replacements: [
      {
        file: 'cache/cache.ts',
        find: `memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);`,
        put: `const late = parts.epochs.held(query.scopes);
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
      },
    ],
  },
  'a run of the warm-up outlives a purge, and what it read before is kept under the epochs behind it':
    {
      replacements: [
        { file: 'features/warm/warm-up.ts', find: `runs.running()?.cut('purge');`, put: `` },
        {
          file: 'cache/cache.ts',
          find: `memory.set(key, latest, digests(), query.fresh ? 'fresh' : how);`,
          put: `const late = query.background ? parts.epochs.held(query.scopes) : undefined;
    const lateKey = late === undefined ? key : queryKey(query.parts, late);
    memory.set(lateKey, latest, digests(), query.fresh ? 'fresh' : how);`,
        },
        {
          file: 'cache/cache.ts',
          find: `{ memory, flights, sharedFlights, purgeTakes, clock }: QueryCacheParts,`,
          put: `{ memory, flights, sharedFlights, purgeTakes, clock, epochs }: QueryCacheParts,`,
        },
        {
          file: 'cache/cache.ts',
          find: `const isKept = await toTier2(key, filled);`,
          put: `const late = query.background ? epochs.held(query.scopes) : undefined;
    const isKept = await (filled === undefined || late === undefined
      ? toTier2(key, filled)
      : toTier2(queryKey(query.parts, late), { ...filled, tokens: late.tokens }));`,
        },
      ],
      goals: 'calmMutant',
    },
  'a purge does not wait for the lease': {
    replacements: [
      {
        file: 'cache/purge/purge.ts',
        find: `if (lease > 0) await options.sleep(lease * LEASE_MARGIN);`,
        put: ``,
      },
    ],
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
        put: `const run = begin(acted).finally(acted).finally(() => globalThis.begunRuns.delete(key));
    (globalThis.begunRuns ??= new Map()).set(key, run);
    return run;`,
      },
      {
        file: 'cache/purge/purge.ts',
        find: `if (!acting.has(key)) return start(key, begin);`,
        put: `if (acting !== undefined) return globalThis.begunRuns?.get(key) ?? start(key, begin);`,
      },
    ],
  },
  'nobody notices that Redis came back from a snapshot': {
    replacements: [
      {
        file: 'redis/redis-freshness.ts',
        find: `if redis.call('GET', KEYS[1]) ~= replid then`,
        put: `if not redis.call('GET', KEYS[1]) then`,
      },
    ],
    needs: 'snapshots',
  },
  'a hook says cleared too early': {
    replacements: [
      {
        file: 'features/hooks/route.ts',
        find: `return { result: await Promise.race([options.during(purged), late]), projects };`,
        put: `const early = Promise.resolve('cleared' as const);
    options.during(purged).catch(() => {});
    return { result: await Promise.race([early, late]), projects };`,
      },
    ],
  },
  'a watcher forgets the second purge': {
    replacements: [
      {
        file: 'features/watch/watcher.ts',
        find: `due: note.due || (same === SETTLED && note.same < SETTLED)`,
        put: `due: note.due`,
      },
    ],
    goals: 'lastMutant',
  },
};
