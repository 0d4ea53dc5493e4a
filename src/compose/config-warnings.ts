/** What an operator should know of a configuration that is not wrong. */

import type { Config } from '../config/config.ts';
import { isLongName, LONGEST_NAME } from '../common/fold-case.ts';

/** So many engines or projects are named, and so much of a long name is told (characters). */
const MAX_NAMED = 5;
const SHOWN = 40;

/** One sentence each, for the log and for `check`. */
export function configWarnings(config: Config): readonly string[] {
  const { workers, cache, engine, limits, projects, storage, withdrawn } = config;
  const warnings = withdrawn.map((key) => `${key}: this key was withdrawn and has no effect`);
  if (storage.driver === 'sqlite' && cache.redis.url.length > 0) {
    warnings.push(
      'storage.driver: sqlite is a file of this gateway alone, while cache.redis.url says that there may be others; with more than one, each has roles and datasets of its own',
    );
  }
  // A repeated purge has no caller whose login an engine could get.
  const engines = [
    ['engine', engine] as const,
    ...[...projects].map(([name, own]) => [`projects.${name}.engine`, own.engine] as const),
  ];
  const uncalled = engines.filter(
    ([, { clear, login }]) => clear !== 'none' && login === 'forward',
  );
  if (cache.purge.repeat_after > 0 && uncalled.length > 0) {
    const names = listOf(uncalled.map(([key]) => key));
    warnings.push(
      `cache.purge.repeat_after: a repeated purge drops the entries of the gateway, but does not have an engine with login: forward clear its cache, since it has no login of a user (${names}); login: service would`,
    );
  }
  if (limits.concurrency < workers) {
    warnings.push(
      `limits.concurrency: ${limits.concurrency} is less than one place for each of the ${workers} workers; each has one, so that up to ${workers} requests may be at the engine at one time`,
    );
  }
  const long = [...projects.keys()].filter(isLongName);
  if (long.length > 0) {
    const names = listOf(long.map((name) => `projects.${name.slice(0, SHOWN)}…`));
    warnings.push(
      `${names}: a name of more than ${LONGEST_NAME} bytes; requests to such a project are refused, and what names one as its catalog is not cached`,
    );
  }
  return warnings;
}

function listOf(names: readonly string[]): string {
  const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
  return `${names.slice(0, MAX_NAMED).join(', ')}${more}`;
}
