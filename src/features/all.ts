import type { Config } from '../config/config.ts';
import type { Judge } from '../line/ports.ts';
import type { CheckFeature, CheckParts, Core, CreateFeature } from './feature.ts';
import { checkWatch } from './watch/check.ts';
import { watch } from './watch/watch.ts';

const FEATURES: readonly CreateFeature[] = [watch];
const CHECKS: readonly CheckFeature[] = [checkWatch];

export type Features = ReturnType<typeof createFeatures>;

/** Makes all features, and joins them to one. */
export function createFeatures(core: Core) {
  const all = FEATURES.map((create) => create(core));
  return {
    on: all.flatMap(({ on }) => on ?? []),
    judge: joinJudges(all.flatMap(({ judge }) => judge ?? [])),
    gauges: all.flatMap(({ gauges }) => gauges ?? []),
    pages: () => Promise.all(all.map(async ({ pages }) => (await pages?.()) ?? {})),
    async findings() {
      return (
        await Promise.all(all.map(async ({ findings }) => (await findings?.()) ?? []))
      ).flat();
    },
    configure(config: Config): void {
      for (const { configure } of all) configure?.(config);
    },
    async close(): Promise<void> {
      await Promise.all(all.map(({ close }) => close?.()));
    },
  };
}

/** Joins judges to one, which gives the first reason that one of them gives. */
function joinJudges([first, ...others]: readonly Judge[]): Judge {
  if (first === undefined) return () => undefined;
  if (others.length === 0) return first;
  const next = joinJudges(others);
  return (scopes) => first(scopes) ?? next(scopes);
}

/** Tries what features depend on: one line for each. Never rejects. */
export async function tryFeatures(config: Config, parts: CheckParts) {
  return (await Promise.all(CHECKS.map((check) => check(config, parts)))).flat();
}
