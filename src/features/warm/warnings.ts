import type { ConfigWarnings } from '../feature.ts';

export const warmWarnings: ConfigWarnings = {
  warnings: ({ warm, cache: { redis } }) =>
    warm.mode === 'auto' && redis.url.length > 0 && redis.encryption_key === undefined
      ? [
          'warm.mode: auto keeps bodies of queries in Redis, where they lie as they are; cache.redis.encryption_key would encrypt them',
        ]
      : [],
};
