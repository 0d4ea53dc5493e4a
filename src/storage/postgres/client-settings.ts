import { readFileSync } from 'node:fs';
import type { ClientConfig } from 'pg';
import type { PostgresConfig } from '../../config/config.ts';

/** What a statement that carries a piece of a document gets beside `timeout` (ms). */
export const PIECE_TIME = 1_000;

/** A connection that says nothing is asked by the kernel whether it lives, first after this long (ms). */
const KEEP_ALIVE = 10_000;

/**
 * How connections are made. Nothing is left to the environment variables of libpq where the URL is silent. What
 * the server is told to end by itself is what this side has given up before: it frees locks and memory when this
 * process stands still or is gone without a farewell.
 * @throws Error when a PEM file cannot be read
 */
export function clientSettings(config: PostgresConfig): ClientConfig {
  const url = new URL(config.url);
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const user = decodeURIComponent(url.username);
  const password = decodeURIComponent(url.password);
  return {
    host,
    port: Number(url.port === '' ? '5432' : url.port),
    user,
    // As a function, since an empty text would be taken for none.
    password: () => password,
    database: decodeURIComponent(url.pathname.slice(1)),
    ssl: config.tls && tlsSettings(config),
    sslnegotiation: 'postgres',
    client_encoding: 'UTF8',
    application_name: 'mdx-gateway',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE,
    connectionTimeoutMillis: config.timeout,
    statement_timeout: config.timeout + PIECE_TIME,
    lock_timeout: config.timeout,
    idle_in_transaction_session_timeout: config.timeout,
  };
}

function tlsSettings({ ca, certificate, key }: PostgresConfig) {
  return {
    rejectUnauthorized: true,
    ...(ca !== undefined && { ca: readFileSync(ca) }),
    ...(certificate !== undefined && { cert: readFileSync(certificate) }),
    ...(key !== undefined && { key: readFileSync(key) }),
  };
}
