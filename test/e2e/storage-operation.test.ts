import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { configFolder, runMain } from '../support/gateway-process.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway } from '../support/test-gateway.ts';
import { ask, dataOf, failureOf } from '../contract/api-client.ts';

let engine: StubEngine;
/** A remote server that answers a change when a test lets it. */
let remote: StubEngine;
let folder: string;
let letThrough = gate();

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  remote = await startStubEngine(async (response) => {
    await letThrough.opened;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('{"status":0,"data":{"dataset_id":7}}');
  });
  folder = mkdtempSync(join(tmpdir(), 'mdx-gateway-storage-'));
});
beforeEach(() => {
  letThrough = gate();
});
afterAll(async () => {
  await engine.close();
  await remote.close();
  rmSync(folder, { recursive: true });
});

const settings = (storage: object) => ({ engine: { url: engine.url }, storage });
const inFile = (name: string) => settings({ path: join(folder, `${name}.sqlite`) });
const atRemote = () => settings({ driver: 'http', url: new URL(remote.url).origin });

const DATASET = { project: 'Sales', dataset_name: 'd', type: 'MDX' };
const role = (name: string) => ({ name, description: '', contains: [] });

async function create(base: string, name: string): Promise<void> {
  dataOf(await ask(base, '/role', { method: 'POST', json: role(name) }));
}

async function names(base: string): Promise<string[]> {
  const query = '/roles?pageNum=0&pageSize=9&containsDesc=false';
  const { list } = dataOf(await ask(base, query)) as { list: { name: string }[] };
  return list.map(({ name }) => name);
}

/** Begins an update at the remote server, and resolves when that has it. */
async function beginUpdate(base: string) {
  const before = remote.seen.length;
  const answer = ask(base, '/dataset', { method: 'PUT', json: DATASET });
  while (remote.seen.length === before) await new Promise((resolve) => setImmediate(resolve));
  return { answer };
}

describe('a reload of the configuration', () => {
  test('that names another storage leaves it as it is, and says that it changes by a restart', async () => {
    const gateway = await startTestGateway(inFile('one'));
    await create(gateway.url, 'in the first');
    await gateway.reload(inFile('two'));
    expect(await names(gateway.url)).toEqual(['in the first', 'Admin']);
    expect(gateway.events).toContainEqual({
      type: 'warning',
      message: 'these keys change by a restart: storage',
    });
    await gateway.close();
  });

  test('keeps the storage when something else changed', async () => {
    const gateway = await startTestGateway(inFile('kept'));
    await create(gateway.url, 'a');
    await gateway.reload({ ...inFile('kept'), cache: { ttl: '1h' } });
    expect(await names(gateway.url)).toEqual(['a', 'Admin']);
    await gateway.close();
  });

  test('lets a change that is under way come to its end, its purge too', async () => {
    const gateway = await startTestGateway(atRemote());
    const query = execute({ statement: 'SELECT FROM [a]', properties: { Catalog: 'Sales' } });
    const { answer } = await beginUpdate(gateway.url);
    await gateway.reload({ ...atRemote(), cache: { ttl: '1h' } });
    await askXmla(gateway.url, query);
    expect(shortStatus(await askXmla(gateway.url, query))).toBe('hit');
    letThrough.open();
    expect(dataOfRemote(await answer)).toEqual({ dataset_id: 7 });
    expect(shortStatus(await askXmla(gateway.url, query))).toBe('miss stored');
    await gateway.close();
  });
});

const dataOfRemote = ({ text }: { text: string }) => (JSON.parse(text) as { data: unknown }).data;

describe('a shutdown', () => {
  test('waits for a change that is under way', async () => {
    const gateway = await startTestGateway(atRemote());
    const { answer } = await beginUpdate(gateway.url);
    const closed = gateway.close();
    letThrough.open();
    expect((await answer).status).toBe(200);
    await closed;
  });
});

describe('a start', () => {
  test('with a file and a Redis warns that other gateways have roles of their own', async () => {
    const redis = await startRedis();
    const gateway = await startTestGateway({
      ...inFile('alone'),
      cache: { redis: { url: redis.url } },
    });
    const warnings = gateway.events.filter(({ type }) => type === 'warning');
    expect(warnings).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining('storage.driver: sqlite') }),
    );
    await gateway.close();
    await redis.close();
  });

  test('with a storage that cannot be used ends with one line that names it', async () => {
    const place = await configFolder();
    const file = place.write({ storage: { path: '/proc/none/gateway.sqlite' } });
    const { exit, stderr } = await runMain(['serve', '--config', file]).ended;
    expect([exit, stderr]).toEqual([
      1,
      expect.stringMatching(/^mdx-gateway: storage\.path: \/proc\/none\/gateway\.sqlite [^\n]+\n$/),
    ]);
    place.remove();
  });

  test('without its PostgreSQL serves queries, and 503 under /api', async () => {
    const url = 'postgres://gateway:hunter2@127.0.0.1:1/db';
    const gateway = await startTestGateway(settings({ driver: 'postgres', url }));
    expect((await askXmla(gateway.url, execute({ statement: 'SELECT FROM [b]' }))).status).toBe(
      200,
    );
    expect(failureOf(await ask(gateway.url, '/role/1'))).toBe('503 storage-unavailable');
    expect(JSON.stringify(gateway.events)).not.toContain('hunter2');
    await gateway.close();
  });
});
