import { LEASE_LIMITS } from '../common/leases.ts';
import * as kinds from '../settings/kinds.ts';
import {
  byName,
  inherited,
  key,
  list,
  orNull,
  REQUIRED,
  section,
  type ValuesOf,
} from '../settings/setting.ts';
import { isChanging } from '../xmla/mdx/known-functions.ts';

const cubeName = kinds.textKind(
  'cube name',
  'a name of 1 to 255 characters without control characters, as it stands in MDX without its brackets',
  (name) => name.trim() !== '' && name.length <= 255 && !kinds.CONTROL.test(name),
);

const isMdxName = (name: string) => /^[\p{L}\p{M}\p{N}_ $%#@]{1,255}$/u.test(name);
const mdxName = kinds.textKind(
  'name',
  'a name of up to 255 letters, digits and underscores, such as LastDay, without dots and brackets',
  isMdxName,
);
const functionName = kinds.textKind(
  'function name',
  'the name of a function without brackets, such as Today or Assembly.Fn, and none that reads ' +
    'clock, user, server or parameters, such as Now or UserName, which can never be declared stable',
  (name) => name.split('.').every(isMdxName) && !isChanging(name),
);

const { shortest, longest } = LEASE_LIMITS;
const lease = kinds.duration(kinds.durations.format(shortest), kinds.durations.format(longest));
const purge = section({
  /** After how long a purge by clearCache or a hook is repeated, for loads whose data appears bit
   * by bit; the repetition does not call engines with login: forward. 0 switches this off. */
  repeat_after: key(kinds.duration('1s', '1d', 'off'), '0'),
});

export const cacheKeys = {
  /** How long an answer may be repeated, unless a purge comes first (cache resident time). */
  ttl: key(kinds.duration('1s', '30d'), '12h'),
  /** on asks the engine again behind an answer from the cache that has less than a tenth of its ttl
   * left and took the engine 250 ms or more, so that no user waits when the ttl is over. What was
   * asked in a session is asked only with warm.mode: auto. See docs/WARMUP.md. */
  refresh_ahead: key(kinds.onOrOff, 'on'),
  /** How long past its ttl an entry is kept and may still be answered, only while the engine cannot
   * be reached or does not answer (RFC 5861), and never across a purge. Such answers are marked:
   * Cache-Status: …; ttl=-N; detail=engine-away. 0 switches this off. */
  stale_if_error: key(kinds.duration('1s', '30d', 'off'), '0'),
  /** How much memory the entries may take. null: 256MiB, or less if the memory limit of the
   * container is too low for that (docs/DEPLOY.md). */
  memory: orNull(kinds.size('1MiB', '1024GiB'), 'restart'),
  /** The largest answer that is stored, in bytes of its text; above 256 KiB entries are compressed
   * and take less memory. Not larger than memory. null: 64MiB, or memory if that is less; with
   * workers, the part of memory that one of them has. */
  max_entry: orNull(kinds.size('1KiB', '512MiB')),
  /** The users who are answered from an entry: only the user whose query made it (user), all users
   * with the same roles (roles; for users without roles as with user), or everybody (everyone).
   * With roles or everyone you declare that answers depend on nothing else about the user. */
  share: key(kinds.choice('user', 'roles', 'everyone'), 'user'),
  /** Must be true if share is roles or everyone and the login is forwarded to the engine, because
   * users may then see answers that the engine would have refused them. */
  engine_permissions_ignored: key(kinds.flag, false),
  /** The users whose request header Cache-Control has an effect: no-cache asks the engine and
   * stores its answer, no-store asks it and stores nothing. purgers are the users of auth.admins
   * and auth.purgers. */
  client_control: key(kinds.choice('nobody', 'purgers', 'everybody'), 'purgers'),
  /** Whether a statement REFRESH CUBE (Excel: Refresh All) of a user who may purge clears the cache
   * of its project, or of everything if it names none. With false, and for users who may not purge,
   * the engine answers the session from then on. */
  purge_on_refresh_cube: key(kinds.flag, false),
  /** Unknown functions that cached statements may call, such as user-defined ones: you declare that
   * they read neither the clock, the user nor the server. Write a function of an assembly with the
   * name of the assembly (Assembly.Fn). */
  functions: list(functionName, []),
  /** Names that make a statement bypass the cache wherever they stand in it, even in brackets:
   * functions that look like properties, or anything that you know to change. A name in this list
   * counts even if it is also in functions. */
  volatile: list(mdxName, []),
  /** How long a gateway may go on without asking Redis whether something was purged and, with
   * share: roles, without asking the storage whether a role was changed. A purge, a change of a
   * role, and a statement that changes a session which several gateways serve wait a little longer
   * than that. */
  lease: key(lease, '1s'),
  /** The secret of the cache keys, the same for all gateways that share a Redis. null: it is made
   * once and kept in Redis or, without Redis, in this process. */
  key_secret: orNull(kinds.secretText(32), 'restart'),
  /** Further effects of clearCache. */
  purge,
};

export const projectKeys = {
  /** on caches this project; off sends each of its requests to the engine. */
  cache: key(kinds.onOrOff, 'on'),
  /** How long an answer of this project may be repeated, instead of cache.ttl. */
  ttl: inherited(cacheKeys.ttl),
  /** How long past its ttl an entry of this project may be answered while the engine is away,
   * instead of cache.stale_if_error. */
  stale_if_error: inherited(cacheKeys.stale_if_error),
  /** The users who are answered from an entry of this project, instead of cache.share. */
  share: inherited(cacheKeys.share),
  /** Functions that are added to cache.functions for this project. If an answer may hold data of
   * several projects, its request may call only what all of them allow. */
  functions: list(functionName, []),
  /** Settings of cubes, by name: off sends every request whose answer may hold data of the cube to
   * the engine. Needed if a measure on the server hides values that depend on the time or the
   * user. */
  cubes: byName(cubeName, key(kinds.onOrOff, REQUIRED)),
};

type CheckedCache = ValuesOf<typeof cacheKeys>;
type CheckedProject = ValuesOf<typeof projectKeys>;
export type CacheShare = CheckedCache['share'];
export type CacheConfig = Omit<CheckedCache, 'memory' | 'max_entry'> &
  Readonly<Record<'memory' | 'max_entry', number>>;
export type ProjectConfig = ReturnType<typeof fillInProject<CheckedProject>>;

export function fillInProject<P extends CheckedProject>(own: P, cache: CheckedCache) {
  const { ttl = cache.ttl, share = cache.share, stale_if_error = cache.stale_if_error } = own;
  const functions: readonly string[] = [...cache.functions, ...own.functions];
  return { ...own, ttl, share, stale_if_error, functions };
}
