/** What an operator should know of a configuration that is not wrong. */

import type { Config } from '../config/config.ts';
import { isLongName, LONGEST_NAME } from '../common/fold-case.ts';

/** So many engines or projects are named, and so much of a long name is told (characters). */
const MAX_NAMED = 5;
const SHOWN = 40;

/**
 * One sentence each, for the log and for `check`.
 * @param waiting keys whose change waits for a restart
 */
export function configWarnings(config: Config, waiting: readonly string[] = []): readonly string[] {
  const { workers, cache, engine, limits, projects, storage, withdrawn } = config;
  const engines = [
    ['engine', engine] as const,
    ...[...projects].map(([name, own]) => [`projects.${name}.engine`, own.engine] as const),
  ];
  // A repeated purge has no caller whose login an engine could get.
  const uncalled = engines
    .filter(([, { clear, login }]) => clear !== 'none' && login === 'forward')
    .map(([key]) => key);
  const long = [...projects.keys()]
    .filter(isLongName)
    .map((name) => `projects.${name.slice(0, SHOWN)}…`);
  return [
    waiting.length > 0 && `these keys change by a restart: ${waiting.join(', ')}`,
    ...withdrawn.map((key) => `${key}: this key was withdrawn and has no effect`),
    storage.driver === 'sqlite' &&
      cache.redis.url.length > 0 &&
      'storage.driver: sqlite is a file of this gateway alone, while cache.redis.url says that there may be others; with more than one, each has roles and datasets of its own',
    cache.purge.repeat_after > 0 &&
      uncalled.length > 0 &&
      `cache.purge.repeat_after: a repeated purge drops the entries of the gateway, but does not have an engine with login: forward clear its cache, since it has no login of a user (${listOf(uncalled)}); login: service would`,
    limits.concurrency < workers &&
      `limits.concurrency: ${limits.concurrency} is less than one place for each of the ${workers} workers; each has one, so that up to ${workers} requests may be at the engine at one time`,
    long.length > 0 &&
      `${listOf(long)}: a name of more than ${LONGEST_NAME} bytes; requests to such a project are refused, and what names one as its catalog is not cached`,
  ].filter((warning) => warning !== false);
}

/** The first of them, and how many more there are. */
export function listOf(names: readonly string[], most = MAX_NAMED): string {
  const more = names.length > most ? ` and ${names.length - most} more` : '';
  return `${names.slice(0, most).join(', ')}${more}`;
}
