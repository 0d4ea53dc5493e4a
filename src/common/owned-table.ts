import { LRUCache } from 'lru-cache';

/**
 * A table that is bounded in total and by owner. What was used least recently is dropped: of an owner's own, where
 * that has more than a quarter of the table; else of all. So no owner drops what others use. A value may have no owner.
 * @param max of all sizes, or of the number where `sizeOf`, the bytes of a value with its name, is left out
 * @param dropped told of each value that is there no more
 */
export function createOwnedTable<V>(
  max: number,
  sizeOf: (name: string, value: V) => number = () => 1,
  dropped: (value: V) => void = () => {},
) {
  type Names = LRUCache<string, number>;
  interface Kept {
    readonly value: V;
    readonly owner: string;
    /** Those of its owner. */
    readonly names: Names | undefined;
    readonly size: number;
  }
  const owners = new Map<string, Names>();
  const all = new LRUCache<string, Kept>({
    // With `max` it would take the memory for all of them at once.
    maxSize: max,
    sizeCalculation: ({ size }) => size,
    disposeAfter({ value, owner, names }, name) {
      names?.delete(name);
      if (names?.size === 0) owners.delete(owner);
      dropped(value);
    },
  });

  const newNames = () =>
    new LRUCache<string, number>({
      maxSize: Math.max(1, Math.floor(max / 4)),
      sizeCalculation: (size) => size,
      disposeAfter(_size, name, reason) {
        if (reason === 'evict') all.delete(name);
      },
    });

  return {
    get(name: string): V | undefined {
      const kept = all.get(name);
      kept?.names?.get(name);
      return kept?.value;
    },
    /** In the place of what stood under the name, of whichever owner. @param owner '' for none */
    set(name: string, owner: string, value: V): void {
      all.delete(name);
      const size = sizeOf(name, value);
      const names = owner === '' ? undefined : (owners.get(owner) ?? newNames());
      all.set(name, { value, owner, names, size });
      if (names === undefined) return;
      if (all.has(name)) names.set(name, size);
      // What alone is more than an owner may take is not kept.
      if (!names.has(name)) all.delete(name);
      if (names.size > 0) owners.set(owner, names);
      else owners.delete(owner);
    },
    delete: (name: string): void => void all.delete(name),
    values: () => all.values().map(({ value }) => value),
  };
}
