import { clearsAsCaller } from '../../common/engine-kinds.ts';
import { listOf } from '../../common/list-of.ts';
import type { ConfigWarnings } from '../feature.ts';

export const hookWarnings: ConfigWarnings = {
  warnings({ hooks, projects, engine }) {
    const engineOf = (project: string) => projects.get(project)?.engine ?? engine;
    // A signed message has no login of a user.
    const without = [...hooks].filter(
      ([, hook]) =>
        hook.format === 'dbt' && hook.projects.values().map(engineOf).some(clearsAsCaller),
    );
    if (without.length === 0) return [];
    const names = listOf(without.map(([name]) => `hooks.${name}`));
    return [
      `${names}: a purge by such a message drops the entries of the gateway, but does not have an engine with login: forward clear its cache, since it has no login of a user; login: service would`,
    ];
  },
  users: ({ hooks }) =>
    [...hooks].flatMap(([hook, { user }]) => (user ? [[user, `hooks.${hook}.user`] as const] : [])),
};
