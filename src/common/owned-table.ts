import { LRUCache } from 'lru-cache';

/**
 * A table that is bounded in total and by owner. What was used least recently is dropped: of an owner's own, where
 * that has more than a quarter of the table; else of all. So no owner drops what others use.
 * @param max of all sizes, or of the number where `sizeOf`, the bytes of a value with its name, is left out
 */
export function createOwnedTable<V>(
  max: number,
  sizeOf: (name: string, value: V) => number = () => 1,
) {
  const owners = new Map<string, LRUCache<string, number>>();
  const all = new LRUCache<string, { value: V; owner: string; size: number }>({
    maxSize: max,
    sizeCalculation: ({ size }) => size,
    disposeAfter({ owner }, name) {
      const names = owners.get(owner);
      names?.delete(name);
      if (names?.size === 0) owners.delete(owner);
    },
  });

  function namesOf(owner: string): LRUCache<string, number> {
    const known = owners.get(owner);
    if (known !== undefined) return known;
    const names = new LRUCache<string, number>({
      maxSize: Math.max(1, Math.floor(max / 4)),
      sizeCalculation: (size) => size,
      disposeAfter(_size, name, reason) {
        if (reason === 'evict') all.delete(name);
      },
    });
    owners.set(owner, names);
    return names;
  }

  return {
    get(name: string): V | undefined {
      const kept = all.get(name);
      if (kept !== undefined) owners.get(kept.owner)?.get(name);
      return kept?.value;
    },
    /** In the place of what stood under the name, of whichever owner. */
    set(name: string, owner: string, value: V): void {
      all.delete(name);
      const size = sizeOf(name, value);
      all.set(name, { value, owner, size });
      const names = namesOf(owner);
      if (all.has(name)) names.set(name, size);
      // What alone is more than an owner may take is not kept.
      if (!names.has(name)) all.delete(name);
      if (names.size === 0) owners.delete(owner);
    },
    delete: (name: string): void => void all.delete(name),
    values: () => all.values().map(({ value }) => value),
  };
}
