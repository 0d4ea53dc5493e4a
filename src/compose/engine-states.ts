import type { ReplicaState } from '../common/events.ts';
import type { Config } from '../config/config.ts';
import { type Away, serverName as keyOf } from '../engine/away.ts';
import { createProbe } from '../engine/probe.ts';
import type { Parts } from './parts.ts';

/** Asks no engine before a state is asked for. @param before states that hold until then */
export function createEngineStates(
  { engine, projects }: Pick<Config, 'engine' | 'projects'>,
  parts: Pick<Parts, 'clock' | 'emit'> & { readonly away?: Away },
  before: readonly ReplicaState[] = [],
) {
  const ofProjects = [...projects].map(([project, own]) => ({ config: own.engine, project }));
  const engines = [{ config: engine, project: undefined }, ...ofProjects];
  const replicas = engines.flatMap((one) => one.config.url.map((url) => ({ ...one, url })));
  const alike = Map.groupBy(replicas, ({ config, url }) => keyOf(config, url));
  const lastOf = new Map(before.map((one) => [one.url, one]));
  const probes = [...alike].flatMap(([key, [first, ...others]]) => {
    if (first === undefined) return [];
    const project = first.project ?? others[0]?.project;
    const last = lastOf.get(first.url);
    return [[key, createProbe({ ...first, ...parts, project, last })] as const];
  });

  /** True once this program asks its engines, as it does at its start. */
  let asks = before.length > 0;
  const known = () => onePerUrl(probes.flatMap(([, probe]) => probe.last() ?? []));

  return {
    /** Asks, or shares what was just found. Never rejects. @param patient waits up to 5 s */
    async states(patient = false) {
      asks = true;
      const answers = probes.map(
        async ([key, probe]) => [key, await probe.state(patient)] as const,
      );
      const byKey = new Map(await Promise.all(answers));
      const isUp = ({ config }: Pick<(typeof engines)[number], 'config'>) =>
        config.url.some((url) => byKey.get(keyOf(config, url))?.state === 'up');
      return { ready: engines.every(isUp), replicas: onePerUrl(byKey.values()) };
    },
    known,
    /** Tells known states, and asks anew, so that the next reading sees changes. */
    follow() {
      if (asks) for (const [, probe] of probes) void probe.state(true);
      return known();
    },
    close(): void {
      for (const [, probe] of probes) probe.close();
    },
  };
}

/** One state for each URL: down where one way of asking finds it down. */
function onePerUrl(states: Iterable<ReplicaState>): readonly ReplicaState[] {
  const byUrl = new Map<string, ReplicaState>();
  for (const one of states) if (byUrl.get(one.url)?.state !== 'down') byUrl.set(one.url, one);
  return [...byUrl.values()];
}
