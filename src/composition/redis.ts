import { readFileSync } from 'node:fs';
import type { RedisConfig } from '../config/config.ts';
import type { RedisTarget } from '../redis/redis-connections.ts';

/** What answers as Redis; `none` where this gateway is alone. */
export type RedisMode = 'none' | RedisConfig['mode'];

/** Where Redis is, with the files that the configuration names. */
export function redisTarget(redis: RedisConfig): RedisTarget {
  const { url, mode, master, username, password } = redis;
  return {
    url,
    mode,
    master,
    username,
    password,
    tls: {
      ...(redis.ca !== undefined && { ca: readFileSync(redis.ca) }),
      ...(redis.certificate !== undefined && { cert: readFileSync(redis.certificate) }),
      ...(redis.key !== undefined && { key: readFileSync(redis.key) }),
    },
  };
}
