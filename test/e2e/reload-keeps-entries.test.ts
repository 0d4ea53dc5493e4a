import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { systemClock } from '../../src/clock.ts';
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
  const gateway = await startTestGateway(settings({}, {}), { clock, random: () => 0.5 });
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
