import { isLongName } from '../../fold-case.ts';
import type { BypassReason } from '../../reasons.ts';

/** The most catalogs, and the most cubes, that a request may name: each is folded, and each catalog is an epoch to be read. */
const MOST_NAMES = 16;

/** Names of catalogs or cubes under which something may be kept. */
export interface ObjectNames {
  readonly names: readonly string[];
  /** Why nothing may be kept under some of them, which are left out; undefined where none was left out. */
  readonly excess: Extract<BypassReason, 'long-name' | 'many-catalogs'> | undefined;
}

/**
 * Each name once, without blank ones. The count is looked at before anything is folded: folding is what costs.
 * @param given as the request spells them
 */
export function objectNames(given: Iterable<string>): ObjectNames {
  const distinct = new Set<string>();
  for (const name of given) {
    if (name.trim() !== '') distinct.add(name);
    if (distinct.size > MOST_NAMES) return { names: [], excess: 'many-catalogs' };
  }
  const names = [...distinct].filter((name) => !isLongName(name));
  return { names, excess: names.length < distinct.size ? 'long-name' : undefined };
}
