import { LRUCache } from 'lru-cache';

/**
 * A table bounded in total and by owner. Drops the least recently used: of an owner that has more
 * than a quarter, else of all. So no owner drops what others use. A value may have no owner.
 * @param max of all sizes, or of the number without `sizeOf` (bytes of name and value)
 * @param dropped called for each value that is gone
 */
export function createOwnedTable<V>(
  max: number,
  sizeOf: (name: string, value: V) => number = () => 1,
  dropped: (value: V) => void = () => {},
) {
  const share = Math.max(1, Math.floor(max / 4));
  /** Names sorted by use. An owner has few: a table for each would be too large. */
  const owners = new Map<string, { readonly names: Set<string>; size: number }>();
  const all = new LRUCache<string, { value: V; owner: string; size: number }>({
    // With `max` it would allocate all at once.
    maxSize: max,
    sizeCalculation: ({ size }) => size,
    disposeAfter({ value, owner, size }, name) {
      const own = owners.get(owner);
      if (own?.names.delete(name)) own.size -= size;
      if (own?.names.size === 0) owners.delete(owner);
      dropped(value);
    },
  });

  return {
    get(name: string): V | undefined {
      const kept = all.get(name);
      if (kept === undefined) return undefined;
      const names = owners.get(kept.owner)?.names;
      if (names !== undefined && names.size > 1 && names.delete(name)) names.add(name);
      return kept.value;
    },
    /** Replaces the value of whichever owner. @param owner '' for none */
    set(name: string, owner: string, value: V): void {
      all.delete(name);
      const size = sizeOf(name, value);
      if (size > (owner === '' ? max : share)) return dropped(value);
      if (owner !== '') {
        const own = owners.get(owner) ?? { names: new Set(), size: 0 };
        owners.set(owner, own);
        own.names.add(name);
        own.size += size;
        for (const [oldest] of own.names.entries()) {
          if (own.size <= share) break;
          all.delete(oldest);
        }
      }
      all.set(name, { value, owner, size });
    },
    delete: (name: string): void => void all.delete(name),
    values: () => all.values().map(({ value }) => value),
  };
}
