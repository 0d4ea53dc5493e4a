import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/common/clock.ts';
import { createEngineStates } from '../../../src/compose/engine-states.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { rowsetAnswer } from '../../support/answers.ts';
import { makeAuthority } from '../../support/certificates.ts';
import { sendXml, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';

const DEAD = 'http://127.0.0.1:1';

let stub: StubEngine;
let folder: string;

beforeAll(async () => {
  stub = await startStubEngine(sendXml(rowsetAnswer()));
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-states-'));
  writeFileSync(join(folder, 'users'), '');
});
beforeEach(() => {
  stub.seen.length = 0;
});
afterAll(async () => {
  await stub.close();
  rmSync(folder, { recursive: true });
});

function open(
  settings: Record<string, unknown>,
  clock = systemClock,
  before?: Parameters<typeof createEngineStates>[2],
) {
  const text = JSON.stringify({ auth: { users: join(folder, 'users') }, ...settings });
  writeFileSync(join(folder, 'gateway.yaml'), text);
  const readFile = (path: string) => readFileSync(path);
  const config = loadConfig({ file: 'gateway.yaml', env: {}, workingFolder: folder, readFile });
  return createEngineStates(config, { clock, emit: () => {} }, before);
}

async function statesOf(settings: Record<string, unknown>) {
  const engines = open(settings);
  const { ready, replicas } = await engines.states(true);
  engines.close();
  return { ready, states: replicas.map(({ url, state }) => [url, state]) };
}
const paths = () => stub.seen.map(({ url }) => url);

test('engines that are followed are asked for the next time: what went is seen, and what came back', async () => {
  const other = await startStubEngine(sendXml('', { status: 500 }));
  let skew = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + skew };
  const engines = open({ engine: { url: [stub.url, other.url] } }, clock);
  const followed = () => engines.follow().map(({ state }) => state);
  expect(followed()).toEqual([]);
  await engines.states(true);
  other.answerWith(sendXml(rowsetAnswer()));
  stub.answerWith(sendXml('', { status: 500 }));
  skew = 60_000;
  expect(followed()).toEqual(['up', 'down']);
  const becomes = async (...states: string[]) => {
    while (followed().join() !== states.join())
      await new Promise((resolve) => setTimeout(resolve, 5));
  };
  await becomes('down', 'up');
  // However often they are read, they are asked once in a while.
  for (let readings = 0; readings < 20; readings += 1) followed();
  expect([stub.seen.length, other.seen.length]).toEqual([2, 2]);
  stub.answerWith(sendXml(rowsetAnswer()));

  // One that a reload brought is asked as well.
  const fresh = await startStubEngine(sendXml(rowsetAnswer()));
  const next = open({ engine: { url: fresh.url } }, clock, engines.known());
  while (next.follow().length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(next.known()).toMatchObject([{ url: fresh.url, state: 'up' }]);
  next.close();
  await fresh.close();
  engines.close();
  await other.close();
});

describe('the engines of a configuration', () => {
  test('are ready as long as each has a replica that is up', async () => {
    expect(await statesOf({ engine: { url: [`${DEAD}/a`, stub.url] } })).toEqual({
      ready: true,
      states: [
        [`${DEAD}/a`, 'down'],
        [stub.url, 'up'],
      ],
    });
  });

  test('are not ready when one of them has none; each replica is shown and asked once', async () => {
    const projects = {
      Sales: { engine: { url: [`${DEAD}/a`, `${DEAD}/b`] } },
      Same: { engine: { url: [stub.url], timeout: '9s' } },
    };
    expect(await statesOf({ engine: { url: stub.url }, projects })).toEqual({
      ready: false,
      states: [
        [stub.url, 'up'],
        [`${DEAD}/a`, 'down'],
        [`${DEAD}/b`, 'down'],
      ],
    });
    expect(stub.seen).toHaveLength(1);
  });

  test('are asked for the first project that each of them serves', async () => {
    const url = `${stub.url}/{project}`;
    const own = { engine: { url: `${stub.url}/own/{project}` } };
    const projects = { Own: own, First: {}, Second: { engine: { timeout: '9s' } }, Other: own };
    await statesOf({ engine: { url }, projects });
    expect(paths()).toEqual(['/xmla/First', '/xmla/own/Own']);
  });

  test('are down where one of those that share a URL cannot be reached with its own authority', async () => {
    const authority = makeAuthority();
    const url = stub.url.replace('http:', 'https:');
    const { ready, states } = await statesOf({
      engine: { url: stub.url },
      projects: { A: { engine: { url } }, B: { engine: { url, ca: authority.certificate } } },
    });
    expect([ready, states]).toEqual([
      false,
      [
        [stub.url, 'up'],
        [url, 'down'],
      ],
    ]);
    authority.remove();
  });
});
