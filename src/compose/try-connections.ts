import { existsSync } from 'node:fs';
import { createKnownNames } from '../cache/projects.ts';
import { createBodyAccount } from '../common/body-account.ts';
import { StorageUnavailable } from '../common/errors.ts';
import type { Config } from '../config/config.ts';
import { tryFeatures } from '../features/all.ts';
import { askHidden } from '../engine/hidden-formulas.ts';
import { describeFailure } from '../engine/probe.ts';
import { createUpstream } from '../proxy/upstream.ts';
import { createCache } from './cache.ts';
import { createEngineStates } from './engine-states.ts';
import type { Parts } from './parts.ts';
import { createStorage } from './storage.ts';

/**
 * Asks engines, Redis, storage and what features depend on as `serve` would: the command
 * `check --connect`. It makes no file, but brings the schema of a storage that is there up to date.
 * @returns one line for each, and whether none is down
 */
export async function tryConnections(config: Config, parts: Parts) {
  const engines = createEngineStates(config, parts);
  const { replicas } = await engines.states(true);
  engines.close();
  const ofFeatures = tryFeatures(config, parts);
  const found = [
    ...replicas.map(({ url, state, why }) => [`engine ${url}`, state, why]),
    ...(replicas.some(({ state }) => state === 'up') ? await askHidden(config, parts.clock) : []),
    ['Redis', ...(await tryRedis(config, parts))],
    [`storage ${config.storage.driver}`, ...(await tryStorage(config, parts))],
    ...(await ofFeatures),
  ];
  const ok = found.every(([, state]) => state !== 'down');
  return { lines: found.map((words) => words.join(': ')), ok };
}

async function tryRedis(config: Config, parts: Parts) {
  const clearing = { clear: async () => [], asksAsCaller: () => false };
  const account = createBodyAccount(() => config.limits);
  const cache = await createCache(config, parts, account, clearing, createKnownNames(parts));
  const { state, why = 'it cannot be reached', mode } = cache.redis();
  await cache.close();
  if (state === 'off') return [state, 'cache.redis.url is empty'];
  return [state, state === 'up' ? `it answers (${mode})` : why];
}

async function tryStorage({ storage: config, auth }: Config, parts: Parts) {
  if (config.driver === 'http') {
    const isUp = await createUpstream(config, false).reachable();
    return isUp ? ['up', 'it takes connections'] : ['down', 'it takes no connections'];
  }
  // The user of the service might not be able to write a file that this user makes.
  if (config.driver === 'sqlite' && !existsSync(config.path)) {
    return ['off', `${config.path} is not there yet; serve makes it`];
  }
  const storage = await createStorage(config, auth.admins, parts);
  try {
    await storage.open();
    return ['up', 'it can be used'];
  } catch (error) {
    const isAway = error instanceof StorageUnavailable && error.cause !== undefined;
    return ['down', describeFailure(isAway ? error.cause : error)];
  } finally {
    await storage.close();
  }
}
