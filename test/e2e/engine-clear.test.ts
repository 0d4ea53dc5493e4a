import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { askLearn, clearCache, clearingSettings, statusOf } from '../support/clearing.ts';
import { until } from '../support/http-client.ts';
import { sendText, startKylinEngine, type KylinEngine } from '../support/kylin-engine.ts';
import { gate } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const SERVICE = { login: 'service', service: { name: 'loader', password: 'secret' } };
const AS_LOADER = `Basic ${Buffer.from('loader:secret').toString('base64')}`;

let one: KylinEngine;
let two: KylinEngine;
const gateways: TestGateway[] = [];

beforeAll(async () => {
  one = await startKylinEngine();
  two = await startKylinEngine();
});
beforeEach(() => {
  for (const engine of [one, two]) {
    engine.clearWith();
    engine.cleared.length = 0;
    engine.asked.length = 0;
  }
});
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.close();
});
afterAll(async () => {
  await one.close();
  await two.close();
});

async function start(engine: Record<string, unknown> = {}, cache: Record<string, unknown> = {}) {
  const gateway = await startTestGateway(clearingSettings([one], engine, cache));
  gateways.push(gateway);
  return gateway;
}

async function warm(gateway: TestGateway): Promise<void> {
  await askLearn(gateway);
  expect(await statusOf(gateway)).toBe('hit');
}

describe('clearCache of an engine that has a cache of its own', () => {
  const plain = shared(() => startTestGateway(clearingSettings([one])));

  test('lets nobody see what the engine kept: the engine clears first', async () => {
    const gateway = await start();
    one.data = 'old';
    await clearCache(gateway);
    await warm(gateway);
    one.data = 'new';
    expect((await askLearn(gateway)).text).toContain('old');
    expect((await clearCache(gateway)).text).toBe('learn Cache has been cleared.');
    expect((await askLearn(gateway)).text).toContain('new');
    one.data = 'old';
  });

  test('calls the engine before the epochs change, and answers after it', async () => {
    const [called, release] = [gate(), gate()];
    one.clearWith(async (response, request) => {
      called.open();
      await release.opened;
      await sendText('learn cache has been cleared.\n')(response, request);
    });
    const gateway = await start();
    await warm(gateway);
    let answered = false;
    const clearing = clearCache(gateway).then((answer) => {
      answered = true;
      return answer;
    });
    await called.opened;
    // The entry of before is reached still: a fill under new epochs could now bring what the engine kept.
    expect([await statusOf(gateway), answered]).toEqual(['hit', false]);
    release.open();
    expect((await clearing).status).toBe(200);
    expect(await statusOf(gateway)).toBe('miss stored');
  });

  test.each([
    ['/mdx/xmla/clearCache', '/mdx/xmla/clearCache'],
    ['/mdx/xmla/learn/clearCache', '/mdx/xmla/learn/clearCache'],
    ['/mdx/xmla/a%2Fb/clearCache', '/mdx/xmla/a%2Fb/clearCache'],
    ['/mdx/xmla/%252e%252e/clearCache', '/mdx/xmla/%252e%252e/clearCache'],
    ['/mdx/xmla/k%c3%a4se/clearCache', '/mdx/xmla/k%C3%A4se/clearCache'],
    ['/mdx/xmla/%E9%94%80%E5%94%AE/clearCache', '/mdx/xmla/%E9%94%80%E5%94%AE/clearCache'],
    ['/mdx/xmla/%6c%65arn%3Fx%23y%3bz/clearCache', '/mdx/xmla/learn%3Fx%23y%3Bz/clearCache'],
    ['/mdx/xmla/.../clearCache', '/mdx/xmla/.../clearCache'],
    ['/mdx/xmla/clearCache/clearCache', '/mdx/xmla/clearCache/clearCache'],
  ])('by %s hits exactly %s there', async (path, target) => {
    expect((await clearCache(plain, { path })).status).toBe(200);
    expect(one.cleared.map(({ method, url }) => [method, url])).toEqual([['GET', target]]);
    expect(one.asked).toEqual([]);
  });

  test.each([
    '/mdx/xmla/../clearCache',
    '/mdx/xmla/%2e%2e/clearCache',
    '/mdx/xmla/./clearCache',
    '/mdx/xmla/a%2F..%2Fb/clearCache',
    '/mdx/xmla/%5c..%5c/clearCache',
    '/mdx/xmla/a%2F..%3bx/clearCache',
    '/mdx/xmla/a%00/clearCache',
    '/mdx/xmla/learn/clearCache?x=y',
  ])('by %s calls nobody: no name may climb the path, and no query is dropped', async (path) => {
    expect((await clearCache(plain, { path })).status).toBe(400);
    expect([...one.cleared, ...one.asked]).toEqual([]);
  });

  test('tells in its receipt how many replicas were called', async () => {
    const gateway = await startTestGateway(clearingSettings([one, two]));
    gateways.push(gateway);
    const { text } = await clearCache(gateway, { accept: 'application/json' });
    expect(JSON.parse(text)).toMatchObject({ status: 'cleared', engine_calls: 2 });
    expect([one.cleared.length, two.cleared.length]).toEqual([1, 1]);
  });

  test('without engine.clear calls nobody', async () => {
    const gateway = await start({ clear: 'none' });
    expect((await clearCache(gateway)).status).toBe(200);
    expect(one.cleared).toEqual([]);
  });

  test('that is refused calls nobody', async () => {
    const gateway = await start();
    expect((await clearCache(gateway, { user: 'alice' })).status).toBe(403);
    expect(one.cleared).toEqual([]);
  });

  test('asks the engines of the configuration in use, after a reload', async () => {
    const gateway = await start();
    await gateway.reload(clearingSettings([two]));
    expect((await clearCache(gateway)).status).toBe(200);
    expect([one.cleared.length, two.cleared.length]).toEqual([0, 1]);
  });

  test('goes on while a reload replaces the engines that it calls', async () => {
    const [called, release] = [gate(), gate()];
    one.clearWith(async (response, request) => {
      called.open();
      await release.opened;
      await sendText('Cache has been cleared.')(response, request);
    });
    const gateway = await start();
    const clearing = clearCache(gateway);
    await called.opened;
    await gateway.reload(clearingSettings([two]));
    release.open();
    expect((await clearing).status).toBe(200);
  });
});

test('a repeated purge clears the engine again, also while a reload replaces that engine', async () => {
  const gateway = await start({}, { purge: { repeat_after: '1s' } });
  const [called, release] = [gate(), gate()];
  let calls = 0;
  one.clearWith(async (response, request) => {
    calls += 1;
    if (calls > 1) {
      called.open();
      await release.opened;
    }
    await sendText('Cache has been cleared.')(response, request);
  });
  expect((await clearCache(gateway)).status).toBe(200);
  await called.opened;
  await gateway.reload(clearingSettings([two]));
  // A request to the new engines shows that the reload is through.
  await askLearn(gateway);
  release.open();
  const repeated = () =>
    gateway.events.find((event) => event.type === 'purged' && event.cause === 'repeat');
  await until(() => repeated() !== undefined);
  expect(repeated()).toMatchObject({ result: 'cleared', engine_calls: 1 });
});

test('a repeated purge with login: forward calls no engine, and is done as far as it goes', async () => {
  const gateway = await start({ login: 'forward' }, { purge: { repeat_after: '1s' } });
  expect((await clearCache(gateway)).status).toBe(200);
  const repeated = () =>
    gateway.events.find((event) => event.type === 'purged' && event.cause === 'repeat');
  await until(() => repeated() !== undefined);
  expect(repeated()).toMatchObject({ result: 'cleared', engine_calls: 0 });
  expect(one.cleared).toHaveLength(1);
  expect(gateway.events.filter(({ type }) => type === 'engine-failed')).toEqual([]);
});

test('settings under which a repeated purge calls no engine are warned of, at the start and at a reload', async () => {
  const purge = { repeat_after: '1h' };
  const warnings = (gateway: TestGateway) =>
    gateway.events.filter(
      (event) => event.type === 'warning' && event.message.includes('repeat_after'),
    ).length;
  const gateway = await start({ login: 'forward' }, { purge });
  expect(warnings(gateway)).toBe(1);
  await gateway.reload(clearingSettings([one], SERVICE, { purge }));
  expect(warnings(gateway)).toBe(1);
  await gateway.reload(clearingSettings([one], { login: 'forward' }, { purge }));
  expect(warnings(gateway)).toBe(2);
});

describe('the login with which an engine clears its cache is', () => {
  test.each([
    ['that of whoever purges, with login: forward', { login: 'forward' }, basic('bob')],
    ['that of the service account, with login: service', SERVICE, AS_LOADER],
    ['none, with login: none', { login: 'none' }, undefined],
  ])('%s', async (_which, engine, expected) => {
    const gateway = await start(engine);
    expect((await clearCache(gateway, { user: 'bob' })).status).toBe(200);
    expect(one.cleared.map(({ headers }) => headers.authorization)).toEqual([expected]);
  });
});
