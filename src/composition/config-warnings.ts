/** What an operator should know of a configuration that is not wrong. */

import type { Config } from '../config/config.ts';

/** So many engines are named. */
const MAX_NAMED = 5;

/** One sentence each, for the log and for `check`. */
export function configWarnings(config: Config): readonly string[] {
  return [...lonelyStorage(config), ...halfRepeats(config), ...fewPlaces(config)];
}

function lonelyStorage({ storage, cache }: Config): readonly string[] {
  if (storage.driver !== 'sqlite' || cache.redis.url.length === 0) return [];
  return [
    'storage.driver: sqlite is a file of this gateway alone, while cache.redis.url says that there may be others; with more than one, each has roles and datasets of its own',
  ];
}

/** A repeated purge has no caller whose login an engine could get. */
function halfRepeats({ cache, engine, projects }: Config): readonly string[] {
  if (cache.purge.repeat_after === 0) return [];
  const engines = [
    ['engine', engine] as const,
    ...[...projects].map(([name, own]) => [`projects.${name}.engine`, own.engine] as const),
  ];
  const uncalled = engines.filter(
    ([, { clear, login }]) => clear !== 'none' && login === 'forward',
  );
  if (uncalled.length === 0) return [];
  const names = uncalled.slice(0, MAX_NAMED).map(([key]) => key);
  const more = uncalled.length > MAX_NAMED ? ` and ${uncalled.length - MAX_NAMED} more` : '';
  return [
    `cache.purge.repeat_after: a repeated purge drops the entries of the gateway, but does not have an engine with login: forward clear its cache, since nobody's login is there (${names.join(', ')}${more}); login: service would`,
  ];
}

/** Each worker needs one. */
function fewPlaces({ workers, limits }: Config): readonly string[] {
  if (limits.concurrency >= workers) return [];
  return [
    `limits.concurrency: ${limits.concurrency} is less than one place for each of the ${workers} workers; each has one, so that up to ${workers} requests may be at the engine at one time`,
  ];
}
