import type { CacheShare, Config, ProjectConfig } from '../config/config.ts';
import { foldObjectName } from '../common/fold-case.ts';
import type { NamedCubes } from '../xmla/request/named-objects.ts';
import { projectScope } from './purge/scopes.ts';

export interface QueryPolicy {
  readonly cache: 'on' | 'off';
  /** Milliseconds. */
  readonly ttl: number;
  readonly share: CacheShare;
}

/** Users who share by roles are fewer than everyone. */
const STRICTEST_FIRST = ['user', 'roles', 'everyone'] as const;

/** A policy and the cubes whose data is not cached under it, folded. */
interface ProjectPolicy extends QueryPolicy {
  readonly uncached: ReadonlySet<string>;
}

/**
 * What the configuration says of a query that names these projects: the strictest of all that is said of any
 * of them. Where it may answer for projects that it does not name, and where no configured project is named,
 * the general section counts too. Project names are compared as purges do; of configured ones that count as the same
 * all are named.
 *
 * The cache is off too where the answer may hold data of a cube that is off in any of these projects; a query
 * that leaves open which cubes it reads may hold data of all of them. A cube that is on in a project whose
 * cache is off stays off: the name of a cube switches caching off, never on.
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

  return (projects, spans, cubes) => {
    const policies = projects.map((name) => byScope.get(projectScope(name)) ?? general);
    const [first = general] = policies;
    const isOne = policies.every((other) => other === first);
    const { uncached, ...policy } = spans ? spanning : isOne ? first : strictest(policies);
    return mayRead(cubes, uncached) ? { ...policy, cache: 'off' } : policy;
  };
}

function policyOf({ cache, ttl, share, cubes }: ProjectConfig): ProjectPolicy {
  const off = [...cubes].filter(([, switched]) => switched === 'off').map(([name]) => name);
  return { cache, ttl, share, uncached: new Set(off.map(foldObjectName)) };
}

function mayRead({ cubes, certain }: NamedCubes, uncached: ReadonlySet<string>): boolean {
  if (uncached.size === 0) return false;
  return !certain || cubes.some((cube) => uncached.has(foldObjectName(cube)));
}

function strictest(policies: readonly ProjectPolicy[]): ProjectPolicy {
  const shares = new Set(policies.map(({ share }) => share));
  return {
    cache: policies.some(({ cache }) => cache === 'off') ? 'off' : 'on',
    ttl: Math.min(...policies.map(({ ttl }) => ttl)),
    share: STRICTEST_FIRST.find((share) => shares.has(share)) ?? 'user',
    uncached: new Set(policies.flatMap(({ uncached }) => [...uncached])),
  };
}
