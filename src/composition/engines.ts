import type { Config, EngineConfig } from '../config/config.ts';
import { createAdmission } from '../engine/admission.ts';
import type { Engine } from '../engine/engine.ts';
import { createHttpEngine } from '../engine/http-engine.ts';
import { projectScope } from '../query-cache/scopes.ts';
import type { EngineOf } from '../xmla-handler.ts';
import type { Parts } from './parts.ts';

export interface Engines {
  readonly engineOf: EngineOf;
  /** Every engine once, with the URL that the configuration gives it. */
  readonly all: readonly { readonly url: string; readonly engine: Engine }[];
  readonly usage: () => { readonly atEngine: number; readonly waiting: number };
  close(): void;
}

/** One engine for each distinct set of engine settings; projects that share the settings share it. */
export function createEngines(config: Config, parts: Parts): Engines {
  const admission = createAdmission(config.limits);
  const bySettings = new Map<string, { url: string; kind: EngineConfig['kind']; engine: Engine }>();

  function engineFor(settings: EngineConfig) {
    const name = JSON.stringify(settings);
    const known = bySettings.get(name);
    if (known !== undefined) return known;
    const { clock, emit } = parts;
    const engine = createHttpEngine({ config: settings, admission, clock, emit });
    const made = { url: settings.url, kind: settings.kind, engine };
    bySettings.set(name, made);
    return made;
  }

  const general = engineFor(config.engine);
  const byProject = new Map(
    [...config.projects].map(([name, { engine }]) => [projectScope(name), engineFor(engine)]),
  );
  return {
    engineOf: (project) =>
      (project === undefined ? undefined : byProject.get(projectScope(project))) ?? general,
    all: [...bySettings.values()],
    usage: admission.usage,
    close() {
      for (const { engine } of bySettings.values()) engine.close();
    },
  };
}
