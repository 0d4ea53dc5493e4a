import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { send } from '../support/http-client.ts';
import { sendText, startKylinEngine, type KylinEngine } from '../support/kylin-engine.ts';
import '../support/patient-redis.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { gate } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: KylinEngine;
let other: KylinEngine;
let redis: RedisServer;
let gateway: TestGateway;

beforeEach(async () => {
  [engine, other, redis] = await Promise.all([
    startKylinEngine(),
    startKylinEngine(),
    startRedis(),
  ]);
});
afterEach(async () => {
  await gateway?.close();
  for (const one of [engine, other, redis]) await one?.close();
});

const settings = (cache: Record<string, unknown>, { base }: KylinEngine = engine) => ({
  engine: { url: `${base}/mdx/xmla/{project}`, kind: 'kylin', clear: 'kylin' },
  cache: { lease: '100ms', ...cache },
});

const OTHER = { ttl: '11h' };
const shared = () => ({ redis: { url: redis.url } });

async function ask(): Promise<string> {
  const { text } = await send(gateway.url, {
    method: 'POST',
    path: '/mdx/xmla/a',
    headers: { authorization: basic('alice'), 'content-type': 'text/xml' },
    body: execute({ statement: 'SELECT FROM [Sales]' }),
  });
  return text;
}

const clear = () =>
  send(gateway.url, { path: '/mdx/xmla/a/clearCache', headers: { authorization: basic('ADMIN') } });

describe('a configuration that is loaded in the middle of a purge', () => {
  test.each([
    ['in memory', () => ({})],
    ['with a Redis', shared],
  ])('brings back nothing of before: %s', async (_name, cache) => {
    engine.data = 'new';
    gateway = await startTestGateway(settings(cache()));
    const [called, release] = [gate(), gate()];
    engine.clearWith(async (response, request) => {
      called.open();
      await release.opened;
      engine.clearWith();
      // It does clear, only late.
      await send(engine.base, { path: '/mdx/xmla/clearCache' });
      await sendText('Cache has been cleared.')(response, request);
    });
    const purging = clear();
    await called.opened;
    await gateway.reload(settings({ ...cache(), ...OTHER }));
    // The engine still answers from its own cache, and the new cache keeps that.
    expect(await ask()).toBe(mddatasetAnswer({ members: ['old'] }));
    release.open();
    expect((await purging).status).toBe(200);
    expect(await ask()).toBe(mddatasetAnswer({ members: ['new'] }));
  });

  test('with another engine has that one clear its cache, too', async () => {
    [engine.data, other.data] = ['new', 'new'];
    gateway = await startTestGateway(settings({}));
    const [called, release] = [gate(), gate()];
    engine.clearWith(async (response, request) => {
      called.open();
      await release.opened;
      await sendText('Cache has been cleared.')(response, request);
    });
    const purging = clear();
    await called.opened;
    await gateway.reload(settings({}, other));
    expect(await ask()).toBe(mddatasetAnswer({ members: ['old'] }));
    release.open();
    expect((await purging).status).toBe(200);
    expect(await ask()).toBe(mddatasetAnswer({ members: ['new'] }));
    expect([engine.cleared.length, other.cleared.length]).toEqual([1, 1]);
  });
});
