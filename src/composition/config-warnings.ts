/** What an operator should know of a configuration that is not wrong. */

import type { Config } from '../config/config.ts';
import { withdrawnKeys } from '../config/describe-config.ts';
import { isLongName, LONGEST_NAME } from '../fold-case.ts';

/** So many engines or projects are named. */
const MAX_NAMED = 5;

/** One sentence each, for the log and for `check`. */
export function configWarnings(config: Config): readonly string[] {
  return [
    ...withdrawnKeys(config).map(
      (key) => `${key} was withdrawn and counts for nothing; leave it out`,
    ),
    ...lonelyStorage(config),
    ...halfRepeats(config),
    ...fewPlaces(config),
    ...longNames(config),
  ];
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
  const names = listOf(uncalled.map(([key]) => key));
  return [
    `cache.purge.repeat_after: a repeated purge drops the entries of the gateway, but does not have an engine with login: forward clear its cache, since nobody's login is there (${names}); login: service would`,
  ];
}

/** So much of a long name is told (characters). */
const SHOWN = 40;

function longNames({ projects }: Config): readonly string[] {
  const long = [...projects.keys()].filter(isLongName);
  if (long.length === 0) return [];
  const names = listOf(long.map((name) => `projects.${name.slice(0, SHOWN)}…`));
  return [
    `${names}: a name of more than ${LONGEST_NAME} bytes; requests to such a project are refused, and what names one as its catalog is not cached`,
  ];
}

function listOf(names: readonly string[]): string {
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
  return `${names.slice(0, MAX_NAMED).join(', ')}${more}`;
}

/** Each worker needs one. */
function fewPlaces({ workers, limits }: Config): readonly string[] {
  if (limits.concurrency >= workers) return [];
  return [
    `limits.concurrency: ${limits.concurrency} is less than one place for each of the ${workers} workers; each has one, so that up to ${workers} requests may be at the engine at one time`,
  ];
}
