import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hash } from 'bcrypt';
import { systemClock } from '../../../src/common/clock.ts';
import { createCache } from '../../../src/compose/cache.ts';
import { createBodyAccount } from '../../../src/common/body-account.ts';
import type { Parts } from '../../../src/compose/parts.ts';
import { createRuntime } from '../../../src/compose/runtime.ts';
import { createStorage } from '../../../src/compose/storage.ts';
import { createFeatures } from '../../../src/features/all.ts';
import { loadConfig } from '../../../src/config/load-config.ts';
import { createKnownNames } from '../../../src/cache/projects.ts';
import { EVENTS } from '../../../src/features/events.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { send } from '../../support/http-client.ts';
import { gauges, NO_FLEET } from '../../support/gauges.ts';

const parts: Parts = {
  clock: systemClock,
  random: Math.random,
  randomBytes,
  sleep: async () => {},
  emit: () => {},
};

let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-runtime-'));
  writeFileSync(join(folder, 'users.htpasswd'), `alice:${await hash('alice', 4)}\n`);
  writeFileSync(join(folder, 'gateway.yaml'), 'listen: { open: [health] }\n');
});
afterAll(() => rmSync(folder, { recursive: true }));

async function makeRuntime() {
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
  const storage = await createStorage(config.storage, [], parts);
  const metrics = createMetrics(EVENTS, names, gauges({ memory: cache.memory.usage }));
  const runtime = await createRuntime(config, {
    cache,
    storage,
    purge: cache.purges.purge,
    invalidate: async () => true,
    metrics,
    features: createFeatures({
      ...NO_FLEET,
      ...parts,
      names,
      memory: cache.memory,
      metrics: () => metrics,
      fleet: cache.fleet,
      purge: cache.purges.purge,
    }),
    names,
    account,
    parts,
    isServing: () => true,
  });
  return {
    runtime,
    async close() {
      await runtime.close();
      await storage.close();
      await cache.close();
    },
  };
}

test('a request is under way as well while the pages that answer it are being loaded', async () => {
  const { runtime, close } = await makeRuntime();
  const ended = Promise.withResolvers<boolean>();
  const server = createServer((request, response) => {
    runtime.handle(request, response);
    runtime.idle().then(() => ended.resolve(response.writableEnded), ended.reject);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const answer = await send(`http://127.0.0.1:${port}`, { path: '/health/live' });
  expect([answer.status, await ended.promise]).toEqual([200, true]);
  await new Promise((resolve) => void server.close(resolve));
  await close();
});
