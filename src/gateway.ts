import { createKnownNames } from './cache/projects.ts';
import { createBodyAccount } from './common/body-account.ts';
import type { Emit } from './common/events.ts';
import { createCache } from './compose/cache.ts';
import { configWarnings } from './compose/config-warnings.ts';
import {
  aboutInForce,
  acrossReloads,
  clearingOf,
  createInForce,
  createReadings,
} from './compose/in-force.ts';
import { createHub, createIds, type Parts } from './compose/parts.ts';
import { createPurging } from './compose/purges.ts';
import { createReloads } from './compose/reloads.ts';
import { createRuntime } from './compose/runtime.ts';
import { openStorage } from './compose/storage.ts';
import type { Config } from './config/config.ts';
import { createFeatures } from './features/all.ts';
import type { NodeFacts } from './features/feature.ts';
import { EVENTS } from './features/events.ts';
import { createGatewayServer } from './http/server.ts';
import { createMetrics } from './observability/metrics.ts';
import { metricsOfAll } from './workers/metrics.ts';

const NO_NODE: NodeFacts = { pid: 0, version: '', memoryUsage: { rss: () => 0 } };

export type Gateway = Awaited<ReturnType<typeof createGateway>>;

/** Builds the whole gateway (composition root). @param listener hears every event */
export async function createGateway(
  initial: Config,
  given: Omit<Parts, 'emit'> & { readonly version?: string; readonly node?: NodeFacts },
  listener: Emit,
) {
  const { clock, primary, version = '', node = NO_NODE } = given;
  const hub = createHub(listener);
  const { emit } = hub;
  const parts: Parts = { ...given, emit };
  const newId = createIds(given);
  const id = newId();
  const inForce = createInForce(initial);

  // What outlives a reload, from the ground up.
  await using failing = new AsyncDisposableStack();
  const names = createKnownNames(given);
  const account = createBodyAccount(() => inForce.config.limits, clock);
  const cache = await createCache(initial, parts, account, clearingOf(inForce), names);
  failing.defer(cache.close);
  const storage = await openStorage(initial, parts);
  failing.defer(async () => storage?.close());
  const server = createGatewayServer(initial, parts);
  const repeatAfter = () => inForce.config.cache.purge.repeat_after;
  const purging = createPurging(acrossReloads(cache.purges, inForce), repeatAfter, clock, emit);
  const { purge, invalidate } = purging;
  const readings = createReadings({ cache, account, inForce, server, storage, primary });
  const features = createFeatures({
    ...parts,
    id,
    newId,
    purge,
    names,
    fleet: cache.fleet,
    memory: cache.memory,
    line: () => inForce.runtime.steps,
    readings: { ...readings, node },
    reports: cache.reports,
    about: { version, node, ...aboutInForce(inForce, parts) },
    events: EVENTS,
    metrics: () => metrics,
  });
  failing.defer(features.close);
  const gauges = { ...readings, ofFeatures: features.gauges, version };
  const ownMetrics = createMetrics(EVENTS, names, gauges, clock);
  const metrics = primary === undefined ? ownMetrics : metricsOfAll(primary, ownMetrics);
  const lasting = { cache, names, account, parts, storage, purge, invalidate, features, metrics };

  // What each configuration builds anew.
  const reloads = createReloads(inForce, {
    build: (config, before) =>
      createRuntime(config, { ...lasting, isServing: reloads.isServing, before }),
    renew(config) {
      cache.renewCertificates();
      storage?.renewCertificates();
      server.change(config);
    },
    configure(config, waiting) {
      for (const one of [cache, names, features]) one.configure(config);
      hub.tellTo([metrics.on, ...features.on()]);
      server.answerBy(inForce.runtime.handle);
      // Of several workers the primary process warns, once.
      if (primary !== undefined) return;
      const warnings = configWarnings(config, clock.wall(), waiting);
      for (const message of warnings) emit({ type: 'warning', message });
    },
  });
  await reloads.begin(initial);
  failing.move();

  return {
    listen: server.listen,
    /** Serves connections that another process accepts. @returns takes one not read from yet */
    accept: server.accept,
    /** Asks each replica of the engines, so that the log says whether it answers. Never rejects. */
    askEngines: () => inForce.runtime.engineStates.states(),
    /**
     * Goes over to another configuration; requests under way end under the old one. Nothing has
     * changed where it rejects. Keys that wait for a restart stay as they were at the start.
     */
    reload: reloads.reload,
    /** Notes how a reload ended, for the metrics; also of one whose file could not be read. */
    reloaded: (well: boolean) => void (inForce.reloaded = well),
    /** Takes no new connections. Finishes what is under way, and breaks it off at the deadline. */
    async close(deadlineMs: number): Promise<void> {
      const expired = Promise.withResolvers<void>();
      clock.after(deadlineMs, expired.resolve);
      void expired.promise.then(server.breakOff);
      await reloads.stop();
      const background = features.close();
      await server.close();
      await reloads.close(expired.promise);
      await Promise.race([background.then(cache.purges.told), expired.promise]);
      await storage?.close();
      purging.close();
      await cache.close();
    },
  };
}
