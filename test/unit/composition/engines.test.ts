import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { systemClock } from '../../../src/clock.ts';
import { createEngines } from '../../../src/composition/engines.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { startStubEngine, type StubEngine } from '../../support/stub-engine.ts';

const DEAD = 'http://127.0.0.1:1';

let stub: StubEngine;
let folder: string;

beforeAll(async () => {
  stub = await startStubEngine(() => {});
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-engines-'));
  writeFileSync(join(folder, 'users'), '');
});
afterAll(async () => {
  await stub.close();
  rmSync(folder, { recursive: true });
});

function engines(settings: Record<string, unknown>) {
  const text = JSON.stringify({ auth: { users: join(folder, 'users') }, ...settings });
  const config = loadConfig({
    file: join(folder, 'gateway.yaml'),
    env: {},
    workingFolder: folder,
    readFile: (path) => (path.endsWith('.yaml') ? Buffer.from(text) : Buffer.alloc(0)),
  });
  return createEngines(config, {
    clock: systemClock,
    random: Math.random,
    randomBytes,
    sleep: async () => {},
    emit: () => {},
  });
}

describe('the engines of a configuration', () => {
  test('are ready as long as each has a replica that is up', async () => {
    const made = engines({ engine: { url: [`${DEAD}/a`, stub.url] } });
    expect(await made.states()).toEqual({
      ready: true,
      replicas: [
        { url: `${DEAD}/a`, state: 'down' },
        { url: stub.url, state: 'up' },
      ],
    });
    made.close();
  });

  test('are not ready when one of them has none, and show each replica once', async () => {
    const made = engines({
      engine: { url: stub.url },
      projects: {
        Sales: { engine: { url: [`${DEAD}/a`, `${DEAD}/b`] } },
        Same: { engine: { url: [stub.url], timeout: '9s' } },
      },
    });
    expect(await made.states()).toEqual({
      ready: false,
      replicas: [
        { url: stub.url, state: 'up' },
        { url: `${DEAD}/a`, state: 'down' },
        { url: `${DEAD}/b`, state: 'down' },
      ],
    });
    made.close();
  });

  test('are shared by projects with equal settings, and know their own', () => {
    const made = engines({
      engine: { url: stub.url },
      projects: { One: {}, Two: { engine: { kind: 'ssas' } } },
    });
    const general = made.engineOf(undefined);
    expect(made.engineOf('one').engine).toBe(general.engine);
    expect(made.engineOf('unknown').engine).toBe(general.engine);
    const two = made.engineOf('Two');
    expect([two.engine === general.engine, two.settings.kind]).toEqual([false, 'ssas']);
    made.close();
  });
});
