import type { CacheShare, Config } from '../config/config.ts';
import { projectScope } from './scopes.ts';

export interface QueryPolicy {
  readonly cache: 'on' | 'off';
  /** Milliseconds. */
  readonly ttl: number;
  readonly share: CacheShare;
}

/** Users who share by roles are fewer than everyone. */
const STRICTEST_FIRST = ['user', 'roles', 'everyone'] as const;

/**
 * What the configuration says of a query that names these projects: the strictest of all that is said of any
 * of them. Where it may answer for projects that it does not name, and where no configured project is named,
 * the general section counts too. Project names are compared as purges do.
 */
export function projectPolicy(
  config: Pick<Config, 'cache' | 'projects'>,
): (projects: readonly string[], spans: boolean) => QueryPolicy {
  const byScope = new Map([...config.projects].map(([name, p]) => [projectScope(name), p]));
  const general: QueryPolicy = { cache: 'on', ttl: config.cache.ttl, share: config.cache.share };
  // An answer that spans projects may hold data of one whose cache is off.
  const spanning = strictest([general, ...config.projects.values()]);

  return (projects, spans) => {
    if (spans) return spanning;
    const policies = projects.map((name) => byScope.get(projectScope(name)) ?? general);
    return strictest(policies.length === 0 ? [general] : policies);
  };
}

function strictest(policies: readonly QueryPolicy[]): QueryPolicy {
  const shares = new Set(policies.map(({ share }) => share));
  return {
    cache: policies.some(({ cache }) => cache === 'off') ? 'off' : 'on',
    ttl: Math.min(...policies.map(({ ttl }) => ttl)),
    share: STRICTEST_FIRST.find((share) => shares.has(share)) ?? 'user',
  };
}
