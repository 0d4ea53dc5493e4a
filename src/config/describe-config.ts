/** The effective configuration in words, for `check`. */

import { stringify } from 'yaml';
import type { Config, EngineConfig, ProjectConfig, RedisConfig, StorageConfig } from './config.ts';
import { formatDuration, formatSize } from './durations-and-sizes.ts';
import { REFERENCE_START } from './environment-text.ts';
import { SECRET_MASK } from './problems.ts';
import { maskUrlPassword } from './urls.ts';

/**
 * The configuration as a YAML file that holds every key. Passwords and the key secret are masked; a
 * configuration without any of them reads back as the same configuration.
 */
export function describeConfig(config: Config): string {
  const { listen, workers, auth, engine, cache, projects, storage, limits, log } = config;
  return stringify(
    {
      listen: { ...listen, certificate: listen.certificate ?? null, key: listen.key ?? null },
      workers,
      auth: { ...auth, verified_for: formatDuration(auth.verified_for) },
      engine: describeEngine(engine),
      cache: {
        ...cache,
        ttl: formatDuration(cache.ttl),
        memory: formatSize(cache.memory),
        max_entry: formatSize(cache.max_entry),
        lease: formatDuration(cache.lease),
        key_secret: cache.key_secret === undefined ? null : SECRET_MASK,
        purge: { repeat_after: formatDuration(cache.purge.repeat_after) },
        redis: describeRedis(cache.redis),
      },
      projects: new Map([...projects].map(([name, project]) => [name, describeProject(project)])),
      storage: describeStorage(storage),
      limits: {
        ...limits,
        body: formatSize(limits.body),
        dataset: formatSize(limits.dataset),
        in_flight: formatSize(limits.in_flight),
        head: formatSize(limits.head),
        head_timeout: formatDuration(limits.head_timeout),
      },
      log,
    },
    escapeReferences,
    // Equal lists and sections would otherwise become anchors.
    { aliasDuplicateObjects: false, lineWidth: 0 },
  );
}

/** What looks like a reference to the environment in a value must read back as text. */
function escapeReferences(_key: unknown, value: unknown): unknown {
  return typeof value === 'string'
    ? value.replaceAll(REFERENCE_START, () => `$${REFERENCE_START}`)
    : value;
}

function describeEngine(engine: EngineConfig) {
  const { service, session_idle, timeout, ca, certificate, key } = engine;
  return {
    ...engine,
    session_idle: session_idle === undefined ? 0 : formatDuration(session_idle),
    service: service === undefined ? null : { name: service.name, password: SECRET_MASK },
    timeout: formatDuration(timeout),
    ca: ca ?? null,
    certificate: certificate ?? null,
    key: key ?? null,
  };
}

function describeRedis(redis: RedisConfig) {
  const [first = '', ...more] = redis.url.map((url) => maskUrlPassword(url, SECRET_MASK));
  return {
    ...redis,
    url: more.length === 0 ? first : [first, ...more],
    master: redis.master ?? null,
    username: redis.username ?? null,
    password: redis.password === undefined ? null : SECRET_MASK,
    ca: redis.ca ?? null,
    certificate: redis.certificate ?? null,
    key: redis.key ?? null,
    encryption_key: redis.encryption_key === undefined ? null : SECRET_MASK,
  };
}

/** With the keys of its driver only, since others would not be read back. */
function describeStorage(storage: StorageConfig) {
  if (storage.driver === 'sqlite') return storage;
  const described = {
    ...storage,
    timeout: formatDuration(storage.timeout),
    ca: storage.ca ?? null,
    certificate: storage.certificate ?? null,
    key: storage.key ?? null,
  };
  if (storage.driver === 'postgres') {
    return { ...described, url: maskUrlPassword(storage.url, SECRET_MASK) };
  }
  const { service } = storage;
  return {
    ...described,
    service: service === undefined ? null : { name: service.name, password: SECRET_MASK },
  };
}

function describeProject(project: ProjectConfig) {
  return {
    ...project,
    ttl: formatDuration(project.ttl),
    engine: describeEngine(project.engine),
  };
}
