import { isDeepStrictEqual } from 'node:util';
import { cacheSettings, createCache } from './composition/cache.ts';
import type { Parts } from './composition/parts.ts';
import { createRuntime } from './composition/runtime.ts';
import { createGatewayServer } from './composition/server.ts';
import type { Config } from './config/config.ts';
import type { Emit, GatewayEvent } from './events.ts';
import { createMetrics } from './observability/metrics.ts';

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
    owedPurges: () => cache.owedPurges(),
  });

  let settings = cacheSettings(initial);
  let cache = await createCache(settings, parts);
  let runtime = await createRuntime(initial, cache, metrics, parts).catch(
    async (error: unknown) => {
      await cache.close();
      throw error;
    },
  );
  const server = createGatewayServer(initial.listen, (request, response) => {
    if (closing) response.setHeader('connection', 'close');
    runtime.handle(request, response);
  });
  let closing = false;
  const retiring = new Set<Promise<void>>();

  function retire(...olds: { close(): Promise<void>; idle?: () => Promise<void> }[]): void {
    const retired = (async () => {
      for (const old of olds) {
        await old.idle?.();
        await old.close();
      }
    })().finally(() => retiring.delete(retired));
    retiring.add(retired);
  }

  return {
    listen: server.listen,
    async reload(config) {
      const newSettings = cacheSettings(config);
      const sameCache = isDeepStrictEqual(newSettings, settings);
      const newCache = sameCache ? cache : await createCache(newSettings, parts);
      try {
        const newRuntime = await createRuntime(config, newCache, metrics, parts);
        server.renewCertificate(config.listen);
        retire(runtime, ...(sameCache ? [] : [cache]));
        [settings, cache, runtime] = [newSettings, newCache, newRuntime];
      } catch (error) {
        if (!sameCache) await newCache.close();
        throw error;
      }
    },
    async close(deadline) {
      closing = true;
      const timer = setTimeout(server.breakOff, deadline);
      await server.close();
      await Promise.race([
        Promise.all([runtime.idle(), ...retiring]),
        new Promise((resolve) => setTimeout(resolve, deadline).unref()),
      ]);
      clearTimeout(timer);
      await runtime.close();
      await cache.close();
    },
  };
}
