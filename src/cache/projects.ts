import type { Clock } from '../common/clock.ts';
import type { Stale } from '../common/events.ts';
import { foldObjectName, isLongName } from '../common/fold-case.ts';
import { createOwnedTable } from '../common/owned-table.ts';
import type { CacheConfig, ProjectConfig } from './config.ts';
import type { CacheScope } from '../freshness/freshness-store.ts';
import { foldName } from '../xmla/names.ts';
import type { NamedCubes } from '../xmla/request/named-objects.ts';

/** Spellings (percent-decoded) that an engine could take for one project share a scope. */
export function projectScope(name: string): CacheScope {
  return isLongName(name) ? 'unassigned' : `project:${foldObjectName(name)}`;
}

export function purgedScopes(stale: Stale): readonly CacheScope[] {
  // It may be another spelling of a name under which entries are kept.
  if (stale === 'everything' || isLongName(stale.project)) return ['everything', 'unassigned'];
  return [projectScope(stale.project), 'unassigned'];
}

/** @param spans the answer may hold data of projects that the request does not name */
export function entryScopes(projects: readonly string[], spans: boolean): readonly CacheScope[] {
  const scopes = new Set<CacheScope>(['everything', ...projects.map(projectScope)]);
  if (spans || projects.length === 0) scopes.add('unassigned');
  const all = [...scopes];
  // `everything` comes first in any case.
  return all.length <= 2 ? all : all.sort();
}

/** Users who share by roles are fewer than everyone. */
const STRICTEST_FIRST = ['user', 'roles', 'everyone'] as const;
/** Names of functions are folded; times are milliseconds. */
export type QueryPolicy = Pick<ProjectConfig, 'cache' | 'ttl' | 'stale_if_error' | 'share'> & {
  readonly functions: ReadonlySet<string>;
};
/** `uncached`: folded names of cubes whose cache is off. */
type ProjectPolicy = QueryPolicy & { readonly uncached: ReadonlySet<string> };

/**
 * Strictest policy of the named projects; the general one where there are none. Off where a query
 * may read a cube that is off.
 */
export function projectPolicy(config: {
  readonly cache: Pick<CacheConfig, 'ttl' | 'stale_if_error' | 'share' | 'functions'>;
  readonly projects: ReadonlyMap<string, ProjectConfig>;
}): (projects: readonly string[], spans: boolean, cubes: NamedCubes) => QueryPolicy {
  const general = policyOf({ ...config.cache, cache: 'on', cubes: new Map() });
  const alike = Map.groupBy(config.projects, ([name]) => projectScope(name));
  const byScope = new Map(
    [...alike].map(([scope, named]) => [scope, strictest(named.map(([, one]) => policyOf(one)))]),
  );
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

function policyOf(
  one: Omit<ProjectPolicy, 'uncached' | 'functions'> & Pick<ProjectConfig, 'cubes' | 'functions'>,
): ProjectPolicy {
  const { cache, ttl, stale_if_error, share, cubes, functions } = one;
  const off = [...cubes].filter(([, switched]) => switched === 'off').map(([name]) => name);
  const uncached = new Set(off.map(foldObjectName));
  const folded = new Set(functions.map(foldName));
  return { cache, ttl, stale_if_error, share, uncached, functions: folded };
}

function strictest(policies: readonly ProjectPolicy[]): ProjectPolicy {
  const [first] = policies;
  if (first !== undefined && policies.length === 1) return first;
  const shares = new Set(policies.map(({ share }) => share));
  return {
    cache: policies.some(({ cache }) => cache === 'off') ? 'off' : 'on',
    ttl: Math.min(...policies.map(({ ttl }) => ttl)),
    stale_if_error: Math.min(...policies.map(({ stale_if_error: time }) => time)),
    share: STRICTEST_FIRST.find((share) => shares.has(share)) ?? 'user',
    functions: policies.reduce<ReadonlySet<string>>(
      (all, { functions }) => functions.intersection(all),
      first?.functions ?? new Set(),
    ),
    uncached: new Set(policies.flatMap(({ uncached }) => [...uncached])),
  };
}

const HOUR = 3_600_000;
const MAX_BYTES = 4 * 1024 * 1024;
const ENTRY_OVERHEAD = 300;
interface NamesConfig {
  readonly projects: ReadonlyMap<string, unknown>;
  readonly limits: { readonly names_per_user: number };
}
const NOTHING_NEW = { added: new Set<CacheScope>(), charged: undefined };
/**
 * Names of projects and catalogs, one for a scope. Each takes memory, known to the engine or not,
 * so it counts for the user who named it first, and drives out no other user's.
 */
export type KnownNames = ReturnType<typeof createKnownNames>;
export function createKnownNames({ clock }: { clock: Pick<Clock, 'now'> }) {
  let limit = Infinity;
  let configured: ReadonlyMap<CacheScope, string> = new Map();
  const named = createOwnedTable<{ user: string; spelling: string | undefined }>(
    MAX_BYTES,
    (scope, { spelling = '' }) => 2 * (scope.length + spelling.length) + ENTRY_OVERHEAD,
  );
  const charges = createOwnedTable<{ since: number; count: number }>(
    MAX_BYTES,
    (user) => 2 * user.length + ENTRY_OVERHEAD,
  );

  const isNew = (scope: CacheScope) => !configured.has(scope) && !named.get(scope);

  /** Undefined when there are too many new names. */
  function charge(user: string, names: readonly string[]) {
    const added = new Set(names.map(projectScope).filter(isNew));
    if (added.size === 0) return NOTHING_NEW;
    const now = clock.now();
    const last = charges.get(user);
    const before = last !== undefined && now - last.since < HOUR ? last : { since: now, count: 0 };
    const count = before.count + added.size;
    return count > limit ? undefined : { added, charged: { ...before, count } };
  }

  return {
    configure({ projects, limits }: NamesConfig): void {
      limit = limits.names_per_user;
      configured = new Map([...projects.keys()].map((name) => [projectScope(name), name]));
    },
    /**
     * Charges the user for all new names or none. Gives nothing back: engines may answer an unknown
     * name with an empty rowset.
     */
    admit(user: string, names: readonly string[]): boolean {
      const next = charge(user, names);
      if (next === undefined) return false;
      if (next.charged) charges.set(user, user, next.charged);
      for (const scope of next.added) named.set(scope, user, { user, spelling: undefined });
      return true;
    },
    wouldAdmit: (user: string, names: readonly string[]) => charge(user, names) !== undefined,
    /** The engine has answered them without a Fault. */
    answered(names: readonly string[]): void {
      for (const name of names) {
        const scope = projectScope(name);
        const { user, spelling } = named.get(scope) ?? { user: '', spelling: undefined };
        if (spelling !== undefined) continue;
        // A name cut out of a statement keeps all of it in memory.
        named.set(scope, user, { user, spelling: Buffer.from(name).toString() });
      }
    },
    /** First spelling; undefined where neither configuration nor engine knows it. */
    find(name: string) {
      const scope = projectScope(name);
      const ofConfig = configured.get(scope);
      const spelling = ofConfig ?? named.get(scope)?.spelling;
      return spelling === undefined ? undefined : { spelling, configured: ofConfig !== undefined };
    },
  };
}
