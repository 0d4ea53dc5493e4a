import { readFileSync } from 'node:fs';
import type { RedisConfig } from '../config/config.ts';
import type { RedisTarget } from '../redis/redis-connections.ts';

/** What answers as Redis; `none` where this gateway is alone. */
export type RedisMode = 'none' | RedisConfig['mode'];

/** Where Redis is, with the files that the configuration names. */
export interface ConfiguredRedis extends RedisTarget {
  /** Reads certificates and key again, for connections that are made from now on. @throws where one cannot be read */
  renewCertificates(): void;
}

export function redisTarget(redis: RedisConfig): ConfiguredRedis {
  const { url, mode, master, username, password } = redis;
  const tls = readFiles(redis);
  return {
    url,
    mode,
    master,
    username,
    password,
    tls,
    renewCertificates: () => void Object.assign(tls, readFiles(redis)),
  };
}

function readFiles({ ca, certificate, key }: RedisConfig) {
  return { ca: readFile(ca), cert: readFile(certificate), key: readFile(key) };
}

function readFile(path: string | undefined): Buffer | undefined {
  return path === undefined ? undefined : readFileSync(path);
}
