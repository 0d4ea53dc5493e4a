/**
 * What a purge can name. A scope has one epoch; an entry carries the epochs of all the scopes it belongs to.
 * `everything` belongs to every entry; `unassigned` to entries that name no project or may span several,
 * and so is renewed by every purge.
 */
export type Scope = 'everything' | 'unassigned' | `project:${string}`;

/**
 * The scope of a project name that was percent-decoded once. Spellings that an engine could take for the
 * same project share one scope: purging too much is safe, purging too little is not. (Upper case comes in
 * between, since `ß` and `ss` and the two small sigmas only meet there; lower case before it, since `ẞ` has
 * no other upper case than itself.)
 */
export function projectScope(name: string): Scope {
  const composed = name.trim().normalize('NFC');
  const folded = composed.toLowerCase().toUpperCase().toLowerCase().normalize('NFC');
  return `project:${folded}`;
}

/** The scopes that a purge of one project, or of everything (undefined), renews in one atomic step. */
export function purgedScopes(project: string | undefined): readonly Scope[] {
  return project === undefined
    ? ['everything', 'unassigned']
    : [projectScope(project), 'unassigned'];
}

/**
 * The scopes of an entry.
 * @param projects every project that the request names: path, Catalog property, catalog restrictions
 * @param spans whether its answer may hold data of projects that it does not name
 */
export function entryScopes(projects: readonly string[], spans: boolean): readonly Scope[] {
  const named = new Set(projects.map(projectScope));
  const scopes: Scope[] = ['everything', ...[...named].sort()];
  if (spans || named.size === 0) scopes.push('unassigned');
  return scopes;
}
