import { LRUCache } from 'lru-cache';

/** A part of the places of a table that one owner may take. */
const SHARE = 1 / 4;

/** Values by name, each of an owner. */
export interface OwnedTable<V> {
  get(name: string): V | undefined;
  /** In the place of what stood under the name, of whatever owner. */
  set(name: string, owner: string, value: V): void;
  delete(name: string): void;
  values(): Iterable<V>;
}

/** With `max` a cache would take the memory for all places at once. */
const bounded = (places: number) => ({ maxSize: places, sizeCalculation: () => 1 });

interface Kept<V> {
  readonly value: V;
  readonly owner: string;
  readonly names: LRUCache<string, true>;
}

/**
 * A table that is bounded in total and by owner. What was used least recently is dropped: of an owner's own, where that has
 * more than a quarter of all places; else of all. So no owner drops what others use by taking ever more places.
 */
export function createOwnedTable<V extends object>(max: number): OwnedTable<V> {
  const owners = new Map<string, LRUCache<string, true>>();
  const all = new LRUCache<string, Kept<V>>({
    ...bounded(max),
    disposeAfter({ owner, names }, name) {
      names.delete(name);
      if (names.size === 0) owners.delete(owner);
    },
  });

  function namesOf(owner: string): LRUCache<string, true> {
    const known = owners.get(owner);
    if (known !== undefined) return known;
    const names = new LRUCache<string, true>({
      ...bounded(Math.max(1, Math.floor(max * SHARE))),
      disposeAfter(_value, name, reason) {
        if (reason === 'evict') all.delete(name);
      },
    });
    owners.set(owner, names);
    return names;
  }

  return {
    get(name) {
      const kept = all.get(name);
      kept?.names.get(name);
      return kept?.value;
    },
    set(name, owner, value) {
      all.delete(name);
      const names = namesOf(owner);
      all.set(name, { value, owner, names });
      // The list may have become empty, and so been dropped, when the table gave a place away.
      owners.set(owner, names);
      names.set(name, true);
    },
    delete: (name) => void all.delete(name),
    *values() {
      for (const { value } of all.values()) yield value;
    },
  };
}
