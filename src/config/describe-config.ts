/** What is told of a configuration: itself, for `check`, and what of a change of it waits for a restart. */

import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import type { Config, EngineConfig } from './config.ts';
import { REFERENCE_START } from './environment-text.ts';
import { schema } from './schema.ts';
import type { Setting, Values } from './setting.ts';

/**
 * The configuration as a YAML file that holds every key. Passwords and the key secret are masked; a
 * configuration without any of them reads back as the same configuration.
 */
export function describeConfig(config: Config): string {
  const { engine, projects } = config;
  const written = schema.write({
    ...config,
    engine: withIdleTime(engine),
    projects: new Map(
      [...projects].map(([name, own]) => [name, { ...own, engine: withIdleTime(own.engine) }]),
    ),
  });
  // Equal lists and sections would otherwise become anchors.
  return stringify(written, escapeReferences, { aliasDuplicateObjects: false, lineWidth: 0 });
}

/** In the file `null` would be the idle time that is usual for the kind of engine. */
function withIdleTime(engine: EngineConfig): EngineConfig {
  return { ...engine, session_idle: engine.session_idle ?? 0 };
}

/** What looks like a reference to the environment in a value must read back as text. */
function escapeReferences(_key: unknown, value: unknown): unknown {
  return typeof value === 'string'
    ? value.replaceAll(REFERENCE_START, () => `$${REFERENCE_START}`)
    : value;
}

/** The keys of a configuration that were withdrawn. */
export function withdrawnKeys(config: Config): readonly string[] {
  return Object.entries(schema.keys).flatMap(
    ([section, { keys = {} }]: [string, Setting<unknown>]) =>
      Object.entries(keys).flatMap(([name, { type }]) => {
        const values = config[section as keyof Config] as Values;
        return type === 'withdrawn' && values[name] !== undefined ? [`${section}.${name}`] : [];
      }),
  );
}

/** The keys in which two configurations differ and that only a restart changes; `https` for the scheme. */
export function keysThatWait(running: Config, next: Config): readonly string[] {
  return [...new Set(waiting(schema, '', running, next))];
}

function waiting(
  { keys = {}, reload }: Setting<unknown>,
  name: string,
  before: unknown,
  after: unknown,
): readonly string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (reload === 'restart') return [name];
  if (reload === 'https') {
    return (before === undefined) === (after === undefined) ? [] : ['https'];
  }
  return Object.entries(keys).flatMap(([key, setting]) => {
    // A section may be there in one of the two only.
    const [one, other] = [before, after].map((values) => (values as Values | undefined)?.[key]);
    return waiting(setting, name === '' ? key : `${name}.${key}`, one, other);
  });
}
