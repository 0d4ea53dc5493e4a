import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hash } from 'bcrypt';
import supertest from 'supertest';
import { stringify } from 'yaml';
import { systemClock } from '../../src/common/clock.ts';
import { createCache } from '../../src/compose/cache.ts';
import { createBodyAccount } from '../../src/common/body-account.ts';
import type { Parts } from '../../src/compose/parts.ts';
import { createRuntime, type Runtime } from '../../src/compose/runtime.ts';
import { createStorage } from '../../src/compose/storage.ts';
import { createFeatures } from '../../src/features/all.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { EVENTS } from '../../src/features/events.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { createKnownNames } from '../../src/cache/projects.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { gauges, NO_FLEET } from '../support/gauges.ts';

const parts: Parts = {
  clock: systemClock,
  random: Math.random,
  randomBytes,
  sleep: async () => {},
  emit: () => {},
};

let folder: string;
let engine: StubEngine;
let app: Awaited<ReturnType<Runtime['app']>>;
let close: () => Promise<void>;

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-app-'));
  writeFileSync(join(folder, 'users.htpasswd'), `ADMIN:${await hash('admin', 4)}\n`);
  writeFileSync(join(folder, 'gateway.yaml'), stringify({ engine: { url: engine.url } }));
  const config = loadConfig({
    file: 'gateway.yaml',
    env: {},
    workingFolder: folder,
    readFile: (path) => readFileSync(path),
  });
  if (config.storage.driver === 'http') throw new Error('not the default');
  const account = createBodyAccount(() => config.limits);
  const clearing = { clear: async () => [], asksAsCaller: () => false };
  const names = createKnownNames(parts);
  const cache = await createCache(config, parts, account, clearing, names);
  const storage = await createStorage(config.storage, ['ADMIN'], parts);
  const metrics = createMetrics(EVENTS, names, gauges({ memory: cache.memory.usage }));
  const { purge } = cache.purges;
  const invalidate = async () => true;
  const runtime = await createRuntime(config, {
    cache,
    storage,
    purge,
    invalidate,
    metrics,
    features: createFeatures({
      ...NO_FLEET,
      ...parts,
      names,
      memory: cache.memory,
      metrics: () => metrics,
      fleet: cache.fleet,
      purge,
    }),
    names,
    account,
    parts,
    isServing: () => true,
  });
  app = await runtime.app();
  close = async () => {
    await runtime.close();
    await storage.close();
    await cache.close();
  };
});
afterAll(async () => {
  await close();
  await engine.close();
  rmSync(folder, { recursive: true });
});

const get = (path: string) => supertest(app).get(path).auth('ADMIN', 'admin');
const ask = (path: string) =>
  supertest(app)
    .post(path)
    .auth('ADMIN', 'admin')
    .set('content-type', 'text/xml')
    .send(execute({ statement: 'SELECT FROM [Sales]' }).toString());

test('the Express app alone answers queries, from the engine, by their key, and once they are remembered', async () => {
  const said: (string | undefined)[] = [];
  for (let asked = 0; asked < 6; asked += 1) {
    const { status, headers, text } = await ask('/mdx/xmla/Sales');
    expect([status, text]).toEqual([200, mddatasetAnswer()]);
    said.push(headers['cache-status']?.split('; ')[1]);
  }
  expect(said).toEqual(['fwd=miss', ...Array.from({ length: 5 }, () => 'hit')]);
  expect(engine.seen).toHaveLength(1);
});

test('it clears the cache', async () => {
  const cleared = await get('/mdx/xmla/Sales/clearCache');
  expect([cleared.status, cleared.text]).toEqual([200, 'Sales Cache has been cleared.']);
  expect((await ask('/mdx/xmla/Sales')).headers['cache-status']).toMatch(/fwd=miss/);
});

test.each([
  ['/api/roles?pageNum=0&pageSize=10&containsDesc=true', /"status":0/],
  ['/admin/purges', /"purges"/],
  ['/health/live', /"up"/],
  ['/health/ready', /"ready"/],
  ['/metrics', /mdx_gateway_xmla_requests_total/],
  ['/openapi.json', /"openapi"/],
  ['/docs/', /<html/i],
])('it serves %s', async (path, text) => {
  const page = await get(path);
  expect([page.status, text.test(page.text)]).toEqual([200, true]);
});

test('it explains a request, and knows no other path', async () => {
  const explained = await ask('/admin/explain');
  expect(explained.body).toMatchObject({ classification: { decision: 'cacheable' } });
  expect((await get('/nothing')).status).toBe(404);
});
