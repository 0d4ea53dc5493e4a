/** Describes a configuration for `check`, and tells what of a change of it waits for a restart. */
import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { schema, type Config } from './config.ts';
import type { Setting, Values } from '../settings/setting.ts';

/** Writes a YAML file that holds every key. Secrets are masked; without any it reads back as an equal configuration. */
export function describeConfig(config: Config): string {
  const whole: Setting<unknown> = schema;
  // Equal lists and sections would otherwise become anchors.
  return stringify(whole.write(config), asWritten, { aliasDuplicateObjects: false, lineWidth: 0 });
}

function asWritten(key: unknown, value: unknown): unknown {
  // In the file `null` would be the idle time that is usual for the kind of engine.
  if (key === 'session_idle') return value ?? 0;
  // What looks like a reference to the environment in a value must read back as text.
  return typeof value === 'string' ? value.replaceAll('${', () => '$${') : value;
}

/**
 * Decides what becomes of a configuration that a running gateway is to change to.
 * @returns the next configuration, with the running values of the keys that wait; and the keys that differ and that only
 *   a restart changes, `https` for the scheme
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
  // Members of a mapping by name do not wait, nor what is in a section that is there in one of the two only.
  if (keys === undefined || next instanceof Map || !running || !next) return next;
  const merged = Object.entries(keys).map(([key, setting]) => {
    const [one, other] = [running, next].map((values) => (values as Values)[key]);
    return [key, merge(setting, name === '' ? key : `${name}.${key}`, one, other, waiting)];
  });
  return { ...next, ...Object.fromEntries(merged) };
}
