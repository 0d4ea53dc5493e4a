/** The keys of the section cache.redis. */

import {
  choice,
  filePath,
  loginName,
  orNull,
  redisMaster,
  redisNamespace,
  redisUrls,
  secretText,
} from './kinds.ts';
import { leaf, section } from './leaf.ts';

export const redisSection = section(
  {
    url: leaf(
      redisUrls(),
      'The address of the Redis that all replicas share: of the server (standalone), of one or more nodes (cluster), or of the sentinels (sentinel). rediss:// encrypts. Empty: no Redis, memory only.',
    ).prefault(''),
    mode: leaf(
      choice(['standalone', 'sentinel', 'cluster']),
      'What answers at that address. docs/PURGE.md says what each of them must be set to.',
    ).prefault('standalone'),
    master: leaf(
      orNull(redisMaster()),
      'With mode: sentinel, the name under which the sentinels watch the master.',
    ).prefault(null),
    username: leaf(
      orNull(loginName()),
      'The ACL user at Redis, instead of one in the URL. With mode: sentinel that of the servers; the URLs hold that of the sentinels.',
    ).prefault(null),
    password: leaf(
      orNull(secretText(1)),
      'Its password. Take it from the environment: ${REDIS_PASSWORD}.',
    ).prefault(null),
    ca: leaf(
      orNull(filePath()),
      'A PEM file with the certificates of the authorities that may have signed the certificates of Redis. null trusts those of Node.js.',
    ).prefault(null),
    certificate: leaf(
      orNull(filePath()),
      'A PEM file with a client certificate that is shown to Redis. Certificate and key stand together.',
    ).prefault(null),
    key: leaf(
      orNull(filePath()),
      'A PEM file with the private key of the client certificate, without a passphrase.',
    ).prefault(null),
    namespace: leaf(
      redisNamespace(),
      'The first part of every key in Redis, so that several deployments may share one.',
    ).prefault('mdx'),
    encryption_key: leaf(
      orNull(secretText(32)),
      'A secret under which answers, sessions and the purge log are encrypted in Redis (AES-256-GCM), the same for all replicas. null: they lie there as they are.',
    ).prefault(null),
  },
  'The tier that several gateways share.',
);
