import type { Config } from '../settings/setting.ts';
import type { Judge } from '../line/ports.ts';
import { compare } from './compare/compare.ts';
import type { Core, Feature, HourCounts, RuntimeCore } from './feature.ts';
import { operatorConsole } from './console/console.ts';
import { cors } from './cors/cors.ts';
import { hooks } from './hooks/hooks.ts';
import { statistics } from './statistics/statistics.ts';
import { asWhom } from './warm/as-whom.ts';
import { warm } from './warm/warm.ts';
import { checkWatch } from './watch/sources.ts';
import { watch } from './watch/watch.ts';

const FEATURES = [warm, watch, hooks, compare, cors];

export type Features = ReturnType<typeof createFeatures>;

export function createFeatures(given: Omit<Core, 'judges'>) {
  const judges = new Set<Judge>();
  const core = { ...given, judges };
  const { feature, shared, lastHour } = statistics(core);
  async function findings(hour: HourCounts) {
    const found = all.map(async ({ findings }) => (await findings?.(hour)) ?? []);
    return (await Promise.all(found)).flat();
  }
  const all: readonly Feature[] = [
    operatorConsole(core, shared, findings),
    feature,
    ...FEATURES.map((create) => create(core)),
  ];
  return {
    on: () => all.flatMap(({ on }) => on?.() ?? []),
    judges,
    pageOrigins: (config: Config, headers: readonly string[]) =>
      all.map((one) => one.pageOrigins?.(config, headers)).find((one) => one !== undefined),
    seen: (config: Config) => all.flatMap(({ seen }) => seen?.(config) ?? []),
    gauges: all.flatMap(({ gauges }) => gauges ?? []),
    pages: (runtime: Omit<RuntimeCore, 'lastHour'>) =>
      Promise.all(all.map(async ({ pages }) => (await pages?.({ ...runtime, lastHour })) ?? {})),
    configure(config: Config): void {
      for (const { configure } of all) configure?.(config);
    },
    async close(): Promise<void> {
      await Promise.all(all.map(({ close }) => close?.()));
    },
  };
}

/** Says in lines for people what features would do by a configuration. */
export const featureNotes = (config: Config) => [`warm-up: ${asWhom(config).text}`];

/** Tries what features depend on, for `check --connect`. Never rejects. */
export const tryFeatures = checkWatch;
