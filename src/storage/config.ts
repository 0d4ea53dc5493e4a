import { loginRules, service, tlsFiles, tlsRules } from '../settings/connection.ts';
import * as kinds from '../settings/kinds.ts';
import type { Broken } from '../settings/problems.ts';
import { key, orNull, section, type ValueOf } from '../settings/setting.ts';

/** Refuses a query: the PostgreSQL client would take options from it. */
const storageUrl = kinds.textKind(
  'URL',
  'empty, or a URL such as postgres://user:password@db.example:5432/gateway or ' +
    'https://gateway.example/base, without query and fragment (storage.tls switches encryption on); ' +
    'a postgres:// URL has a user, an http:// or https:// URL neither user nor password',
  (text) => {
    if (text === '') return true;
    if (/^https?:/i.test(text))
      return kinds.isServerUrl(text) && !text.includes(kinds.PROJECT_PLACE);
    return kinds.isDatabaseUrl(text) && new URL(text).hostname !== '';
  },
  kinds.MASKED_URL,
);

export const storage = section({
  /** The place of roles and datasets: a file on this machine (sqlite), a PostgreSQL database that
   * several gateways share (postgres), or another server with the same interface (http). */
  driver: key(kinds.choice('sqlite', 'postgres', 'http'), 'sqlite'),
  /** With sqlite: the file. A missing file and its folder are made. */
  path: key(kinds.filePath, './data/gateway.sqlite'),
  /** With postgres: postgres://user:password@host:5432/database. With http: the part before
   * /api/…. */
  url: key(storageUrl, ''),
  /** With http: the login that the server gets: that of the client (forward), or that of the
   * service account (service). */
  login: key(kinds.choice('forward', 'service'), 'forward'),
  /** The service account. Required with login: service in this section, forbidden otherwise. */
  service,
  /** With postgres: encrypts the connection and checks the certificate of the server. */
  tls: key(kinds.flag, false),
  ...tlsFiles,
  /** With postgres: how many connections this process may open. */
  connections: key(kinds.integer(1, 100), 10),
  /** With postgres: the limit for an operation (null: 1500ms). With http: how long the server may
   * take until the first byte of its answer, and between two bytes of it (null: 60s). */
  timeout: orNull(kinds.duration('100ms', '1h')),
});

export type CheckedStorage = ValueOf<typeof storage>;
export type StorageConfig = ReturnType<typeof fillInStorage>;
export type SqliteConfig = Extract<StorageConfig, { readonly driver: 'sqlite' }>;
export type PostgresConfig = Extract<StorageConfig, { readonly driver: 'postgres' }>;
export type RemoteConfig = Extract<StorageConfig, { readonly driver: 'http' }>;

/** `storage.timeout: null`, by driver. */
const STORAGE_TIMEOUT_MS = { postgres: 1_500, http: 60_000 } as const;
/** Leaves the keys of the driver in force. */
export function fillInStorage(storage: CheckedStorage) {
  const { driver, path, url, login, service, tls, ca, certificate, key, connections } = storage;
  if (driver === 'sqlite') return { driver, path };
  const timeout = storage.timeout ?? STORAGE_TIMEOUT_MS[driver];
  const files = { ca, certificate, key };
  if (driver === 'postgres') return { driver, url, tls, ...files, connections, timeout };
  return { driver, url, login, service, ...files, timeout };
}

const STORAGE_URLS = {
  sqlite: 'must be empty with driver: sqlite, which takes storage.path',
  postgres: 'must be a postgres:// URL with driver: postgres',
  http: 'must be an http:// or https:// URL with driver: http',
} as const;

export function* storageRules(storage: CheckedStorage, reading: kinds.Reading): Broken {
  const { driver, url, login, tls } = storage;
  yield* loginRules(storage);
  const ofUrl = url === '' ? 'sqlite' : /^https?:/i.test(url) ? 'http' : 'postgres';
  if (driver !== ofUrl) yield ['url', STORAGE_URLS[driver]];
  const isRemote = driver === 'http';
  if (login === 'service' && !isRemote) yield ['login', 'must only be service with driver: http'];
  if (tls && driver !== 'postgres') yield ['tls', 'must only be true with driver: postgres'];
  const needs = 'needs an encrypted connection: tls: true, or an https:// URL';
  yield* tlsRules(storage, reading, tls || /^https:/i.test(url) ? '' : needs);
}
