import { projectScope } from '../cache/projects.ts';
import type { ClearEngines } from '../cache/purge/purge.ts';
import type { Config, EngineConfig } from '../config/config.ts';
import { createAdmission } from '../engine/admission.ts';
import { createHttpEngine, type Engine } from '../engine/http-engine.ts';
import type { EngineOf } from '../line/understand.ts';
import type { Parts } from './parts.ts';

/** One engine for each distinct set of engine settings; projects that share the settings share it. */
export function createEngines(
  { engine, projects, limits }: Pick<Config, 'engine' | 'projects' | 'limits'>,
  parts: Pick<Parts, 'clock' | 'emit'>,
) {
  const admission = createAdmission(limits);
  const bySettings = new Map<string, { settings: EngineConfig; engine: Engine }>();

  function engineFor(settings: EngineConfig) {
    const name = JSON.stringify(settings);
    const made = bySettings.get(name) ?? {
      settings,
      engine: createHttpEngine({ ...parts, config: settings, admission }),
    };
    bySettings.set(name, made);
    return made;
  }

  const general = engineFor(engine);
  const byName = new Map([...projects].map(([name, one]) => [name, engineFor(one.engine)]));
  // Names that count as the same may have engines that tell them apart; another spelling belongs to the first of them.
  const byScope = new Map([...byName].toReversed().map(([name, one]) => [projectScope(name), one]));
  const all = [...bySettings.values()];

  const engineOf: EngineOf = (project) =>
    project === undefined
      ? general
      : (byName.get(project) ?? byScope.get(projectScope(project)) ?? general);

  const clear: ClearEngines = (stale, authorization) => {
    const project = stale === 'everything' ? undefined : stale.project;
    const concerned = project === undefined ? all : [engineOf(project)];
    const calls = concerned.flatMap((one) => one.engine.clearCalls(project, authorization));
    // Engines that differ in what does not count here have the same replicas: each is called once.
    const distinct = new Map(calls.map((call) => [call.id, call]));
    return Promise.all([...distinct.values()].map((call) => call.make()));
  };

  return {
    engineOf,
    clear,
    /** Whether some engine clears its own cache only for whom it lets in. */
    clearAsCaller: all.some(
      ({ settings }) => settings.clear !== 'none' && settings.login === 'forward',
    ),
    /** All that some engine may be sent because its configuration names it. */
    headers: all.flatMap(({ settings }) => settings.headers),
    usage: admission.usage,
    admitBackground: admission.admitBackground,
    close(): void {
      for (const one of all) one.engine.close();
    },
  };
}
