import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { clearsAsCaller } from '../common/engine-kinds.ts';
import type { Config } from '../config/config.ts';
import { WARNINGS } from '../features/warnings.ts';
import type { ListenConfig } from '../http/config.ts';
import { listOf } from '../common/list-of.ts';
import { isLongName, LONGEST_NAME } from '../common/fold-case.ts';

const SHOWN = 40;
/** Time before its end from which the certificate of the gateway is warned of. */
const ENDING_MS = 14 * 24 * 60 * 60 * 1_000;

/** Reads users file and certificate too. @param waiting keys whose change waits for a restart */
export function configWarnings(config: Config, now: number, waiting: readonly string[] = []) {
  const { workers, cache, engine, limits, projects, storage, withdrawn } = config;
  const engines = [
    ['engine', engine] as const,
    ...[...projects].map(([name, own]) => [`projects.${name}.engine`, own.engine] as const),
  ];
  // A repeated purge has no caller whose login an engine could get.
  const uncalled = engines.filter(([, one]) => clearsAsCaller(one)).map(([key]) => key);
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
    ...WARNINGS.flatMap(({ warnings }) => warnings?.(config) ?? []),
    config.memory.unfit,
    limits.concurrency < workers &&
      `limits.concurrency: ${limits.concurrency} is less than one place for each of the ${workers} workers; each has one, so that up to ${workers} requests may be at the engine at one time`,
    long.length > 0 &&
      `${listOf(long)}: a name of more than ${LONGEST_NAME} bytes; requests to such a project are refused, and what names one as its catalog is not cached`,
    config.auth.provider === 'engine' &&
      config.engine.headers.length > 0 &&
      'engine.headers: logins are tried at the engine without these headers (auth.provider: engine); an engine that refuses a login without them lets no user in',
    missingUsers(config),
    endingCertificate(config.listen, now),
  ].filter((warning) => typeof warning === 'string');
}

/** Names users with rights, or of a feature, whom the users file lacks. */
function missingUsers(config: Config): string | undefined {
  const { auth } = config;
  if (auth.provider !== 'file') return undefined;
  const lines = read(auth.users, (text) => text.split(/\r?\n/));
  const names = new Set(lines?.map((line) => line.split(':', 1)[0]));
  const rights = (['admins', 'viewers', 'purgers'] as const).flatMap((key) =>
    auth[key].map((name) => [name, `auth.${key}`] as const),
  );
  const ofFeatures = WARNINGS.flatMap(({ users }) => users?.(config) ?? []);
  const missing = [...rights, ...ofFeatures]
    .filter(([name]) => !names.has(name))
    .map(([name, key]) => `${name} (${key})`);
  if (lines === undefined || missing.length === 0) return undefined;
  return `auth.users: not in this file, so that they cannot log in: ${listOf(missing)}; letter case counts`;
}

export function endOfCertificate({ certificate }: ListenConfig): number | undefined {
  if (certificate === undefined) return undefined;
  return read(certificate, (pem) => new X509Certificate(pem).validToDate.getTime());
}

function endingCertificate(listen: ListenConfig, now: number): string | undefined {
  const end = endOfCertificate(listen);
  if (end === undefined || end >= now + ENDING_MS) return undefined;
  return `listen.certificate: it ${end < now ? 'ended' : 'ends'} at ${new Date(end).toISOString()}; renew it, and send SIGHUP`;
}

/** Reads a file; undefined where it was changed or removed meanwhile: its users tell of that. */
function read<T>(file: string, parse: (text: string) => T): T | undefined {
  try {
    return parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
