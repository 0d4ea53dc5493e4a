import { isDeepStrictEqual } from 'node:util';
import { cacheSettings, createCache, type Cache } from './composition/cache.ts';
import type { Parts } from './composition/parts.ts';
import { createRuntime, type Runtime } from './composition/runtime.ts';
import { createGatewayServer } from './composition/server.ts';
import type { Config } from './config/config.ts';
import type { Emit, GatewayEvent } from './events.ts';
import { createMetrics } from './observability/metrics.ts';
import type { Purge } from './query-cache/purge.ts';

export interface Gateway {
  /** Begins to listen. Resolves to the base URL. */
  listen(): Promise<string>;
  /**
   * Goes over to another configuration; requests under way end under the old one. When this rejects, nothing
   * has changed. Host, port and the choice of HTTPS stay as they were at the start.
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
  const emit = (event: GatewayEvent) => {
    metrics.on(event);
    listener(event);
  };
  const parts: Parts = { ...given, emit };
  const metrics = createMetrics({
    memory: () => cache.memoryUsage(),
    flights: () => cache.flightUsage(),
    engine: () => runtime.engines.usage(),
    epochAge: () => cache.epochAge(),
    owedPurges: () => cache.owed().length,
  });

  /** Of the cache in use now, also for a purge that was still logging in when a reload replaced another. */
  const purge: Purge = (project, principal) => cache.purge(project, principal);

  let settings = cacheSettings(initial);
  let cache = await createCache(settings, parts);
  let runtime = await createRuntime(initial, cache, purge, metrics, parts).catch(
    async (error: unknown) => {
      await cache.close();
      throw error;
    },
  );
  const server = createGatewayServer(initial.listen, (request, response) =>
    runtime.handle(request, response),
  );
  /** What reloads replaced and is not closed yet. */
  const retiring = new Map<Runtime, Promise<void>>();

  /** Closes what a reload replaced, when the last request that uses it is over. */
  function retire(oldRuntime: Runtime, oldCache: Cache | undefined): void {
    const retired = (async () => {
      await oldRuntime.idle();
      await oldRuntime.close();
      // A purge that failed after the reload is owed as well as one that failed before.
      cache.owe(oldCache?.owed() ?? []);
      await oldCache?.close();
    })().finally(() => retiring.delete(oldRuntime));
    retiring.set(oldRuntime, retired);
  }

  async function changeTo(config: Config): Promise<void> {
    const newSettings = cacheSettings(config);
    const sameCache = isDeepStrictEqual(newSettings, settings);
    const newCache = sameCache ? cache : await createCache(newSettings, parts);
    let newRuntime: Runtime | undefined;
    try {
      newRuntime = await createRuntime(config, newCache, purge, metrics, parts);
      server.renewCertificate(config.listen);
    } catch (error) {
      await newRuntime?.close();
      if (!sameCache) await newCache.close();
      throw error;
    }
    const asked = unchangeable(config);
    for (const [key, value] of Object.entries(unchangeable(initial))) {
      if (asked[key] === value) continue;
      emit({ type: 'warning', message: `a change of ${key} counts after a restart only` });
    }
    const [oldRuntime, oldCache] = [runtime, sameCache ? undefined : cache];
    if (oldCache !== undefined) newCache.owe(oldCache.owed());
    [settings, cache, runtime] = [newSettings, newCache, newRuntime];
    retire(oldRuntime, oldCache);
  }

  /** One at a time: each builds on what the one before left. */
  let lastReload: Promise<unknown> = Promise.resolve();
  let closing = false;

  return {
    listen: server.listen,
    reload(config) {
      if (closing) return Promise.reject(new Error('the gateway is shutting down'));
      const reloaded = lastReload.then(() => changeTo(config));
      lastReload = reloaded.catch(() => {});
      return reloaded;
    },
    async close(deadline) {
      closing = true;
      const expired = new Promise((resolve) => setTimeout(resolve, deadline).unref());
      void expired.then(server.breakOff);
      await lastReload;
      await server.close();
      await Promise.race([Promise.all([runtime.idle(), ...retiring.values()]), expired]);
      // What is still under way breaks off now, so that the old ones come to their end as well.
      await Promise.all([runtime, ...retiring.keys()].map((one) => one.close()));
      await Promise.all(retiring.values());
      if (cache.owed().length > 0) {
        const scopes = cache.owed().join(', ');
        emit({ type: 'warning', message: `purges that Redis did not confirm are lost: ${scopes}` });
      }
      await cache.close();
    },
  };
}

/** What only a restart can change. */
function unchangeable({ listen, log }: Config): Readonly<Record<string, unknown>> {
  const https = listen.certificate !== undefined;
  return { 'listen.host': listen.host, 'listen.port': listen.port, https, 'log.level': log.level };
}
