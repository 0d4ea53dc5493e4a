import { projectScope } from '../cache/projects.ts';
import type { ClearEngines } from '../cache/purge/purge.ts';
import { clearsAsCaller } from '../common/engine-kinds.ts';
import type { Config } from '../config/config.ts';
import type { EngineConfig } from '../engine/config.ts';
import { createAdmission } from '../engine/admission.ts';
import type { Away } from '../engine/away.ts';
import { createHttpEngine } from '../engine/http-engine.ts';
import type { EngineOf } from '../line/understand.ts';
import { foldName } from '../xmla/names.ts';
import type { Parts } from './parts.ts';

/** Makes one engine for each distinct set of engine settings; projects may share one. */
export function createEngines(
  { engine, projects, limits, cache }: Pick<Config, 'engine' | 'projects' | 'limits' | 'cache'>,
  parts: Pick<Parts, 'clock' | 'emit'> & { readonly away?: Away },
) {
  const admission = createAdmission(limits);
  const volatile = cache.volatile.map(foldName);
  const bySettings = new Map<string, ReturnType<typeof lazily>>();

  function engineFor(settings: EngineConfig) {
    const name = JSON.stringify(settings);
    const made = bySettings.get(name) ?? lazily(settings);
    bySettings.set(name, made);
    return made;
  }

  /** With thousands of engines, to make them all would hold up a reload. */
  function lazily(settings: EngineConfig) {
    let made: ReturnType<typeof createHttpEngine> | undefined;
    return {
      settings,
      volatile,
      get engine() {
        return (made ??= createHttpEngine({ ...parts, config: settings, admission }));
      },
      close: () => made?.close(),
    };
  }

  const general = engineFor(engine);
  const byName = new Map([...projects].map(([name, one]) => [name, engineFor(one.engine)]));
  // Names that fold alike may have several engines; another spelling gets the first one's.
  const byScope = new Map([...byName].toReversed().map(([name, one]) => [projectScope(name), one]));
  const all = [...bySettings.values()];

  const engineOf: EngineOf = (project) =>
    project === undefined
      ? general
      : (byName.get(project) ?? byScope.get(projectScope(project)) ?? general);
  const patience = (project: string | undefined) =>
    limits.wait ?? engineOf(project).settings.timeout;

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
    /** Longest wait for a place at the engine of a project (ms). */
    patience,
    clear,
    /** True where some engine clears its cache only for users that it lets in. */
    clearAsCaller: all.some(({ settings }) => clearsAsCaller(settings)),
    /** Headers of clients that some configuration names. */
    headers: all.flatMap(({ settings }) => settings.headers),
    usage: admission.usage,
    admitBackground: admission.admitBackground,
    close(): void {
      for (const one of all) one.close();
    },
  };
}
