import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.ts';

/** The part of a table that one owner may take. */
const SHARE = 1 / 4;

/** Values by name, each of an owner. */
export interface OwnedTable<V> {
  get(name: string): V | undefined;
  /** In the place of what stood under the name, of whichever owner. */
  set(name: string, owner: string, value: V): void;
  delete(name: string): void;
  values(): Iterable<V>;
  /** Drops what was not used for `unusedFor`, which is not found any more as it is. */
  dropUnused(): void;
}

interface Kept<V> {
  readonly value: V;
  readonly owner: string;
  readonly size: number;
}

/**
 * A table that is bounded in total and by owner. What was used least recently is dropped: of an owner's own, where that
 * has more than a quarter of the table; else of all. So no owner drops what others use by taking ever more.
 *
 * @param max of all sizes together: places, where `sizeOf` is left out
 * @param options.sizeOf the bytes that a value takes with its name
 * @param options.unusedFor milliseconds after which what was not used is dropped
 * @param options.dropped told of each value that leaves the table, for whatever reason
 */
export function createOwnedTable<V>(
  max: number,
  options: {
    readonly sizeOf?: (name: string, value: V) => number;
    readonly unusedFor?: { readonly milliseconds: number; readonly clock: Pick<Clock, 'now'> };
    readonly dropped?: (name: string, value: V) => void;
  } = {},
): OwnedTable<V> {
  const { sizeOf = () => 1, unusedFor, dropped } = options;
  /** The sizes of what each owner has, by name. */
  const owners = new Map<string, LRUCache<string, number>>();
  const all = new LRUCache<string, Kept<V>>({
    maxSize: max,
    sizeCalculation: ({ size }) => size,
    ...(unusedFor && {
      ttl: unusedFor.milliseconds,
      updateAgeOnGet: true,
      ttlResolution: 0,
      perf: unusedFor.clock,
    }),
    disposeAfter({ owner, value }, name) {
      const names = owners.get(owner);
      names?.delete(name);
      if (names?.size === 0) owners.delete(owner);
      dropped?.(name, value);
    },
  });

  function namesOf(owner: string): LRUCache<string, number> {
    const known = owners.get(owner);
    if (known !== undefined) return known;
    const names = new LRUCache<string, number>({
      maxSize: Math.max(1, Math.floor(max * SHARE)),
      sizeCalculation: (size) => size,
      disposeAfter(_size, name, reason) {
        if (reason === 'evict') all.delete(name);
      },
    });
    owners.set(owner, names);
    return names;
  }

  return {
    get(name) {
      const kept = all.get(name);
      if (kept === undefined) return undefined;
      owners.get(kept.owner)?.get(name);
      return kept.value;
    },
    set(name, owner, value) {
      all.delete(name);
      const size = sizeOf(name, value);
      all.set(name, { value, owner, size });
      const names = namesOf(owner);
      if (all.has(name)) names.set(name, size);
      // What alone is more than an owner may take is not kept.
      if (!names.has(name)) all.delete(name);
      if (names.size === 0) owners.delete(owner);
    },
    delete: (name) => void all.delete(name),
    *values() {
      for (const { value } of all.values()) yield value;
    },
    dropUnused: () => void all.purgeStale(),
  };
}
