import { expect, test } from '@jest/globals';
import { isSameRedis } from '../../../src/composition/cache-backend.ts';
import type { RedisConfig } from '../../../src/config/config.ts';

const redis = (changed: Partial<RedisConfig> = {}): RedisConfig => ({
  url: ['redis://one:6379'],
  mode: 'standalone',
  master: undefined,
  username: undefined,
  password: undefined,
  ca: undefined,
  certificate: undefined,
  key: undefined,
  namespace: 'mdx',
  encryption_key: undefined,
  ...changed,
});
const sentinels = (...url: string[]) => redis({ mode: 'sentinel', master: 'main', url });

test.each<[string, boolean, RedisConfig, RedisConfig]>([
  ['the same', true, redis(), redis()],
  ['another password', true, redis(), redis({ url: ['redis://me:new@one:6379'], password: 'new' })],
  ['another encryption', true, redis(), redis({ encryption_key: 'x'.repeat(43) })],
  ['TLS from now on', true, redis(), redis({ url: ['rediss://ONE:6379/0'] })],
  ['another host', false, redis(), redis({ url: ['redis://two:6379'] })],
  ['another port', false, redis(), redis({ url: ['redis://one:6380'] })],
  ['another database', false, redis(), redis({ url: ['redis://one:6379/1'] })],
  ['another namespace', false, redis(), redis({ namespace: 'other' })],
  ['another mode', false, redis(), redis({ mode: 'cluster' })],
  ['none from now on', false, redis(), redis({ url: [] })],
  ['one from now on', false, redis({ url: [] }), redis()],
  [
    'one sentinel less and one more',
    true,
    sentinels('redis://a', 'redis://b'),
    sentinels('redis://b', 'redis://c'),
  ],
  ['other sentinels', false, sentinels('redis://a'), sentinels('redis://b')],
  ['another master', false, sentinels('redis://a'), { ...sentinels('redis://a'), master: 'other' }],
])('a configuration leads to the same Redis: %s: %s', (_what, same, before, after) => {
  expect(isSameRedis(before, after)).toBe(same);
});
