import type { Config, EngineConfig } from '../config/config.ts';
import { createAdmission } from '../engine/admission.ts';
import type { Engine } from '../engine/engine.ts';
import { createHttpEngine } from '../engine/http-engine.ts';
import type { ClearEngines } from '../cache/purge/purge.ts';
import { projectScope } from '../cache/projects.ts';
import type { ChosenEngine, EngineOf } from '../line/query.ts';
import type { Parts } from './parts.ts';

/** What can be reached at this moment. */
export interface EngineStates {
  /** Whether every engine has a replica that accepts connections. */
  readonly ready: boolean;
  /** Every replica once, in the order of the configuration. */
  readonly replicas: readonly { readonly url: string; readonly state: 'up' | 'down' }[];
}

export interface Engines {
  readonly engineOf: EngineOf;
  readonly clear: ClearEngines;
  /** Tries every replica. Never rejects. */
  states(): Promise<EngineStates>;
  readonly usage: () => { readonly atEngine: number; readonly waiting: number };
  close(): void;
}

interface MadeEngine extends ChosenEngine {
  readonly settings: EngineConfig;
}

/** One engine for each distinct set of engine settings; projects that share the settings share it. */
export function createEngines(
  config: Pick<Config, 'engine' | 'projects' | 'limits'>,
  { clock, emit }: Pick<Parts, 'clock' | 'emit'>,
): Engines {
  const admission = createAdmission(config.limits);
  const bySettings = new Map<string, MadeEngine>();

  function engineFor(settings: EngineConfig): MadeEngine {
    const name = JSON.stringify(settings);
    const known = bySettings.get(name);
    if (known !== undefined) return known;
    const made = {
      settings,
      engine: createHttpEngine({ config: settings, admission, clock, emit }),
    };
    bySettings.set(name, made);
    return made;
  }

  const general = engineFor(config.engine);
  const byName = new Map([...config.projects].map(([name, one]) => [name, engineFor(one.engine)]));
  // Names that count as the same may have engines that tell them apart; another spelling belongs to the first of them.
  const byScope = new Map(
    [...byName].toReversed().map(([name, engine]) => [projectScope(name), engine]),
  );
  const engineOf = (project: string | undefined) =>
    project === undefined
      ? general
      : (byName.get(project) ?? byScope.get(projectScope(project)) ?? general);
  return {
    engineOf,
    clear(stale, authorization) {
      const project = stale === 'everything' ? undefined : stale.project;
      const concerned = project === undefined ? [...bySettings.values()] : [engineOf(project)];
      const calls = concerned.flatMap(({ engine }) => engine.clearCalls(project, authorization));
      // Engines that differ in what does not count here have the same replicas: each is called once.
      const distinct = new Map(calls.map((call) => [call.id, call]));
      return Promise.all([...distinct.values()].map((call) => call.make()));
    },
    states: () => statesOf([...bySettings.values()]),
    usage: admission.usage,
    close() {
      for (const { engine } of bySettings.values()) engine.close();
    },
  };
}

/** Engines that differ in their login only have the same replicas: each is tried once. */
async function statesOf(engines: readonly MadeEngine[]): Promise<EngineStates> {
  const byUrl = new Map<string, Engine>();
  for (const { settings, engine } of engines) {
    for (const url of settings.url) if (!byUrl.has(url)) byUrl.set(url, engine);
  }
  const replicas = await Promise.all(
    [...byUrl].map(async ([url, engine]) => ({
      url,
      state: (await engine.reachable(url)) ? ('up' as const) : ('down' as const),
    })),
  );
  const up = new Set(replicas.filter(({ state }) => state === 'up').map(({ url }) => url));
  return {
    ready: engines.every(({ settings }) => settings.url.some((url) => up.has(url))),
    replicas,
  };
}
