import type { CacheScope } from '../../freshness/freshness-store.ts';
import { foldObjectName, isLongName } from '../../common/fold-case.ts';
import type { Stale } from '../../common/events.ts';

/**
 * What a purge can name. A scope has one token; an entry carries the tokens of all the scopes it belongs to.
 * `everything` belongs to every entry; `unassigned` to entries that name no project or may span several,
 * and so is renewed by every purge. What has a name that is too long belongs there too.
 */
export type Scope = CacheScope;

/**
 * The scope of a project name that was percent-decoded once. Spellings that an engine could take for the
 * same project share one scope: purging too much is safe, purging too little is not.
 */
export function projectScope(name: string): Scope {
  if (isLongName(name)) return 'unassigned';
  return `project:${foldObjectName(name)}`;
}

/** The scopes that a purge renews in one atomic step. */
export function purgedScopes(stale: Stale): readonly Scope[] {
  // A name that is too long may be another spelling of one under which entries are kept.
  if (stale === 'everything' || isLongName(stale.project)) return ['everything', 'unassigned'];
  return [projectScope(stale.project), 'unassigned'];
}

/**
 * The scopes of an entry.
 * @param projects every project that the request names: path, Catalog property, catalog restrictions
 * @param spans whether its answer may hold data of projects that it does not name
 */
export function entryScopes(projects: readonly string[], spans: boolean): readonly Scope[] {
  const unassigned = spans || projects.length === 0 ? (['unassigned'] as const) : [];
  return [...new Set<Scope>(['everything', ...projects.map(projectScope), ...unassigned])].sort();
}
