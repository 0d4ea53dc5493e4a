import type { Socket } from 'node:net';
import { createBodies } from './compose/bodies.ts';
import { createInvalidation } from './compose/invalidation.ts';
import { cacheLimits } from './compose/cache-backend.ts';
import { createCache, type Cache } from './compose/cache.ts';
import { configWarnings } from './compose/config-warnings.ts';
import type { Parts } from './compose/parts.ts';
import { createPurgeRepeats } from './compose/purge-repeats.ts';
import { createRuntime, type Runtime } from './compose/runtime.ts';
import { createGatewayServer } from './compose/server.ts';
import { openStorage } from './compose/storage.ts';
import type { Config } from './config/config.ts';
import { whatWaits } from './config/describe-config.ts';
import type { Emit, GatewayEvent } from './common/events.ts';
import { createMetrics } from './observability/metrics.ts';
import { createKnownNames } from './cache/projects.ts';
import type { EngineClearing, Purges } from './cache/purge/purge.ts';
import type { Storage } from './storage/storage.ts';
import { metricsOfAll } from './workers/metrics.ts';

export interface Gateway {
  /** Begins to listen. Resolves to the base URL. */
  listen(): Promise<string>;
  /** Serves connections that another process accepts, in place of its own. @returns takes one, not read from yet */
  accept(): (connection: Socket) => void;
  /**
   * Goes over to another configuration; requests under way end under the old one. When this rejects, nothing
   * has changed. Keys that wait for a restart stay as they were at the start.
   */
  reload(config: Config): Promise<void>;
  /**
   * Takes no new connections, finishes what is under way, closes everything.
   * @param deadline milliseconds after which what is still under way is broken off
   */
  close(deadline: number): Promise<void>;
}

/**
 * The composition root: builds the whole gateway from its configuration.
 * @param listener is told of every event, beside the metrics
 */
export async function createGateway(
  initial: Config,
  given: Omit<Parts, 'emit'>,
  listener: Emit,
): Promise<Gateway> {
  const count: Emit = (event) => metrics.on(event);
  const emit: Emit = (event) => {
    tell(event, count, listener);
    tell(event, listener, count);
  };
  const parts: Parts = { ...given, emit };
  const names = createKnownNames(parts);
  names.configure(initial);
  const ownMetrics = createMetrics(
    names,
    {
      memory: () => cache.memoryUsage(),
      flights: () => cache.flightUsage(),
      engine: () => runtime.engines.usage(),
      bodies: () => bodies.account.usage(),
      connections: () => server.connections(),
      epochAge: () => cache.epochAge(),
      owedPurges: () => cache.owed().length,
    },
    parts.clock,
  );
  const { primary } = parts;
  const metrics = primary === undefined ? ownMetrics : metricsOfAll(primary, ownMetrics);

  /** Those of the runtime in use now. */
  const engineClearing: EngineClearing = {
    clear: (...order) => runtime.clearEngines(...order),
    asksAsCaller: () => clearsAsCaller(current),
  };
  const purges: Purges = {
    async purge(...order) {
      for (;;) {
        const before = runtime;
        const outcome = await cache.purges.purge(...order);
        // A reload brought other engines, which must be told as well.
        if (runtime === before) return outcome;
      }
    },
    renew: (stale) => cache.purges.renew(stale),
  };
  const repeats = createPurgeRepeats({
    purge: purges.purge,
    pause: () => current.cache.purge.repeat_after,
    emit,
  });
  const invalidation = createInvalidation(purges);
  const { invalidate } = invalidation;

  const buildRuntime = (config: Config) =>
    createRuntime(config, {
      cache,
      storage,
      purge: repeats.purge,
      invalidate,
      metrics,
      names,
      bodies,
      parts,
    });

  let current = initial;
  const bodies = createBodies(() => current.limits);
  const limits = () => cacheLimits(current);
  const cache = await createCache(initial.cache, limits, parts, bodies, engineClearing);
  let storage: Storage | undefined;
  let runtime: Runtime;
  try {
    if (initial.storage.driver !== 'http') {
      storage = await openStorage(initial.storage, initial.auth.admins, parts);
    }
    runtime = await buildRuntime(initial);
  } catch (error) {
    await storage?.close();
    await cache.close();
    throw error;
  }
  warnOf(initial, parts);
  const server = createGatewayServer(initial, {
    handler: (request, response) => runtime.handle(request, response),
    ...parts,
  });
  /** Settles when a shutdown waits no longer. */
  const expired = Promise.withResolvers<void>();
  /** What reloads replaced and is not closed yet. */
  const retiring = new Map<Runtime, Promise<void>>();

  /** Closes what a reload replaced, when the last request that uses it is over. */
  function retire(old: Runtime): void {
    const retired = old
      .idle()
      .then(() => old.close())
      .finally(() => retiring.delete(old));
    retiring.set(old, retired);
  }

  async function changeTo(next: Config): Promise<void> {
    const { config, waiting } = whatWaits(current, next);
    const newRuntime = await buildRuntime(config);
    try {
      server.change(config);
      cache.renewCertificates();
      storage?.renewCertificates();
    } catch (error) {
      await newRuntime.close();
      throw error;
    }
    // Of several workers the primary process names them, once.
    if (waiting.length > 0 && parts.primary === undefined) {
      emit({ type: 'warning', message: `these keys change by a restart: ${waiting.join(', ')}` });
    }
    warnOf(config, parts);
    const oldRuntime = runtime;
    [current, runtime] = [config, newRuntime];
    names.configure(config);
    retire(oldRuntime);
  }

  /** One at a time: each builds on what the one before left. */
  let lastReload: Promise<unknown> = Promise.resolve();
  let closing = false;

  return {
    listen: server.listen,
    accept: server.accept,
    reload(config) {
      if (closing) return Promise.reject(new Error('the gateway is shutting down'));
      const reloaded = lastReload.then(() => changeTo(config));
      lastReload = reloaded.catch(() => {});
      return reloaded;
    },
    async close(deadline) {
      closing = true;
      setTimeout(expired.resolve, deadline).unref();
      void expired.promise.then(server.breakOff);
      await lastReload;
      await server.close();
      await Promise.race([Promise.all([runtime.idle(), ...retiring.values()]), expired.promise]);
      // What is still under way breaks off now, so that the old ones come to their end as well.
      await Promise.all([runtime, ...retiring.keys()].map((one) => one.close()));
      await Promise.all(retiring.values());
      await Promise.race([cache.purges.told(), expired.promise]);
      warnOfLostPurges(cache, emit);
      await storage?.close();
      invalidation.close();
      repeats.close();
      await cache.close();
    },
  };
}

/** A fault of one subscriber must end neither a request nor the process. The other one hears of it, if it can. */
function tell(event: GatewayEvent, subscriber: Emit, other: Emit): void {
  try {
    subscriber(event);
  } catch (error) {
    try {
      other({ type: 'warning', message: `the event ${event.type} could not be told`, error });
    } catch {}
  }
}

/** Whether some engine clears its own cache only for whom it lets in. */
function clearsAsCaller({ engine, projects }: Config): boolean {
  const engines = [engine, ...[...projects.values()].map((project) => project.engine)];
  return engines.some(({ clear, login }) => clear !== 'none' && login === 'forward');
}

function warnOfLostPurges(cache: Cache, emit: Emit): void {
  const scopes = cache.owed().join(', ');
  if (scopes === '') return;
  emit({ type: 'warning', message: `purges that Redis did not confirm are lost: ${scopes}` });
}

/** Of several workers the primary process does, once. */
function warnOf(config: Config, { primary, emit }: Parts): void {
  if (primary !== undefined) return;
  for (const message of configWarnings(config)) emit({ type: 'warning', message });
}
