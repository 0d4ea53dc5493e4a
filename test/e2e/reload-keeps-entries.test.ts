import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { systemClock } from '../../src/common/clock.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';

const HOUR = 3_600_000;
const ANSWER = mddatasetAnswer();

let engine: StubEngine;
beforeAll(async () => {
  const answer = sendXml(ANSWER);
  engine = await startStubEngine((response, request) => {
    if (!request.body.includes('[Silent]')) return answer(response, request);
  });
});
afterAll(() => engine.close());

/** A gateway whose time a test moves, with what it says of queries. */
async function house(cache: object = {}, engineSettings: object = {}) {
  const settings = (cacheChanged: object, engineChanged: object) => ({
    engine: { url: engine.url, ...engineSettings, ...engineChanged },
    cache: { ...cache, ...cacheChanged },
  });
  let passed = 0;
  const clock = {
    now: () => systemClock.now() + passed,
    wall: () => systemClock.wall() + passed,
  };
  const gateway = await startTestGateway(settings({}, {}), { clock, random: () => 0 });
  return {
    ask: async (cube: string) =>
      shortStatus(await askXmla(gateway.url, execute({ statement: `SELECT FROM [${cube}]` }))),
    pass: (milliseconds: number) => void (passed += milliseconds),
    reload: (cacheChanged: object, engineChanged: object = {}) =>
      gateway.reload(settings(cacheChanged, engineChanged)),
    close: gateway.close,
  };
}

test('a reload that changes cache.ttl keeps the entries; a shorter one counts for those that are there', async () => {
  const { ask, pass, reload, close } = await house({ ttl: '10h' });
  expect(await ask('Old')).toBe('miss stored');
  pass(2 * HOUR);
  expect(await ask('Young')).toBe('miss stored');
  await reload({ ttl: '20h' });
  expect([await ask('Old'), await ask('Young')]).toEqual(['hit', 'hit']);
  await reload({ ttl: '1h' });
  expect([await ask('Young'), await ask('Old')]).toEqual(['hit', 'miss stored']);
  await close();
});

test('a reload that changes cache.max_entry keeps the entries, and counts for the next ones', async () => {
  const { ask, reload, close } = await house();
  expect(await ask('There')).toBe('miss stored');
  expect(ANSWER.length).toBeGreaterThan(1_024);
  await reload({ max_entry: '1KiB' });
  expect([await ask('There'), await ask('Next')]).toEqual(['hit', 'miss too-large']);
  await reload({});
  expect([await ask('There'), await ask('Next')]).toEqual(['hit', 'miss stored']);
  await close();
});

test('a reload that changes engine.timeout keeps the entries, and counts for the next requests', async () => {
  const { ask, reload, close } = await house();
  expect(await ask('There')).toBe('miss stored');
  await reload({}, { timeout: '1s' });
  expect([await ask('There'), await ask('Silent')]).toEqual(['hit', 'gateway engine-timeout']);
  await close();
});

/** @returns what becomes of a query that was stored before the reload, and of one that came again after it */
async function across(before: object, after: object): Promise<readonly string[]> {
  const gateway = await startTestGateway({ engine: { url: engine.url }, ...before });
  const ask = async () =>
    shortStatus(await askXmla(gateway.url, execute({ statement: 'SELECT FROM [There]' })));
  const first = await ask();
  await gateway.reload({ engine: { url: engine.url }, ...before, ...after });
  const seen = [first, await ask()];
  await gateway.close();
  return seen;
}

test.each<[string, object]>([
  ['cache.lease', { cache: { lease: '200ms' } }],
  ['cache.memory, which waits', { cache: { memory: '64MiB' } }],
  ['cache.key_secret, which waits', { cache: { key_secret: 'x'.repeat(40) } }],
  ['cache.client_control', { cache: { client_control: 'everybody' } }],
  ['cache.purge', { cache: { purge: { repeat_after: '1h' } } }],
  ['limits', { limits: { concurrency: 3, per_user: 2, queue: 7, in_flight: '32MiB' } }],
  ['projects', { projects: { Other: { ttl: '1m' } } }],
  ['auth', { auth: { purgers: ['alice'], verified_for: '5s' } }],
  ['log.level', { log: { level: 'warn' } }],
])('a reload that changes %s keeps the entries', async (_what, after) => {
  expect(await across({}, after)).toEqual(['miss stored', 'hit']);
});

test.each<[string, object]>([
  ['engine.kind', { engine: { kind: 'ssas' } }],
  ['engine.login', { engine: { login: 'forward' } }],
  [
    'engine.service',
    { engine: { login: 'service', service: { name: 'other', password: 'secret' } } },
  ],
  ['engine.delegation', { engine: { delegation: 'refuse' } }],
  ['cache.share', { cache: { share: 'everyone' } }],
])('a reload that changes %s makes the entries unreachable', async (_what, after) => {
  const url = engine.url;
  const settings = 'engine' in after ? { engine: { url, ...(after.engine as object) } } : after;
  expect(await across({}, settings)).toEqual(['miss stored', 'miss stored']);
});

test('a reload that switches a cube off makes its entries unreachable', async () => {
  const after = { projects: { Sales: { cubes: { There: 'off' } } } };
  expect(await across({}, after)).toEqual(['miss stored', 'bypass cache-off']);
});
