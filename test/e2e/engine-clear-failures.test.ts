import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { faultAnswer } from '../support/answers.ts';
import { startBlackHole } from '../support/black-hole.ts';
import { askLearn, clearCache, clearingSettings, statusOf, urlOf } from '../support/clearing.ts';
import { sendText, startKylinEngine, type KylinEngine } from '../support/kylin-engine.ts';
import '../support/patient-redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { sendXml, type StubAnswer } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const SERVICE = { login: 'service', service: { name: 'loader', password: 'secret' } };
const SECRET = Buffer.from('loader:secret').toString('base64');

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
  const gateway = await startTestGateway(clearingSettings([one, two], engine, cache));
  gateways.push(gateway);
  return gateway;
}

async function warm(gateway: TestGateway): Promise<void> {
  await askLearn(gateway);
  expect(await statusOf(gateway)).toBe('hit');
}

describe('a replica of the engine that does not clear its cache', () => {
  const failures: readonly (readonly [string, StubAnswer, string])[] = [
    ['refuses the login', sendText('no', { status: 401 }), 'It refused the login (status 401).'],
    [
      'answers a wrong password as the real one does',
      sendXml(faultAnswer()),
      'It answered with a SOAP Fault, as to a wrong password.',
    ],
    ['fails', sendText('no', { status: 500 }), 'It answered with status 500.'],
    [
      'sends elsewhere',
      sendText('Cache has been cleared.', { status: 302, headers: { location: '/login' } }),
      'It answered with status 302, a redirect, which is not followed.',
    ],
    [
      'shows a page',
      sendText('<!DOCTYPE html><p>Log in</p>'),
      'It answered with a document instead of the words of clearCache.',
    ],
    ['says something else', sendText('busy'), 'It answered with another text: "busy".'],
    [
      'breaks off',
      (response) => void response.destroy(),
      'It cannot be reached, or broke off its answer.',
    ],
    [
      'breaks off after the words',
      (response) => {
        response.writeHead(200, { 'content-length': 99 });
        response.write('Cache has been cleared.', () => response.destroy());
      },
      'It cannot be reached, or broke off its answer.',
    ],
    ['is silent', () => {}, 'It did not answer in time.'],
  ];

  test.each(failures)('and %s is named in a 502, with what was done', async (_how, answer, why) => {
    two.clearWith(answer);
    // Whoever is not silent has all the time of a busy machine.
    const gateway = await start(why.includes('in time') ? { timeout: '3s' } : {});
    await warm(gateway);
    const refused = await clearCache(gateway);
    expect([refused.status, refused.headers['retry-after']]).toEqual([502, '5']);
    expect(refused.text).toContain(`Not emptied: the cache of ${urlOf(two)}. ${why}`);
    expect(refused.text).toContain(`Emptied: the cache of ${urlOf(one)}.`);
    expect(refused.text).not.toMatch(/has been cleared/i);
    // The gateway's own entries are dropped all the same.
    expect(await statusOf(gateway)).toBe('miss stored');
  });

  test('is named in JSON for programs, with the receipt', async () => {
    two.clearWith(sendText('busy', { status: 503 }));
    const gateway = await start();
    const { status, text } = await clearCache(gateway, { accept: 'application/json' });
    expect(status).toBe(502);
    expect(JSON.parse(text)).toEqual({
      error: 'engine-not-cleared',
      message: expect.stringContaining('The entries of the project are dropped'),
      status: 'engine-not-cleared',
      id: expect.any(String),
      scope: { project: 'learn' },
      epochs_renewed: ['project:learn', 'unassigned'],
      replicas: 1,
      waited: expect.any(Number),
      known: false,
      engine_calls: 2,
      engines: [
        { replica: urlOf(one), ok: true },
        { replica: urlOf(two), ok: false, why: 'It answered with status 503.' },
      ],
    });
  });

  test('is told to the log, without the login', async () => {
    one.clearWith(sendText('busy', { status: 503 }));
    const gateway = await start(SERVICE);
    await clearCache(gateway);
    expect(gateway.events).toContainEqual(
      expect.objectContaining({ type: 'engine-failed', reason: 'engine-not-cleared' }),
    );
    expect(JSON.stringify(gateway.events)).not.toContain(SECRET);
  });

  test('clears it when it is called again', async () => {
    one.clearWith(sendText('busy', { status: 503 }));
    const gateway = await start();
    expect((await clearCache(gateway)).status).toBe(502);
    one.clearWith();
    expect((await clearCache(gateway)).status).toBe(200);
  });
});

test('an engine that cleared its cache while Redis is away is said to be emptied, in a 503', async () => {
  const redis = await startRedis();
  const hole = await startBlackHole(redis.port);
  const gateway = await start({}, { redis: { url: `redis://127.0.0.1:${hole.port}` } });
  await hole.set('refuse');
  two.clearWith(sendText('Not cleared.'));
  const text = await clearCache(gateway);
  const json = await clearCache(gateway, { accept: 'application/json' });
  for (const answer of [text, json]) {
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '5']);
    expect(JSON.stringify([answer.text, answer.headers])).not.toMatch(/cleared/i);
  }
  expect(text.text).toContain(`Emptied: the cache of ${urlOf(one)}.`);
  expect(text.text).toContain(`Not emptied: the cache of ${urlOf(two)}.`);
  expect(JSON.parse(json.text)).toMatchObject({
    error: 'purge-failed',
    engines: [{ ok: true }, { ok: false }],
  });
  await hole.set('forward');
  await gateway.close();
  gateways.length = 0;
  await hole.close();
  await redis.close();
});
