import type { PoolConfig } from 'pg';
import { readPemFiles } from '../common/pem-files.ts';
import type { PostgresConfig } from './config.ts';

/** How much longer than an operation a statement may take that carries a piece of a document. */
export const PIECE_TIME_MS = 1_000;
/** A connection that says nothing is asked by the kernel whether it lives, first after this time. */
const KEEP_ALIVE_MS = 10_000;

export type Server = Omit<PostgresConfig, 'driver' | 'connections'>;

/**
 * Nothing is left to the environment variables of libpq where the URL is silent. What the server is told to end by itself
 * this side has given up before: it frees locks and memory when this process stands still or is gone.
 * @throws Error when a PEM file cannot be read
 */
export function clientSettings(config: Server): PoolConfig {
  const url = new URL(config.url);
  const password = decodeURIComponent(url.password);
  const { timeout } = config;
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port === '' ? '5432' : url.port),
    user: decodeURIComponent(url.username),
    // As a function, since an empty text would be taken for none.
    password: () => password,
    database: decodeURIComponent(url.pathname.slice(1)),
    ssl: config.tls && { rejectUnauthorized: true, ...readPemFiles(config) },
    sslnegotiation: 'postgres',
    client_encoding: 'UTF8',
    application_name: 'mdx-gateway',
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    connectionTimeoutMillis: timeout,
    statement_timeout: timeout + PIECE_TIME_MS,
    lock_timeout: timeout,
  };
}
