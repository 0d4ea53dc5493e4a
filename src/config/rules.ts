import { authRules } from '../auth/config.ts';
import type { CacheShare } from '../cache/config.ts';
import { engineRules } from '../engine/config.ts';
import { hookRules } from '../features/hooks/config.ts';
import { watchRules } from '../features/watch/config.ts';
import { redisRules } from '../redis/config.ts';
import { tlsRules } from '../settings/connection.ts';
import type { Reading } from '../settings/kinds.ts';
import type { Broken, KeyPath } from '../settings/problems.ts';
import { storageRules } from '../storage/config.ts';
import type { CheckedFile, CheckedProject, Config } from './config.ts';
import { USUAL } from './fit-memory.ts';

/** Adds mistakes to `reading`. @param config made from the file, with inherited values */
export function checkRules(file: CheckedFile, config: Config, reading: Reading): void {
  const { listen, auth, engine, cache, storage } = file;
  const check = (path: KeyPath, broken: Broken): void => {
    for (const [key, message] of broken) {
      reading.problems.push({ path: [...path, ...key.split('.')], message });
    }
  };
  check([], commonRules(file, config));
  const { tooLittle } = config.memory;
  if (tooLittle !== undefined) reading.problems.push({ path: [], message: tooLittle });
  check(['cache'], shareRules(cache, cache.share, engine.login, file));
  check(['listen'], tlsRules(listen, reading));
  check(['auth'], authRules(auth, reading));
  check(['engine'], engineRules(engine, engine, reading));
  check(['cache', 'redis'], redisRules(cache.redis, reading));
  check(['storage'], storageRules(storage, reading));
  for (const [name, hook] of file.hooks) check(['hooks', name], hookRules(hook));
  for (const [name, own] of file.projects) {
    const { share, engine: whole } = config.projects.get(name) ?? { ...config, ...cache };
    check(['projects', name], shareRules(own, share, whole.login, file));
    check(['projects', name, 'engine'], engineRules(own.engine ?? {}, whole, reading));
    check(['projects', name, 'watch'], own.watch ? watchRules(own.watch, whole, reading) : []);
  }
}

function* commonRules(
  { workers, auth, engine, cache, limits }: CheckedFile,
  { limits: { in_flight } }: Config,
): Broken {
  const divided = workers === 1 ? '' : `, of which each of the ${workers} workers has its part`;
  // The engine must learn who asks; roles are compared with names of the file.
  if (auth.provider === 'engine' && engine.login !== 'forward') {
    yield ['auth.provider', `engine needs engine.login: forward (it is ${engine.login})`];
  }
  // The largest answer is fitted too if the container has less than usual.
  if ((cache.max_entry ?? 0) > (cache.memory ?? USUAL.entries) / workers) {
    yield ['cache.max_entry', `must not be larger than cache.memory${divided}`];
  }
  if (limits.body > in_flight / workers) {
    yield ['limits.in_flight', `must not be smaller than limits.body${divided}`];
  }
}

/** @param written keys of this section; other parameters are in force */
function* shareRules(
  written: Pick<CheckedProject, 'share'> & { readonly engine?: CheckedProject['engine'] },
  share: CacheShare,
  login: string,
  { cache, storage }: CheckedFile,
): Broken {
  if (written.share === 'roles' && storage.driver === 'http') {
    yield ['share', 'roles cannot be used with storage.driver: http; the roles are elsewhere'];
  }
  if (share === 'user' || login !== 'forward' || cache.engine_permissions_ignored) return;
  const why = 'because users then see answers that the engine might have refused them';
  const needs = `needs cache.engine_permissions_ignored: true, ${why}`;
  if (written.share !== undefined) yield ['share', `${share} with login: forward ${needs}`];
  else if (written.engine?.login !== undefined) {
    yield ['engine.login', `forward with share: ${share} ${needs}`];
  }
}
