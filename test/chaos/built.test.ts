import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildGateway } from '../../bench/built-gateway.ts';
import { apiOf, dataOf, documentOf } from '../contract/api-client.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { configFolder, listening, runMain, type ConfigFolder } from '../support/gateway-process.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { startRedis, type RedisServer } from '../support/redis-server.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const QUERY = execute({ statement: 'SELECT FROM [Sales]' });
const PAGES = [
  '/health/live',
  '/health/ready',
  '/metrics',
  '/openapi.json',
  '/docs/',
  '/docs/swagger-ui-bundle.js',
  '/admin/purges',
  '/',
  '/console',
  '/console/system',
];

let built: string;
let main: string;
let folder: ConfigFolder;
let engine: StubEngine;
let redis: RedisServer;
beforeAll(async () => {
  built = mkdtempSync(join(tmpdir(), 'mdx-gateway-built-'));
  [main, folder, engine, redis] = await Promise.all([
    buildGateway(ROOT, built),
    configFolder(),
    startStubEngine(sendXml(mddatasetAnswer())),
    startRedis(),
  ]);
});
afterAll(async () => {
  await Promise.all([engine?.close(), redis?.close()]);
  folder?.remove();
  rmSync(built, { recursive: true, force: true });
});

/** Answers of the program as it is shipped, whose parts are files of their own: each must be found. */
test.each([
  ['alone', {}],
  ['with workers', { workers: 2 }],
  ['with Redis', () => ({ cache: { redis: { url: redis.url } } })],
])('what is built serves queries, pages, roles and datasets: %s', async (_how, settings) => {
  const file = folder.write({
    engine: { url: engine.url },
    storage: { path: './gateway.sqlite' },
    auth: { admins: ['ADMIN'] },
    ...(typeof settings === 'function' ? settings() : settings),
  });
  const running = runMain(['serve', '--config', file], { main });
  const base = await listening(running);
  const first = await askXmla(base, QUERY);
  expect([first.status, first.text]).toEqual([200, mddatasetAnswer()]);
  let again = await askXmla(base, QUERY);
  // Another worker, or not stored yet: never for long.
  while (!shortStatus(again).startsWith('hit')) again = await askXmla(base, QUERY);
  expect(again.text).toBe(mddatasetAnswer());

  for (const path of PAGES) {
    const page = await send(base, { path, headers: { authorization: basic('ADMIN') } });
    expect([path, page.status]).toEqual([path, 200]);
  }
  const headers = { authorization: basic('ADMIN') };
  const { text: html } = await send(base, { path: '/console', headers });
  for (const [, path = ''] of html.matchAll(/(?:src|href)="(\/console\/[^"]+\.\w+)"/g)) {
    expect([path, (await send(base, { path })).status]).toEqual([path, 200]);
  }
  const api = apiOf(base);
  const id = await api.created({ name: 'analysts' });
  expect(dataOf(await api.read(id))).toMatchObject({ name: 'analysts' });
  expect(dataOf(await api.remove(id))).toBe('success');
  expect((await api.replace(documentOf('Shop', 'Sales'))).status).toBe(404);
  running.kill('SIGTERM');
  expect(await running.ended).toMatchObject({ exit: 0, stderr: '' });
});

test('what is built runs the demo, and copies a storage', async () => {
  const demo = await runMain(['demo', '--once'], { main }).ended;
  expect(demo).toMatchObject({ exit: 0, stderr: '' });
  expect(demo.stdout).not.toContain('coalesced');
  const file = folder.write({ storage: { path: './gateway.sqlite' } });
  const copy = await runMain(['export-store', '--config', file], { main }).ended;
  expect([copy.exit, copy.stdout]).toEqual([0, expect.stringContaining('Admin')]);
});
