import { LRUCache } from 'lru-cache';
import type { EpochStore } from './epoch-store.ts';
import type { Scope } from './scopes.ts';

/** Epochs of more projects than this are forgotten, the least used first; that purges those projects. */
const MAX_PROJECTS = 100_000;

/** Epochs of a gateway that is alone: kept in its memory, so that nobody waits for a lease to run out. */
export function createMemoryEpochStore(options: {
  newToken: () => string;
  keySecret: string;
}): EpochStore {
  const fixed = new Map<Scope, string>();
  const projects = new LRUCache<Scope, string>({
    // With `max` it would take the memory for all of them at once.
    maxSize: MAX_PROJECTS,
    sizeCalculation: () => 1,
  });
  const shelf = (scope: Scope) => (scope.startsWith('project:') ? projects : fixed);

  function tokenOf(scope: Scope): string {
    const known = shelf(scope).get(scope);
    if (known !== undefined) return known;
    const made = options.newToken();
    shelf(scope).set(scope, made);
    return made;
  }

  return {
    async read(scopes) {
      return { tokens: scopes.map(tokenOf), keySecret: options.keySecret };
    },
    async renew(scopes) {
      for (const scope of scopes) shelf(scope).set(scope, options.newToken());
      return 0;
    },
    incarnation: async () => '',
    async announce() {},
    acknowledged: () => 1,
    onAnnouncement() {},
    async close() {},
  };
}
