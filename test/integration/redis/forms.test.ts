import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { RedisTarget } from '../../../src/redis/redis-connections.ts';
import { makeAuthority, type Authority, type Certificate } from '../../support/certificates.ts';
import { startRedisSentinels } from '../../support/redis-sentinels.ts';
import { startRedis, type RedisTls } from '../../support/redis-server.ts';
import { refused, serves, STEADY } from './serving.ts';
import { opened } from '../../support/opened.ts';

jest.setTimeout(120_000);

const ALL = ['on', '~*', '&*', '+@all'];

let authority: Authority;
let server: Certificate;
let client: Certificate;
beforeAll(() => {
  authority = makeAuthority();
  server = authority.issue('redis');
  client = authority.issue('gateway');
});
afterAll(() => authority.remove());

const secured = (redis: { url: string }, tls: NonNullable<RedisTarget['tls']>): RedisTarget => ({
  url: [redis.url],
  mode: 'standalone',
  tls,
});
const identity = ({ pem, key }: Certificate) => ({ cert: pem, key: readFileSync(key) });

describe('a standalone Redis', () => {
  test('serves', async () => {
    const { url } = await opened(startRedis());
    await serves({ url: [url], mode: 'standalone' });
  });

  test('serves an ACL user, of the URL or of the configuration', async () => {
    const users = { default: ['off'], 'mdx:x': ['>p@ss word/', ...ALL] };
    const { port } = await opened(startRedis({ users }));
    await serves({
      url: [`redis://mdx%3Ax:p%40ss%20word%2F@127.0.0.1:${port}`],
      mode: 'standalone',
    });
    await serves({
      url: [`redis://somebody:else@127.0.0.1:${port}`],
      mode: 'standalone',
      username: 'mdx:x',
      password: 'p@ss word/',
    });
  });

  test('says that a password is wrong', async () => {
    const { port } = await opened(startRedis({ args: ['--requirepass', 'right'] }));
    const told = await refused({ url: [`redis://:wrong@127.0.0.1:${port}`], mode: 'standalone' });
    expect(told.join()).toContain('WRONGPASS');
    expect(told.join()).not.toContain('wrong@');
  });

  test('serves over TLS with an authority and a client certificate', async () => {
    const tls: RedisTls = { ca: authority, server, client };
    const redis = await opened(startRedis({ tls }));
    await serves(secured(redis, { ca: authority.pem, ...identity(client) }));
    const without = await refused(secured(redis, { ca: authority.pem }));
    expect(without.join()).toMatch(/certificate required|want a client certificate/iu);
  });

  test('says that its certificate is of an unknown authority', async () => {
    const other = makeAuthority();
    await opened(Promise.resolve({ close: async () => other.remove() }));
    const redis = await opened(startRedis({ tls: { ca: authority, server } }));
    expect((await refused(secured(redis, { ca: other.pem }))).join()).toMatch(
      /unable to verify|self.signed/u,
    );
    expect((await refused(secured(redis, {}))).join()).toMatch(/unable to verify|self.signed/u);
  });
});

describe('Redis with sentinels', () => {
  test('serves when two of the addresses lead nowhere', async () => {
    const { master, urls } = await opened(startRedisSentinels(STEADY));
    const [one] = urls as [string];
    await serves({
      url: ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', one],
      mode: 'sentinel',
      master,
    });
  });
});
