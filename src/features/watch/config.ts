import { ENGINE_KINDS } from '../../common/engine-kinds.ts';
import type { CheckedEngine } from '../../engine/config.ts';
import { tlsFiles, tlsRules } from '../../settings/connection.ts';
import * as kinds from '../../settings/kinds.ts';
import { SECRET_MASK, type Broken } from '../../settings/problems.ts';
import { key, orNull, REQUIRED, section, type ValueOf } from '../../settings/setting.ts';

/** A query may stand in an http:// URL, with a secret in it. */
const watchUrl = kinds.textKind(
  'URL',
  'a URL such as https://etl.example/loaded or postgres://user:password@db.example:5432/dwh; ' +
    'a postgres:// URL has a user and no query, an http:// or https:// URL neither user, password nor fragment',
  (text) => {
    const [base = '', query] = text.split(/\?(.*)/s);
    if (query === undefined && kinds.isDatabaseUrl(text)) return true;
    return (
      kinds.isServerUrl(base) &&
      !base.includes(kinds.PROJECT_PLACE) &&
      !/[#\s\p{Cc}]/u.test(query ?? '')
    );
  },
  { hides: () => true, write: (url) => kinds.masked(url).replace(/\?.*/s, `?${SECRET_MASK}`) },
);

const statement = kinds.textKind(
  'text',
  'a statement of 1 to 10000 characters',
  (text) => text.trim() !== '' && text.length <= 10_000 && !text.includes('\0'),
);

export const watch = section({
  /** The source that is asked: the project's engine for the dates of its cubes (xmla), an Apache
   * Kylin 5 for the segments of its models (kylin), a PostgreSQL database (postgres), an HTTP
   * server (url), or the file system (file). docs/FRESHNESS.md says what each of them sees. */
  kind: key(kinds.choice('xmla', 'kylin', 'postgres', 'url', 'file'), REQUIRED),
  /** The time between two questions. */
  every: key(kinds.duration('1s', '1d'), '60s'),
  /** The least time between two purges when changes come quickly; the last change is never lost.
   * 0: each is purged at once. */
  min_interval: key(kinds.duration('1s', '1d', 'off'), '0'),
  /** The treatment of requests of the project after three questions in a row without an answer:
   * they are answered as always (keep), or bypass the cache until the source answers again
   * (bypass). */
  when_blind: key(kinds.choice('keep', 'bypass'), 'keep'),
  /** With kylin: the part before /api/models, such as http://kylin.example:7070/kylin. With
   * postgres: postgres://user:password@host:5432/database. With url: the address. */
  url: orNull(watchUrl),
  /** With kylin: the name of the project in Kylin. */
  project: orNull(kinds.projectName),
  /** With postgres: one statement that only reads, and whose rows differ after a load. */
  query: orNull(statement),
  /** With file: the path of the file. */
  path: orNull(kinds.filePath),
  /** With xmla, kylin and url: a login of the watcher's own. Without one, xmla uses engine.service,
   * and the others send no login. */
  user: orNull(kinds.loginName),
  /** The password of that login. Take it from a file, ${file:/run/secrets/watch_password}, or from
   * the environment, ${WATCH_PASSWORD}. */
  password: orNull(kinds.secretText(1)),
  /** With postgres: encrypts the connection and checks the certificate of the server. */
  tls: key(kinds.flag, false),
  ...tlsFiles,
});

export type WatchConfig = ValueOf<typeof watch>;

const FILES = ['ca', 'certificate', 'key'] as const;
const LOGIN = ['user', 'password'] as const;
type WatchKeys = readonly (keyof WatchConfig)[];
/** Keys that each kind needs, and those that it may have. */
const WATCH_KEYS: Record<WatchConfig['kind'], Record<'needed' | 'possible', WatchKeys>> = {
  xmla: { needed: [], possible: LOGIN },
  kylin: { needed: ['url', 'project'], possible: [...LOGIN, ...FILES] },
  postgres: { needed: ['url', 'query'], possible: ['tls', ...FILES] },
  url: { needed: ['url'], possible: [...LOGIN, ...FILES] },
  file: { needed: ['path'], possible: [] },
};
const OF_ALL_KINDS: WatchKeys = ['kind', 'every', 'min_interval', 'when_blind'];

export function* watchRules(
  watch: WatchConfig,
  engine: CheckedEngine,
  reading: kinds.Reading,
): Broken {
  const { kind, url = '', user, password, tls } = watch;
  const { needed, possible } = WATCH_KEYS[kind];
  for (const name of needed) {
    if (watch[name] === undefined) yield [name, `is missing; kind: ${kind} needs it`];
  }
  const known = new Set<string>([...OF_ALL_KINDS, ...needed, ...possible]);
  for (const [name, value] of Object.entries(watch)) {
    if (value && !known.has(name)) yield [name, `must not stand with kind: ${kind}`];
  }
  if (kind === 'xmla' && ENGINE_KINDS[engine.kind].changeDates.length === 0) {
    const instead = `${engine.kind === 'kylin' ? 'kylin, ' : ''}postgres, url or file`;
    yield ['kind', `xmla sees no change of an engine of kind ${engine.kind}; use ${instead}`];
  }
  if (kind === 'xmla' && engine.login === 'forward' && !user) {
    yield ['user', 'is missing; xmla with engine.login: forward needs user and password'];
  }
  if ((user === undefined) !== (password === undefined)) {
    yield [user ? 'password' : 'user', 'is missing; user and password stand together'];
  }
  const isHttp = /^http/i.test(url);
  if (url !== '' && isHttp === (kind === 'postgres')) {
    const scheme = kind === 'postgres' ? 'a postgres://' : 'an http:// or https://';
    yield ['url', `must be ${scheme} URL with kind: ${kind}`];
  }
  const isEncrypted = tls || /^https:/i.test(url);
  const needs = 'needs an encrypted connection: tls: true with postgres, or an https:// URL';
  yield* tlsRules(watch, reading, isEncrypted ? '' : needs);
}
