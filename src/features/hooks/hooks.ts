import { finding } from '../../common/finding.ts';
import { listOf } from '../../common/list-of.ts';
import { createOnce } from '../../freshness/fleet.ts';
import type { Config } from '../../settings/setting.ts';
import type { Core, Feature, HourCounts, RuntimeCore } from '../feature.ts';
import { hookFigures } from './events.ts';
import { createHookRoute, MESSAGE_LIFE_MS } from './route.ts';

/** Purges searched for the latest of a hook: as many as the log remembers. */
const ALL_PURGES = 1_000;

/** Purges projects when jobs and loads tell that data changed. */
export function hooks(core: Core): Feature {
  const taken = createOnce(core.fleet, core.clock, MESSAGE_LIFE_MS);
  let names: Iterable<string> = [];
  return {
    gauges: hookFigures(() => names),
    configure: (config) => void (names = [...config.hooks.keys()]),
    async pages(runtime) {
      const { hooks } = runtime.config;
      const { page } = await import('../../http/admin-page.ts');
      const told = page({}, async () => ({ hooks: await tellHooks(runtime) }), true);
      return {
        routes: [['/hooks', createHookRoute({ ...core, ...runtime, hooks, taken })]],
        admin: { '/admin/watches': told },
      };
    },
    findings: async (hour) => refusedFinding(hour),
  };
}

type Known = Pick<RuntimeCore, 'lastHour' | 'purgeLog'> & { config: Pick<Config, 'hooks'> };
export async function tellHooks({ config, lastHour, purgeLog }: Known) {
  const [hour, { purges }] = await Promise.all([lastHour(), purgeLog.latest(ALL_PURGES)]);
  const callsOf = (kind: string, hook: string) =>
    hour(kind).find(({ name }) => name === hook)?.asks ?? 0;
  return [...config.hooks].map(([name, { format, projects }]) => {
    const last = purges.find(({ principal }) => principal === `hook:${name}`);
    return {
      name,
      format,
      projects: [...new Set(projects.values())],
      taken: callsOf('hook', name),
      refused: callsOf('hook-refused', name),
      purged_at: last ? new Date(last.at) : null,
    };
  });
}

export function refusedFinding(hour: HourCounts) {
  const refused = hour('hook-refused').map(({ name, asks }) => `${name} (${asks})`);
  return finding('warning', 'hook-refused', refused.length > 0)`
      Calls of hooks were refused in the last hour: ${listOf(refused)}.
      The secret or the login is wrong, or a message names a project that its hook may not purge. Such a call purges nothing.
      The lines hook-called in the log say why. Correct the sender, or hooks.NAME.`;
}
