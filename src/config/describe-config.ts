import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { schema, type Config } from './config.ts';
import type { Setting, Values } from '../settings/setting.ts';

/** Writes every key as YAML, secrets masked; without secrets it reads back equal. */
export function describeConfig(config: Config): string {
  const whole: Setting<unknown> = schema;
  // Equal lists and sections would otherwise become anchors.
  return stringify(whole.write(config), asWritten, { aliasDuplicateObjects: false, lineWidth: 0 });
}

function asWritten(key: unknown, value: unknown): unknown {
  // In a file, `null` would be the usual idle time of the engine's kind.
  if (key === 'session_idle') return value ?? 0;
  // A value that looks like a reference must read back as text.
  return typeof value === 'string' ? value.replaceAll('${', () => '$${') : value;
}

/**
 * Plans the change of a running gateway to another configuration.
 * @returns the next configuration, with the running values of keys that need a restart, and the
 *   names of those that differ (`https` for the scheme)
 */
export function whatWaits(running: Config, next: Config) {
  const waiting = new Set<string>();
  const config = merge(schema, '', running, next, waiting) as Config;
  const { memory, max_entry } = config.cache;
  const cache = { ...config.cache, max_entry: Math.min(max_entry, memory) };
  return { config: { ...config, cache } satisfies Config, waiting: [...waiting] };
}

function merge(
  { keys, reload }: Setting<unknown>,
  name: string,
  running: unknown,
  next: unknown,
  waiting: Set<string>,
): unknown {
  if (isDeepStrictEqual(running, next)) return next;
  const isScheme = reload === 'https' && (running === undefined) !== (next === undefined);
  if (isScheme || reload === 'restart') {
    waiting.add(isScheme ? 'https' : name);
    return running;
  }
  // Members by name do not wait, nor keys of a section that exists on one side only.
  if (keys === undefined || next instanceof Map || !running || !next) return next;
  const merged = Object.entries(keys).map(([key, setting]) => {
    const [one, other] = [running, next].map((values) => (values as Values)[key]);
    return [key, merge(setting, name === '' ? key : `${name}.${key}`, one, other, waiting)];
  });
  return { ...next, ...Object.fromEntries(merged) };
}
