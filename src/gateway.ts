import { createKnownNames } from './cache/projects.ts';
import type { EngineClearing, Purges } from './cache/purge/purge.ts';
import { createBodyAccount } from './common/body-account.ts';
import type { Emit } from './common/events.ts';
import { oneAfterTheOther } from './common/in-turn.ts';
import { createCache } from './compose/cache.ts';
import { configWarnings, endOfCertificate } from './compose/config-warnings.ts';
import { createHub, createIds, type Parts } from './compose/parts.ts';
import { createPurging } from './compose/purges.ts';
import { createRuntime, type Runtime } from './compose/runtime.ts';
import { openStorage } from './compose/storage.ts';
import type { Config } from './config/config.ts';
import { describeConfig, whatWaits } from './config/describe-config.ts';
import { createFeatures } from './features/all.ts';
import { EVENTS } from './features/events.ts';
import { createGatewayServer } from './http/server.ts';
import { createMetrics } from './observability/metrics.ts';
import {
  createOwnFigures,
  createSharedStatistics,
  type NodeFacts,
  onlyProcess,
} from './statistics/shared-statistics.ts';
import { createStatistics } from './statistics/statistics.ts';
import type { Storage } from './storage/sql-storage.ts';
import { metricsOfAll } from './workers/metrics.ts';
import { atPrimary } from './workers/shared.ts';
import { processesOfAll } from './workers/statistics.ts';

/** How often other gateways are told statistics (ms). */
const SHARED_EVERY = 30_000;
const NO_NODE: NodeFacts = { pid: 0, version: '', memoryUsage: { rss: () => 0 } };

export type Gateway = Awaited<ReturnType<typeof createGateway>>;

/**
 * The composition root: builds the whole gateway from its configuration.
 * @param listener is told of every event, beside the metrics and the statistics
 */
export async function createGateway(
  initial: Config,
  given: Omit<Parts, 'emit'> & { readonly version?: string; readonly node?: NodeFacts },
  listener: Emit,
) {
  const { clock, primary, version = '', node = NO_NODE } = given;
  const names = createKnownNames(given);
  const hub = createHub();
  const { emit } = hub;
  const parts: Parts = { ...given, emit };

  let current = initial;
  let storageUp: boolean | undefined;
  let reloaded = true;
  /** Keys that wait for a restart. */
  let waiting: readonly string[] = [];
  let certificateEnd: number | undefined;
  const account = createBodyAccount(() => current.limits, clock);
  const clearing: EngineClearing = {
    clear: (...order) => runtime.clearEngines(...order),
    asksAsCaller: () => runtime.engines.clearAsCaller,
  };
  const cache = await createCache(initial, parts, account, clearing, names);
  const newId = createIds(given);
  const id = newId();
  const purges: Purges = {
    async purge(...order) {
      for (;;) {
        const before = runtime;
        const outcome = await cache.purges.purge(...order);
        // A reload brought other engines, which must be told as well.
        if (runtime === before) return outcome;
      }
    },
    renew: cache.purges.renew,
  };
  const purging = createPurging(purges, () => current.cache.purge.repeat_after, clock, emit);
  const { purge, invalidate } = purging;
  const features = createFeatures({
    ...parts,
    id,
    newId,
    purge,
    fleet: cache.fleet,
    memory: cache.memory,
    line: () => runtime.steps,
  });
  const gauges = {
    memory: () => cache.memory.usage(),
    evictions: () => cache.memory.evictions(),
    limits: () => ({ ...current.limits, memory: current.cache.memory }),
    flights: () => cache.flights.usage(),
    engine: () => runtime.engines.usage(),
    logins: () => runtime.loginsWaiting(),
    bodies: () => account.usage(),
    connections: () => server.connections(),
    epochAge: () => cache.epochAge(),
    owedPurges: () => cache.owed().length,
    redisConditions: () => cache.redis().conditions,
    droppedHeaders: () => runtime.droppedHeaders(),
    timedOut: () => cache.queryCache.timedOut(),
    ofFeatures: features.gauges,
    states: {
      // Of several workers the primary process knows these.
      engines: () => (primary === undefined ? runtime.engineStates.follow() : []),
      ...(primary === undefined && { reloaded: () => reloaded }),
      redisUp: () => {
        const { state } = cache.redis();
        return state === 'off' ? undefined : state === 'up';
      },
      // As it was at the reading before: a storage that hangs must not keep the metrics.
      storageUp: async () => {
        void storage?.reachable().then((up) => (storageUp = up));
        return storageUp;
      },
    },
    certificateEnd: () => certificateEnd,
    version,
  };
  const ownMetrics = createMetrics(EVENTS, names, gauges, clock);
  const metrics = primary === undefined ? ownMetrics : metricsOfAll(primary, ownMetrics);
  const ownStatistics = createStatistics({ ...given, rows: EVENTS, names });
  hub.tellTo([metrics.on, ownStatistics.on, ...features.on, listener]);
  const figures = createOwnFigures(ownStatistics, {
    entries: cache.memory.list,
    readings: { ...gauges, node, owed: () => cache.owed() },
    started: clock.wall(),
    clock,
  });
  const statistics = createSharedStatistics({
    id,
    processes: primary ? processesOfAll(primary, figures) : onlyProcess(figures, id),
    own: figures,
    store: cache.reports,
    onError: (error) => emit({ type: 'redis-failed', operation: 'reports', error }),
  });
  // Of several workers each has a part of what the file allows.
  const inForce = atPrimary(primary, 'inForce', async () => ({ waiting, reloaded, workers: 1 }));
  const configuration = atPrimary(primary, 'configuration', async () => describeConfig(current));
  const about = { version, node, certificateEnd: () => certificateEnd, inForce, configuration };
  const kept = { cache, names, account, parts, metrics, statistics };
  const buildRuntime = (config: Config, before?: Runtime) => {
    const known = before?.engineStates.known() ?? [];
    const logins = before?.logins;
    const built = { storage, purge, invalidate, features, about };
    return createRuntime(config, { ...kept, ...built, isServing: () => !closing, known, logins });
  };

  await using failing = new AsyncDisposableStack();
  failing.defer(cache.close);
  let storage: Storage | undefined;
  failing.defer(async () => storage?.close());
  if (initial.storage.driver !== 'http') {
    storage = await openStorage(initial.storage, initial.auth.admins, parts);
  }
  let runtime = await buildRuntime(initial);
  goBy(initial);
  const beats = [clock.every(SHARED_EVERY, () => void statistics.share())];
  const server = createGatewayServer(initial, runtime.handle, parts);
  failing.move();
  /** Settles when a shutdown waits no longer. */
  const expired = Promise.withResolvers<void>();
  /** The one in force, and what reloads replaced and is not closed yet. */
  const runtimes = new Set([runtime]);
  /** One at a time: each builds on what the one before left. */
  const inTurn = oneAfterTheOther();
  let closing = false;

  /** Hands a configuration to all that outlives a reload. @param keys that wait for a restart */
  function goBy(config: Config, keys: readonly string[] = []): void {
    [current, waiting] = [config, keys];
    certificateEnd = endOfCertificate(config.listen);
    cache.configure(config);
    names.configure(config);
    features.configure(config);
    ownStatistics.configure(config.statistics);
    // Of several workers the primary process warns, once.
    if (primary !== undefined) return;
    for (const message of configWarnings(config, clock.wall(), keys)) {
      emit({ type: 'warning', message });
    }
  }

  async function changeTo(next: Config): Promise<void> {
    const { config, waiting: keys } = whatWaits(current, next);
    const old = runtime;
    const renewed = await buildRuntime(config, old);
    try {
      cache.renewCertificates();
      storage?.renewCertificates();
      server.change(config, renewed.handle);
    } catch (error) {
      await renewed.close();
      throw error;
    }
    runtime = renewed;
    goBy(config, keys);
    runtimes.add(renewed);
    // Closed when the last request that uses it is over.
    void old
      .idle()
      .then(old.close)
      .finally(() => runtimes.delete(old));
  }

  return {
    /** Begins to listen. Resolves to the base URL. */
    listen: server.listen,
    /** Asks each replica of the engines, so that the log says whether it answers as XMLA. Never rejects. */
    askEngines: () => runtime.engineStates.states(),
    /** Serves connections that another process accepts, in place of its own. @returns takes one, not read from yet */
    accept: server.accept,
    /**
     * Goes over to another configuration; requests under way end under the old one. When this rejects, nothing
     * has changed. Keys that wait for a restart stay as they were at the start.
     */
    reload(config: Config): Promise<void> {
      if (closing) return Promise.reject(new Error('the gateway is shutting down'));
      return inTurn(() => changeTo(config));
    },
    /** Told how each reload ended, for the metrics: also of one whose file could not be read. */
    reloaded: (well: boolean) => void (reloaded = well),
    /**
     * Takes no new connections, finishes what is under way, closes everything.
     * @param deadline milliseconds after which what is still under way is broken off
     */
    async close(deadline: number): Promise<void> {
      closing = true;
      clock.after(deadline, expired.resolve);
      void expired.promise.then(server.breakOff);
      // A reload under way ends first.
      await inTurn(() => {});
      const background = features.close();
      await server.close();
      const all = [...runtimes];
      await Promise.race([Promise.all(all.map((one) => one.idle())), expired.promise]);
      // What is still under way breaks off now.
      await Promise.all(all.map((one) => one.close()));
      await Promise.race([background.then(cache.purges.told), expired.promise]);
      const lost = cache.owed().join(', ');
      if (lost !== '') {
        emit({ type: 'warning', message: `purges that Redis did not confirm are lost: ${lost}` });
      }
      await storage?.close();
      purging.close();
      beats.forEach((stop) => stop());
      await cache.close();
    },
  };
}
