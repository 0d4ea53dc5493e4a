import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../src/common/clock.ts';
import { createEngines } from '../../../src/compose/engines.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { sendText, startKylinEngine, type KylinEngine } from '../../support/kylin-engine.ts';
import { startStubEngine, type StubEngine } from '../../support/stub-engine.ts';
import { shared } from '../../support/opened.ts';

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
  return createEngines(config, { clock: systemClock, emit: () => {} });
}

describe('the engines of a configuration', () => {
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

describe('projects whose names count as the same', () => {
  test('have each its own engine, and another spelling has that of the first', () => {
    const made = engines({
      engine: { url: stub.url },
      projects: {
        Sales: { engine: { kind: 'ssas' } },
        Ｓales: { engine: { kind: 'mondrian' } },
        sALES: {},
      },
    });
    const kindOf = (name: string) => made.engineOf(name).settings.kind;
    expect(['Sales', 'Ｓales', 'sALES', 'SALES'].map(kindOf)).toEqual([
      'ssas',
      'mondrian',
      'generic',
      'ssas',
    ]);
    made.close();
  });
});

describe('clearing the caches of engines', () => {
  const common = shared(() => startKylinEngine());
  const own = shared(() => startKylinEngine());
  beforeEach(() => {
    for (const one of [common, own]) {
      one.cleared.length = 0;
      one.clearWith();
    }
  });

  const kylin = ({ base }: KylinEngine, more: Record<string, unknown> = {}) => ({
    url: `${base}/mdx/xmla/{project}`,
    kind: 'kylin',
    clear: 'kylin',
    ...more,
  });
  const paths = ({ cleared }: KylinEngine) => cleared.map(({ url }) => url);

  test('of a project asks the engine that is configured for it, however it is spelt, and no other', async () => {
    const made = engines({
      engine: kylin(common),
      projects: { Sales: { engine: kylin(own) } },
    });
    for (const project of ['Sales', ' sALES ', 'Other']) await made.clear({ project }, undefined);
    expect(paths(own)).toEqual(['/mdx/xmla/Sales/clearCache', '/mdx/xmla/%20sALES%20/clearCache']);
    expect(paths(common)).toEqual(['/mdx/xmla/Other/clearCache']);
    made.close();
  });

  test('of everything asks all engines, and a replica that stands in several settings once', async () => {
    const made = engines({
      engine: kylin(common),
      projects: {
        Sales: { engine: kylin(own) },
        Slow: { engine: { timeout: '9s' } },
        Server: { engine: { url: `${common.base}/mdx/xmla_server` } },
        Uncleared: { engine: { url: `${DEAD}/mdx/xmla`, clear: 'none' } },
      },
    });
    const done = await made.clear('everything', undefined);
    expect(done.map(({ ok }) => ok)).toEqual([true, true]);
    expect([paths(common), paths(own)]).toEqual([
      ['/mdx/xmla/clearCache'],
      ['/mdx/xmla/clearCache'],
    ]);
    made.close();
  });

  test('asks a replica once for each login', async () => {
    const service = (name: string) => ({ login: 'service', service: { name, password: 'x' } });
    const made = engines({
      engine: kylin(common, service('one')),
      projects: { Sales: { engine: service('two') }, Same: { engine: service('one') } },
    });
    await made.clear('everything', undefined);
    expect(common.cleared.map(({ headers }) => headers.authorization)).toEqual(
      ['one:x', 'two:x'].map((text) => `Basic ${Buffer.from(text).toString('base64')}`),
    );
    made.close();
  });

  test('tells of each replica, and never rejects', async () => {
    common.clearWith(sendText('busy', { status: 503 }));
    const made = engines({
      engine: kylin(common, { url: [`${common.base}/mdx/xmla`, `${own.base}/mdx/xmla`] }),
    });
    expect(await made.clear({ project: '..' }, undefined)).toMatchObject([
      { ok: false },
      { ok: false },
    ]);
    expect(await made.clear('everything', undefined)).toEqual([
      {
        replica: `${common.base}/mdx/xmla`,
        ok: false,
        why: 'It answered with status 503.',
      },
      { replica: `${own.base}/mdx/xmla`, ok: true },
    ]);
    made.close();
  });
});
