import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { makeAuthority, type Authority } from '../support/certificates.ts';
import { freePort } from '../support/free-port.ts';
import '../support/patient-redis.ts';
import { startRedisSentinels } from '../support/redis-sentinels.ts';
import { startRedis } from '../support/redis-server.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import {
  ask,
  purge,
  redisHealth,
  startDataEngine,
  startGateway,
  type DataEngine,
} from '../integration/cache/gateways.ts';
import { until } from '../integration/cache/redis-house.ts';
import { opened } from '../support/opened.ts';

jest.setTimeout(120_000);

const SOUND = ['--maxmemory', '100mb', '--maxmemory-policy', 'volatile-lru'];

let engine: DataEngine;
let authority: Authority;
beforeAll(async () => {
  engine = await startDataEngine();
  authority = makeAuthority();
});
afterAll(async () => {
  authority.remove();
  await engine.close();
});

const onRedis = (redis: Record<string, unknown>) =>
  opened(
    startTestGateway({
      engine: { url: `${engine.url}/{project}` },
      cache: { lease: '100ms', redis },
    }),
  );

const states = (gateway: TestGateway) =>
  gateway.events.filter((event) => event.type === 'redis-state');

/** Nobody asks the gateway anything: it tells by itself. */
async function toldWhy(gateway: TestGateway, code?: string): Promise<string> {
  const [first] = await until(
    () => states(gateway),
    ({ length }) => length > 0,
  );
  expect(first).toMatchObject({ state: 'down', ...(code !== undefined && { code }) });
  const { why } = first as { readonly why: string };
  expect(why).not.toMatch(/writeable|closed|hunter2/u);
  const now = await redisHealth(gateway);
  expect(now).toMatchObject({ state: 'down', conditions: [] });
  // Each sentinel has a port of its own.
  expect(JSON.stringify(now).replace(/:\d+/gu, '')).toContain(why.replace(/:\d+/gu, ''));
  return why;
}

describe('what keeps Redis away is told once, at the start and without a query:', () => {
  test('a wrong password', async () => {
    const { port } = await opened(startRedis({ args: ['--requirepass', 'right'] }));
    const gateway = await onRedis({ url: `redis://:hunter2@127.0.0.1:${port}` });
    expect(await toldWhy(gateway, 'WRONGPASS')).toMatch(/^WRONGPASS invalid/u);
    for (let count = 0; count < 10; count += 1) await ask(gateway);
    expect(states(gateway)).toHaveLength(1);
  });

  test('an unknown user', async () => {
    const { port } = await opened(startRedis());
    const gateway = await onRedis({ url: `redis://nobody:hunter2@127.0.0.1:${port}` });
    expect(await toldWhy(gateway, 'WRONGPASS')).toMatch(/^WRONGPASS invalid/u);
  });

  test('a missing password', async () => {
    const { port } = await opened(startRedis({ args: ['--requirepass', 'hunter2'] }));
    const gateway = await onRedis({ url: `redis://127.0.0.1:${port}` });
    expect(await toldWhy(gateway, 'NOAUTH')).toMatch(/^NOAUTH .* Set cache\.redis\.password\.$/u);
  });

  test('nobody who listens', async () => {
    const port = await freePort();
    const gateway = await onRedis({ url: `redis://:hunter2@127.0.0.1:${port}` });
    expect(await toldWhy(gateway, 'ECONNREFUSED')).toBe(`connect ECONNREFUSED 127.0.0.1:${port}`);
    const redis = await opened(startRedis({ port, args: ['--requirepass', 'hunter2'] }));
    await until(
      () => states(gateway),
      ({ length }) => length > 1,
    );
    expect(states(gateway)[1]).toEqual({ type: 'redis-state', state: 'up' });
    const up = await redisHealth(gateway);
    expect(up).toMatchObject({ state: 'up' });
    expect(up).not.toHaveProperty('why');
    for (let outage = 1; ; outage += 1) {
      await redis.stop();
      await until(
        () => states(gateway),
        ({ length }) => length > 2 * outage,
      );
      const down = states(gateway)[2 * outage];
      expect(down).toMatchObject({ state: 'down' });
      if (down?.state === 'down' && down.code === 'ECONNREFUSED') break;
      // A process that stood still has not tried to connect before it had to say something.
      expect(down).toMatchObject({ why: 'the connection was lost' });
      await redis.restart();
      await until(
        () => states(gateway),
        ({ length }) => length > 2 * outage + 1,
      );
    }
  });

  test('a server without encryption, asked with it', async () => {
    const { port } = await opened(startRedis());
    const gateway = await onRedis({ url: `rediss://:hunter2@127.0.0.1:${port}` });
    expect(await toldWhy(gateway, 'ETIMEDOUT')).toBe(
      'connect ETIMEDOUT; does Redis speak TLS there?',
    );
  });

  test('a server with encryption, asked without it', async () => {
    const tls = { ca: authority, server: authority.issue('redis') };
    const { port } = await opened(startRedis({ tls }));
    const gateway = await onRedis({ url: `redis://:hunter2@127.0.0.1:${port}` });
    expect(await toldWhy(gateway)).toMatch(/; does Redis want TLS\?$/u);
  });

  test('sentinels that do not know the master', async () => {
    const { urls } = await opened(startRedisSentinels());
    const gateway = await onRedis({ mode: 'sentinel', url: urls, master: 'other' });
    expect(await toldWhy(gateway)).toMatch(/^sentinel 127\.0\.0\.1:\d+ knows no master other$/u);
  });

  test('sentinels with another password', async () => {
    const passwords = { servers: 'one', sentinels: 'two' };
    const { urls, master } = await opened(startRedisSentinels({ passwords }));
    const url = urls.map((text) => text.replace(':two@', ':hunter2@'));
    const gateway = await onRedis({ mode: 'sentinel', url, master, password: 'one' });
    expect(await toldWhy(gateway, 'WRONGPASS')).toMatch(
      /^failed to connect to sentinel .*WRONGPASS/u,
    );
  });

  test('a cluster none of whose nodes listens', async () => {
    const url = [`redis://:hunter2@127.0.0.1:${await freePort()}`];
    const gateway = await onRedis({ mode: 'cluster', url });
    expect(await toldWhy(gateway, 'ECONNREFUSED')).toMatch(/^connect ECONNREFUSED /u);
  });
});

test('a read-only server is told by one condition, and is no Redis that can be used', async () => {
  const master = await opened(startRedis());
  const { url } = await opened(
    startRedis({ args: [...SOUND, '--replicaof', '127.0.0.1', String(master.port)] }),
  );
  const gateway = await opened(startGateway(engine, url));
  const warnings = () =>
    gateway.events.flatMap((event) =>
      event.type === 'warning' && event.message.includes('Redis at') ? [event.message] : [],
    );
  await until(warnings, ({ length }) => length > 0);
  expect(warnings()).toEqual([
    expect.stringMatching(/^Redis at 127\.0\.0\.1:\d+ is a read-only replica: /u),
  ]);
  await until(
    async () => {
      await ask(gateway);
      return states(gateway);
    },
    ({ length }) => length > 0,
  );
  expect(states(gateway)[0]).toMatchObject({ state: 'down', code: 'READONLY' });
  const { status } = await purge(gateway);
  expect(status).toBe(503);
  expect(gateway.events.findLast(({ type }) => type === 'purged')).toMatchObject({
    result: 'owed',
    why: expect.stringContaining('READONLY'),
  });
  expect(await redisHealth(gateway)).toMatchObject({
    state: 'down',
    conditions: [],
  });
});

test('a purge that Redis does not confirm says why', async () => {
  const redis = await opened(startRedis({ args: ['--requirepass', 'hunter2'] }));
  const gateway = await onRedis({ url: `redis://:hunter2@127.0.0.1:${redis.port}` });
  await redis.stop();
  const { status } = await purge(gateway);
  expect(status).toBe(503);
  expect(gateway.events.findLast(({ type }) => type === 'purged')).toMatchObject({
    result: 'owed',
    why: `connect ECONNREFUSED 127.0.0.1:${redis.port}`,
  });
});
