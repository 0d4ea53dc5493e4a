import type { Config } from '../config/config.ts';

/**
 * The configuration of one of several workers: its part of what counts for all of them together. What one user may
 * have stays, since all his requests may come to one worker.
 * @param workers how many run; a reload does not change that
 */
export function workerShare(config: Config, workers: number): Config {
  const part = (whole: number) => Math.ceil(whole / workers);
  const memory = Math.floor(config.cache.memory / workers);
  const { body, in_flight, concurrency, queue, connections } = config.limits;
  return {
    ...config,
    workers: 1,
    // The bounds hold as the file is checked; only a reload with fewer workers than run can reach them.
    cache: { ...config.cache, memory, max_entry: Math.min(config.cache.max_entry, memory) },
    limits: {
      ...config.limits,
      concurrency: part(concurrency),
      queue: part(queue),
      connections: part(connections),
      in_flight: Math.max(body, part(in_flight)),
    },
  };
}
