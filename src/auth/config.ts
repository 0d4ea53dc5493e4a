import { isAbsolute, relative, sep } from 'node:path';
import * as kinds from '../settings/kinds.ts';
import { READ_ERRORS, readNamed } from '../settings/connection.ts';
import type { Broken } from '../settings/problems.ts';
import { key, list, orNull, section, type ValueOf } from '../settings/setting.ts';

export const auth = section({
  /** The place where logins are checked: the users file (file), or the engine (engine), which then
   * needs engine.login: forward. */
  provider: key(kinds.choice('file', 'engine'), 'file'),
  /** The password file: lines of name:hash as written by htpasswd -B or mdx-gateway hash-password.
   * A change is read automatically. */
  users: key(kinds.filePath, './users.htpasswd'),
  /** Users who may do everything. */
  admins: list(kinds.userName, ['ADMIN']),
  /** Users who may see what the gateway does and its configuration: every GET below /admin, except
   * /admin/explain and /admin/compare. It shows no statements and no secrets. */
  viewers: list(kinds.userName, []),
  /** Users who may clear the cache. */
  purgers: list(kinds.userName, []),
  /** How long a verified login counts without another check. With provider: file, the time counts
   * from its last use; null: until its line of the users file changes. With provider: engine, it
   * counts from the check and is at most 1h; null: 60s. 0: each request is checked. */
  verified_for: orNull(kinds.duration('1s', '30d', 'off')),
  /** With provider: engine, how long after its last successful check a login still gets hits from
   * the cache, but nothing else, while it is checked again in the background. 0, here or in
   * verified_for, switches this off. It has no effect with provider: file. */
  believed_for: key(kinds.duration('1s', '1h', 'off'), '10m'),
});

export type AuthConfig = ValueOf<typeof auth>;

const HOUR = 3_600_000;

export function* authRules(auth: AuthConfig, reading: kinds.Reading): Broken {
  if (auth.provider === 'file') yield* unusableUsers(auth.users, reading);
  // An engine must be asked again; the users file shows its changes.
  else if ((auth.verified_for ?? 0) > HOUR) {
    yield ['verified_for', 'must not be longer than 1h with auth.provider: engine'];
  }
}

function* unusableUsers(path: string, reading: kinds.Reading): Broken {
  const target = reading.hiddenPaths.has(path) ? 'FILE' : shellPath(path, reading.workingFolder);
  for (const [key, problem] of readNamed('users', path, reading, String, '')) {
    const isMissing = problem.endsWith(READ_ERRORS['ENOENT'] ?? '');
    const advice = `; make it with: mdx-gateway hash-password NAME >> ${target}`;
    yield [key, isMissing ? problem + advice : problem];
  }
}

/** The path as one word of a shell, short if it lies below the working folder. */
function shellPath(path: string, workingFolder: string): string {
  const below = relative(workingFolder, path);
  const outside = below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below);
  const shortest = outside ? path : `./${below}`;
  return /^[\w./-]+$/.test(shortest) ? shortest : `'${shortest.replaceAll("'", `'\\''`)}'`;
}
