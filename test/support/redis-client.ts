import { Redis } from 'ioredis';
import { until } from './redis-process.ts';
import { tlsOptions, type RedisTls } from './redis-server.ts';

const PATIENCE = 60_000;

/** Asks until it is so, and throws when that takes very long. */
export async function certain(condition: () => Promise<boolean>, otherwise: string): Promise<void> {
  if (!(await until(condition, PATIENCE))) throw new Error(`${otherwise} after ${PATIENCE} ms`);
}

/**
 * On a connection of its own that is tried once and given up when the server is silent.
 * @param login.patience for how long it may be silent (ms); 2000 unless given
 */
export async function onConnection<T>(
  port: number,
  login: {
    readonly password?: string | undefined;
    readonly tls?: RedisTls | undefined;
    readonly patience?: number | undefined;
  },
  work: (redis: Redis) => Promise<T>,
): Promise<T> {
  const { patience = 2_000 } = login;
  const redis = new Redis({
    port,
    host: '127.0.0.1',
    ...(login.password !== undefined && { password: login.password }),
    ...(login.tls !== undefined && { tls: tlsOptions(login.tls) }),
    lazyConnect: true,
    retryStrategy: () => null,
    connectTimeout: patience,
    commandTimeout: patience,
    enableReadyCheck: false,
    protocol: 2,
  });
  redis.on('error', () => {});
  try {
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}
