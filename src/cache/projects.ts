import type { Clock } from '../common/clock.ts';
import type { Stale } from '../common/events.ts';
import { foldObjectName, isLongName } from '../common/fold-case.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { Config, ProjectConfig } from '../config/config.ts';
import type { CacheScope } from '../freshness/freshness-store.ts';
import type { NamedCubes } from '../xmla/request/named-objects.ts';

/**
 * What a purge can name. A scope has one token; an entry carries the tokens of all the scopes it belongs to. `everything`
 * belongs to every entry; `unassigned`, which every purge renews, to entries that name no project, one with a name that is
 * too long, or may span several.
 */
export type Scope = CacheScope;

/**
 * The scope of a project name that was percent-decoded once. Spellings that an engine could take for the same project
 * share one scope: purging too much is safe, purging too little is not.
 */
export function projectScope(name: string): Scope {
  return isLongName(name) ? 'unassigned' : `project:${foldObjectName(name)}`;
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
  const scopes = new Set<Scope>(['everything', ...projects.map(projectScope)]);
  if (spans || projects.length === 0) scopes.add('unassigned');
  return [...scopes].sort();
}

/** Users who share by roles are fewer than everyone. */
const STRICTEST_FIRST = ['user', 'roles', 'everyone'] as const;

/** `ttl`: milliseconds. */
export type QueryPolicy = Pick<ProjectConfig, 'cache' | 'ttl' | 'share'>;
/** `uncached`: the cubes whose data is not cached under it, folded. */
type ProjectPolicy = QueryPolicy & { readonly uncached: ReadonlySet<string> };

/**
 * What the configuration says of a query: the strictest of what is said of the projects that it names, compared as purges
 * do, and of the general section where it names none that is configured, or may answer for others.
 *
 * The cache is off too where the answer may hold data of a cube that is off in any of them; a query that leaves open which
 * cubes it reads may hold data of all. The name of a cube switches caching off, never on.
 */
export function projectPolicy(
  config: Pick<Config, 'cache' | 'projects'>,
): (projects: readonly string[], spans: boolean, cubes: NamedCubes) => QueryPolicy {
  const alike = Map.groupBy(config.projects, ([name]) => projectScope(name));
  const byScope = new Map(
    [...alike].map(([scope, named]) => [scope, strictest(named.map(([, one]) => policyOf(one)))]),
  );
  const { ttl, share } = config.cache;
  const general: ProjectPolicy = { cache: 'on', ttl, share, uncached: new Set() };
  // An answer that spans projects may hold data of one whose cache is off.
  const spanning = strictest([general, ...byScope.values()]);

  return (projects, spans, { cubes, certain }) => {
    const policies = projects.map((name) => byScope.get(projectScope(name)) ?? general);
    const all = spans ? [spanning] : policies.length === 0 ? [general] : policies;
    const { uncached, ...policy } = strictest(all);
    const mayRead = !certain || cubes.some((cube) => uncached.has(foldObjectName(cube)));
    return uncached.size > 0 && mayRead ? { ...policy, cache: 'off' } : policy;
  };
}

function policyOf({ cache, ttl, share, cubes }: ProjectConfig): ProjectPolicy {
  const off = [...cubes].filter(([, switched]) => switched === 'off').map(([name]) => name);
  return { cache, ttl, share, uncached: new Set(off.map(foldObjectName)) };
}

function strictest(policies: readonly ProjectPolicy[]): ProjectPolicy {
  const [first] = policies;
  if (first !== undefined && policies.length === 1) return first;
  const shares = new Set(policies.map(({ share }) => share));
  return {
    cache: policies.some(({ cache }) => cache === 'off') ? 'off' : 'on',
    ttl: Math.min(...policies.map(({ ttl }) => ttl)),
    share: STRICTEST_FIRST.find((share) => shares.has(share)) ?? 'user',
    uncached: new Set(policies.flatMap(({ uncached }) => [...uncached])),
  };
}

const HOUR = 3_600_000;
/** For names, and for users whose new names are counted (bytes). */
const MAX_BYTES = 4 * 1024 * 1024;
/** What an entry of these tables takes beside its texts (bytes, rounded up). */
const ENTRY_OVERHEAD = 300;

/**
 * Names of projects and catalogs, and how many new ones users name: each name for which anything is kept (an epoch, the
 * catalog of a session, a key in Redis) costs memory, whether or not the engine knows it. Spellings that share a scope
 * are one name. It counts for the user who named it first, so that no user's names drive out those of others.
 */
export type KnownNames = ReturnType<typeof createKnownNames>;

export function createKnownNames({ clock }: { clock: Pick<Clock, 'now'> }) {
  let limit = Infinity;
  /** The spellings of the configuration. */
  let configured: ReadonlyMap<Scope, string> = new Map();
  /** Who named it first, and in which spelling the engine answered it; undefined as long as it did not. */
  const named = createOwnedTable<{ user: string; spelling: string | undefined }>(
    MAX_BYTES,
    (scope, { spelling = '' }) => 2 * (scope.length + spelling.length) + ENTRY_OVERHEAD,
  );
  /** The new names of each user, from the first one on for an hour. */
  const charges = createOwnedTable<{ since: number; count: number }>(
    MAX_BYTES,
    (user) => 2 * user.length + ENTRY_OVERHEAD,
  );

  /** The new ones of the names, and what is charged to the user with them; undefined when that is too much. */
  function charge(user: string, names: readonly string[]) {
    const scopes = [...new Set(names.map(projectScope))];
    const added = scopes.filter((scope) => !configured.has(scope) && !named.get(scope));
    const now = clock.now();
    const last = charges.get(user);
    const before = last !== undefined && now - last.since < HOUR ? last : { since: now, count: 0 };
    const count = before.count + added.length;
    return added.length > 0 && count > limit ? undefined : { added, charged: { ...before, count } };
  }

  return {
    /** Takes over the names of a configuration, and how many new ones a user may name within an hour. */
    configure({ projects, limits }: Pick<Config, 'projects' | 'limits'>): void {
      limit = limits.names_per_user;
      configured = new Map([...projects.keys()].map((name) => [projectScope(name), name]));
    },
    /**
     * Whether something may be kept under all of these names. New ones are charged to the user: not those of the
     * configuration, those that the engine has answered, and those that were charged to any user before. Nothing is
     * given back, since an engine may answer a name that it does not know with an empty rowset. A user whose new names
     * are too many is charged none.
     */
    admit(user: string, names: readonly string[]): boolean {
      const next = charge(user, names);
      if (next === undefined) return false;
      if (next.added.length > 0) charges.set(user, user, next.charged);
      for (const scope of next.added) named.set(scope, user, { user, spelling: undefined });
      return true;
    },
    /** The same for a request that is not sent: nothing is charged. */
    wouldAdmit: (user: string, names: readonly string[]) => charge(user, names) !== undefined,
    /** Notes that the engine answered a request with these names, and not with a Fault. */
    answered(names: readonly string[]): void {
      for (const name of names) {
        const scope = projectScope(name);
        const { user, spelling } = named.get(scope) ?? { user: '', spelling: undefined };
        if (spelling === undefined) named.set(scope, user, { user, spelling: name });
      }
    },
    /** A name as it was first spelt; undefined where neither the configuration holds it nor the engine has answered it. */
    find(name: string) {
      const scope = projectScope(name);
      const ofConfig = configured.get(scope);
      const spelling = ofConfig ?? named.get(scope)?.spelling;
      return spelling === undefined ? undefined : { spelling, configured: ofConfig !== undefined };
    },
  };
}
