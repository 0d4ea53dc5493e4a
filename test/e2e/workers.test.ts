import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { makeAuthority, type Certificate } from '../support/certificates.ts';
import { callDbtHook, dbtRun, SECRET } from '../support/hooks.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { sendXml } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';
import {
  engine,
  folder,
  query,
  OLD,
  NEW,
  run,
  serve,
  serveForAll,
  type SharedHouse,
  messages,
  linesOf,
  whoStored,
  warm,
  clearCache,
} from '../support/worker-processes.ts';

describe('workers without Redis', () => {
  let house: SharedHouse;
  beforeAll(async () => {
    house = await serveForAll({
      workers: 2,
      engine: { url: engine.url },
      cache: { lease: '100ms' },
      limits: { head_timeout: '2s' },
    });
  });
  afterAll(() => house.close());

  test('show one log of purges', async () => {
    const { url } = house;
    await clearCache(url);
    const headers = { authorization: basic('ADMIN') };
    for (let turn = 0; turn < 6; turn += 1) {
      let told: { complete: boolean; purges: readonly unknown[] };
      // It is written after the answer, and not whole where the primary process is asked in vain.
      do {
        const { text } = await send(url, { path: '/admin/purges', headers });
        told = JSON.parse(text) as typeof told;
      } while (!told.complete || told.purges.length === 0);
      expect(told).toMatchObject({ complete: true, purges: [{ principal: 'ADMIN' }] });
    }
  });

  test('all listen on one port, and each answers from its own memory', async () => {
    const { running, url, workers } = house;
    expect(workers).toHaveLength(2);
    expect(linesOf(running, 'listening')).toEqual([expect.objectContaining({ url, workers: 2 })]);
    await warm(running, url);
    expect(whoStored(running)).toEqual(new Set([1, 2]));
    for (let hits = 0; hits === 0;) {
      const fetched = engine.seen.length;
      const answers = await Promise.all(
        Array.from({ length: 20 }, async () => await askXmla(url, query)),
      );
      expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([OLD]));
      hits = answers.filter((answer) => shortStatus(answer) === 'hit').length;
      // Whoever could not ask for the epochs in time asked the engine; nobody else did.
      expect(engine.seen.length - fetched).toBeLessThanOrEqual(answers.length - hits);
    }
    const refused = await askXmla(url, query, { headers: { authorization: basic('nobody') } });
    expect(refused.status).toBe(401);
  });

  test('answer nothing older than a purge at one of them, once that is acknowledged', async () => {
    const { running, url } = house;
    // Nothing is in their memories any more.
    await clearCache(url);
    await warm(running, url);
    engine.answerWith(sendXml(NEW));
    const receipt = await clearCache(url);
    expect(receipt.status).toBe(200);
    const { waited } = JSON.parse(receipt.text) as { waited: number };
    expect(waited).toBeGreaterThanOrEqual(109);
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await askXmla(url, query)),
    );
    expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([NEW]));
  });

  test('ask an engine once for all of them, and say the same of it', async () => {
    const { running, url } = house;
    expect(linesOf(running, 'engine-state')).toEqual([
      expect.objectContaining({ url: engine.url, state: 'up', level: 'info' }),
    ]);
    const headers = { authorization: basic('alice') };
    const asked = () =>
      engine.seen.filter(({ body }) => String(body).includes('DISCOVER_DATASOURCES')).length;
    const before = asked();
    for (let turn = 0; turn < 6; turn += 1) {
      const ready = await send(url, { path: '/health/ready', headers });
      expect([ready.status, (await send(url, { path: '/health/serving' })).status]).toEqual([
        200, 200,
      ]);
      expect(JSON.parse(ready.text)).toMatchObject({ engines: [{ url: engine.url, state: 'up' }] });
    }
    // Ten seconds may be over once while they ask.
    expect(asked() - before).toBeLessThanOrEqual(1);
  });

  test('tell the requests and figures of all of them', async () => {
    const { url } = house;
    // They came to both.
    await askXmla(url, query);
    const headers = { authorization: basic('ADMIN') };
    const read = async (path: string) => {
      const { status, text } = await send(url, { path, headers });
      expect([path, status]).toEqual([path, 200]);
      return JSON.parse(text) as {
        total: number;
        totals: { asks: number };
        gateways: number;
        process: number;
        projects: { asks: number }[];
      };
    };
    // Whichever worker is asked, each request of both is there once.
    const { total } = await read('/admin/requests?user=alice');
    for (let turn = 0; turn < 6; turn += 1) {
      expect((await read('/admin/requests?user=alice&limit=1')).total).toBe(total);
      const { gateways, totals } = await read('/admin/statistics');
      expect([gateways, totals.asks]).toEqual([1, total]);
    }
    expect(total).toBeGreaterThan(1);
    for (let turn = 0; turn < 4; turn += 1) {
      const status = await read('/admin/status');
      expect(status).toMatchObject({ processes: 2, complete: true, engines: { up: 1, of: 1 } });
      expect(house.workers).toContain(status.process);
      const overview = await read('/admin/overview');
      expect(overview).toMatchObject({ gateways: 1, complete: true, findings: [] });
      expect(overview.projects.reduce((sum, { asks }) => sum + asks, 0)).toBe(total);
    }
  });

  test('have one storage', async () => {
    const { url } = house;
    const headers = { authorization: basic('ADMIN'), 'content-type': 'application/json' };
    const contains = [{ type: 'user', name: 'alice' }];
    const body = JSON.stringify({ name: 'Analysts', contains, description: '' });
    const made = await send(url, { method: 'POST', path: '/api/role', headers, body });
    expect([made.status, made.text]).toEqual([200, expect.any(String)]);
    for (let turn = 0; turn < 6; turn += 1) {
      const { text } = await send(url, {
        path: '/api/roles?pageNum=0&pageSize=20&containsDesc=false',
        headers,
      });
      expect(text).toContain('Analysts');
    }
  });

  test('close connections whose heads are late, and take a request that comes in pieces', async () => {
    const { url } = house;
    // Each of the workers has one of them.
    const late = Array.from({ length: 2 }, async () => {
      const socket = connect(portOf(url), '127.0.0.1', () =>
        socket.write('GET /health/live HTTP/1.1\r\n'),
      );
      const [answer] = (await once(socket, 'data')) as [Buffer];
      await once(socket, 'close');
      return String(answer);
    });
    for (const answer of await Promise.all(late)) expect(answer).toMatch(/^HTTP\/1\.1 408 /u);
    const socket = connect({ port: portOf(url), host: '127.0.0.1', allowHalfOpen: true });
    socket.write('GET /health/live HTTP/1.1\r\nhost: here\r\n');
    await once(socket, 'connect');
    // The end of what a client sends is not the end of its connection.
    socket.end('connection: close\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /u);
  });
});

test('workers speak HTTPS, and a renewed certificate counts at all of them', async () => {
  const [authority, renewed] = [makeAuthority(), makeAuthority()];
  const settings = ({ certificate, key }: Certificate) => ({
    workers: 2,
    engine: { url: engine.url },
    listen: { certificate, key },
  });
  const { running, url } = await serve(settings(authority.issue('gateway')));
  const ask = (ca: string) => send(url, { path: '/health/live', ca });
  for (let turn = 0; turn < 4; turn += 1) expect((await ask(authority.pem)).status).toBe(200);
  folder.write(settings(renewed.issue('gateway')));
  running.kill('SIGHUP');
  await until(() => messages(running).includes('configuration reloaded'));
  for (let turn = 0; turn < 4; turn += 1) expect((await ask(renewed.pem)).status).toBe(200);
  authority.remove();
  renewed.remove();
});

test('each worker tells the system of all: their figures, the whole configuration, and what waits for a restart', async () => {
  const settings = { workers: 2, engine: { url: engine.url } };
  const { running, url } = await serve(settings);
  const headers = { authorization: basic('ADMIN') };
  const system = async () => {
    let told: Record<string, unknown>;
    do {
      const { text } = await send(url, { path: '/admin/system', headers });
      told = JSON.parse(text) as typeof told;
    } while (told['complete'] !== true);
    return told;
  };
  const told = await system();
  const each = { pid: expect.any(Number), rss_bytes: expect.any(Number) };
  expect(told).toMatchObject({ processes: [each, each], waiting_for_restart: [] });
  expect(told['node']).toBe(process.version);
  expect(told['configuration']).toMatch(/^workers: 2$[^]*^ {2}memory: 256MiB$/mu);
  folder.write({ ...settings, workers: 3, cache: { memory: '300MiB', ttl: '7h' } });
  running.kill('SIGHUP');
  await until(() => messages(running).includes('configuration reloaded'));
  for (let turn = 0; turn < 4; turn += 1) {
    const { configuration, waiting_for_restart: waiting } = await system();
    expect(waiting).toEqual(['workers', 'cache.memory']);
    expect(configuration).toMatch(/^workers: 2$[^]*^ {2}ttl: 7h$[^]*^ {2}memory: 256MiB$/mu);
  }
});

test('a start that fails because the port is taken says so in one line and ends with 1', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const running = run(folder.write({ workers: 2, engine: { url: engine.url }, listen: { port } }));
  const { exit, stderr } = await running.ended;
  expect([exit, stderr]).toEqual([
    1,
    `mdx-gateway: listen: cannot listen on 127.0.0.1:${port}: another program listens there; choose another listen.port\n`,
  ]);
  taken.close();
});

describe('workers with hooks', () => {
  let house: SharedHouse;
  beforeAll(async () => {
    house = await serveForAll({
      workers: 2,
      engine: { url: engine.url },
      cache: { lease: '100ms' },
      hooks: { dbt: { format: 'dbt', secret: SECRET, projects: ['FoodMart'] } },
    });
  });
  afterAll(() => house.close());

  test('all take messages of hooks, each message once', async () => {
    const body = dbtRun();
    const calls = Array.from({ length: 6 }, () => callDbtHook(house.url, 'dbt', body));
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, ...Array<number>(5).fill(403)]);
    await until(() => linesOf(house.running, 'purged').length > 0);
    expect(linesOf(house.running, 'purged')).toMatchObject([{ principal: 'hook:dbt' }]);
    // What was counted at several of them.
    const headers = { authorization: basic('ADMIN') };
    const { text } = await send(house.url, { path: '/metrics', headers });
    expect(text).toContain('mdx_gateway_hook_calls_total{hook="dbt",result="refused"} 5\n');
  });
});
