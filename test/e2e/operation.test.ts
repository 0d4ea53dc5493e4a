import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { systemClock } from '../../src/common/clock.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { faultAnswer, mddatasetAnswer } from '../support/answers.ts';
import { checkedSupertest } from '../support/checked-requests.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { gate, sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
let gateway: TestGateway;
const query = execute({ statement: 'SELECT FROM [Sales]' });

beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});
afterEach(() => gateway.close());

/** Milliseconds by which the clock of the gateway is ahead. */
let ahead = 0;
const clock = { ...systemClock, now: () => systemClock.now() + ahead };

const start = async (settings: Record<string, unknown> = {}) => {
  gateway = await startTestGateway({ engine: { url: engine.url }, ...settings }, { clock });
  return checkedSupertest(gateway.url);
};

describe('/health/live', () => {
  test('is open, and says nothing but up', async () => {
    const ask = await start();
    const { body, headers } = await ask.get('/health/live').expect(200);
    expect(body).toEqual({ status: 'up' });
    expect(headers['cache-control']).toBe('no-store');
    expect(headers).not.toHaveProperty('x-powered-by');
    expect(headers).not.toHaveProperty('etag');
    await ask.head('/health/live').expect(200);
    await ask.post('/health/live').expect(405).expect('allow', 'GET, HEAD, OPTIONS');
    await ask.options('/health/live').expect(204).expect('allow', 'GET, HEAD, OPTIONS');
  });
});

describe('/health/serving', () => {
  test('is open, and up whatever the engine does', async () => {
    const ask = await start({ engine: { url: 'http://127.0.0.1:1/' } });
    await ask.get('/health/ready').auth('alice', 'alice').expect(503);
    const { body, headers } = await ask.get('/health/serving').expect(200);
    expect(body).toEqual({ status: 'up' });
    expect(headers['cache-control']).toBe('no-store');
    await ask.head('/health/serving').expect(200);
    await ask.post('/health/serving').expect(405).expect('allow', 'GET, HEAD, OPTIONS');
    await ask.options('/health/serving').expect(204).expect('allow', 'GET, HEAD, OPTIONS');
    await ask.options('/health/ready').expect(204).expect('allow', 'GET, HEAD, OPTIONS');
  });

  test('is 503 from the beginning of a shutdown on', async () => {
    await start();
    const socket = connect(portOf(gateway.url), '127.0.0.1');
    await once(socket, 'connect');
    // A connection without a request would be closed.
    socket.write('GET /health/serving HTTP/1.1\r\n');
    await send(gateway.url, { path: '/health/live' });
    const closed = gateway.gateway.close(10_000);
    socket.write('Host: here\r\n\r\n');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(String(answer)).toMatch(/^HTTP\/1\.1 503 [^]*\{"status":"down"\}/);
    socket.destroy();
    await closed;
  });
});

describe('/health/ready', () => {
  test('needs a login, unless it is open', async () => {
    const ask = await start();
    const refused = await ask.get('/health/ready').expect(401);
    expect(refused.headers['www-authenticate']).toMatch(/^Basic /);
    expect(refused.body).toEqual({ error: 'unauthenticated', message: expect.any(String) });
    await ask.get('/health/ready').auth('alice', 'alice').expect(200);
    await gateway.close();
    await (await start({ listen: { open: ['health'] } })).get('/health/ready').expect(200);
  });

  test('names the state of every engine and of Redis', async () => {
    const other = await startStubEngine(sendXml(faultAnswer(), { status: 500 }));
    const ask = await start({ projects: { Other: { engine: { url: other.url } } } });
    const ready = () => ask.get('/health/ready').auth('alice', 'alice');
    expect((await ready().expect(200)).body).toEqual({
      status: 'ready',
      engines: [
        { url: engine.url, state: 'up' },
        { url: other.url, state: 'up' },
      ],
      redis: { state: 'off', mode: 'none', purges_owed: 0, conditions: [] },
      storage: { driver: 'sqlite', state: 'up' },
    });
    await other.close();
    ahead += 10_000;
    expect((await ready().expect(503)).body).toMatchObject({
      status: 'not ready',
      engines: [
        { url: engine.url, state: 'up' },
        { url: other.url, state: 'down' },
      ],
    });
  });

  test.each([
    ['a wrong path', sendXml('<html/>', { status: 404, headers: { 'content-type': 'text/html' } })],
    ['a page that is no answer', sendXml('<html/>', { headers: { 'content-type': 'text/html' } })],
  ])('is 503 with %s, and says why unless it is open to all', async (_what, answer) => {
    engine.answerWith(answer);
    const ask = await start();
    const { body } = await ask.get('/health/ready').auth('alice', 'alice').expect(503);
    const why = expect.stringContaining('no SOAP envelope') as unknown;
    expect(body).toMatchObject({
      status: 'not ready',
      engines: [{ url: engine.url, state: 'down', why }],
    });
    await gateway.close();
    const open = await start({ listen: { open: ['health'] } });
    const shown = (await open.get('/health/ready').expect(503)).body as { engines: unknown };
    expect(shown.engines).toEqual([{ url: engine.url, state: 'down' }]);
  });

  test('is 503 with a Redis as engine, with TLS that does not fit, and with what never answers', async () => {
    const redis = await startRedis();
    const silent = createServer((socket) => void socket.on('error', () => {}));
    await once(silent.listen(0, '127.0.0.1'), 'listening');
    const { port } = silent.address() as AddressInfo;
    const urls = [
      redis.url.replace('redis:', 'http:'),
      redis.url.replace('redis:', 'https:'),
      engine.url.replace('http:', 'https:'),
      `http://127.0.0.1:${port}/xmla`,
    ];
    const projects = Object.fromEntries(urls.map((url, at) => [`P${at}`, { engine: { url } }]));
    const ask = await start({ projects });
    const { body } = await ask.get('/health/ready').auth('alice', 'alice').expect(503);
    const down = urls.map((url) => ({ url, state: 'down', why: expect.any(String) as unknown }));
    expect(body).toMatchObject({ engines: [{ url: engine.url, state: 'up' }, ...down] });
    silent.close();
    await redis.close();
  });

  test('is 200 with an engine that wants a login', async () => {
    engine.answerWith(
      sendXml('<html/>', { status: 401, headers: { 'content-type': 'text/html' } }),
    );
    const ask = await start({ engine: { url: engine.url, login: 'forward' } });
    await ask.get('/health/ready').auth('alice', 'alice').expect(200);
    expect(engine.seen.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });

  test('asks an engine once within ten seconds, past admission, cache and metrics', async () => {
    const ask = await start({
      listen: { open: ['health', 'metrics'] },
      limits: { concurrency: 1, queue: 0 },
    });
    const door = gate();
    engine.answerWith(async (response, seen) => {
      if (!String(seen.body).includes('DISCOVER_DATASOURCES')) await door.opened;
      void sendXml(mddatasetAnswer())(response, seen);
    });
    const query = askXmla(gateway.url, execute({ statement: 'SELECT FROM [Slow]' }));
    await until(() => engine.seen.length === 1);
    // The only place at the engine is taken.
    const ready = async () => (await send(gateway.url, { path: '/health/ready' })).status;
    const asked = await Promise.all(Array.from({ length: 10 }, ready));
    expect([...asked, await ready()]).toEqual(Array<number>(11).fill(200));
    expect(engine.seen).toHaveLength(2);
    door.open();
    await query;
    ahead += 10_000;
    expect([await ready(), engine.seen.length]).toEqual([200, 3]);
    const { text } = await ask.get('/metrics');
    const counts = text.match(/^mdx_gateway_xmla_requests_total\{.*\} \d+$/gm);
    expect(counts).toEqual([expect.stringMatching(/ 1$/)]);
    expect(gateway.events.filter(({ type }) => type === 'engine-answered')).toHaveLength(1);
  });

  test('stays ready without Redis, and says that it is down', async () => {
    const ask = await start({ cache: { redis: { url: 'redis://127.0.0.1:1' } } });
    const { body } = await ask.get('/health/ready').auth('alice', 'alice').expect(200);
    expect(body).toMatchObject({ redis: { state: 'down' } });
  });
});

describe('/metrics', () => {
  test('needs a login, unless it is open', async () => {
    const ask = await start();
    await ask.get('/metrics').expect(401);
    await ask
      .get('/metrics')
      .auth('alice', 'alice')
      .expect(200)
      .expect('content-type', /^text\/plain/);
    await ask
      .post('/metrics')
      .auth('alice', 'alice')
      .expect(405)
      .expect('allow', 'GET, HEAD, OPTIONS');
    await gateway.close();
    await (await start({ listen: { open: ['metrics'] } })).get('/metrics').expect(200);
  });

  test('count what happened, by outcome, reason and project', async () => {
    const ask = await start({ auth: { purgers: ['alice'] } });
    const path = '/mdx/xmla/FoodMart';
    await askXmla(gateway.url, query, { path });
    await askXmla(gateway.url, query, { path });
    await askXmla(gateway.url, execute({ statement: 'CALL x()' }), { path });
    await send(gateway.url, { path: '/mdx/xmla/a/b' });
    await send(gateway.url, {
      path: '/mdx/xmla/FoodMart/clearCache',
      headers: { authorization: basic('alice') },
    });
    const { text } = await ask.get('/metrics').auth('alice', 'alice');
    const lines = text
      .split('\n')
      .filter((line) => /^mdx_gateway_(xmla_req|stored|purges)/.test(line));
    expect(lines).toEqual(
      expect.arrayContaining([
        'mdx_gateway_xmla_requests_total{outcome="miss",reason="",project="FoodMart"} 1',
        'mdx_gateway_xmla_requests_total{outcome="hit",reason="memory",project="FoodMart"} 1',
        'mdx_gateway_xmla_requests_total{outcome="bypass",reason="not-a-query",project="FoodMart"} 1',
        'mdx_gateway_xmla_requests_total{outcome="gateway",reason="not-found",project=""} 1',
        'mdx_gateway_stored_total{project="FoodMart"} 1',
        `mdx_gateway_stored_bytes_total ${mddatasetAnswer().length}`,
        'mdx_gateway_purges_total{result="cleared",scope="project",cause="clear-cache"} 1',
      ]),
    );
  });
});

test('a gateway alone, which makes its epochs by itself, never says that they are old', async () => {
  await start({ listen: { open: ['metrics'] } });
  expect(shortStatus(await askXmla(gateway.url, query))).toBe('miss stored');
  ahead += 600_000;
  expect(shortStatus(await askXmla(gateway.url, query))).toBe('hit');
  const { text } = await send(gateway.url, { path: '/metrics' });
  expect(text).toContain('\nmdx_gateway_epoch_age_seconds 0\n');
});

test('every path that is none is answered in JSON by 404', async () => {
  await start();
  const paths = ['/none', '/favicon.ico', '/mdx', '/%', '/health'];
  const answers = await Promise.all(paths.map((path) => send(gateway.url, { path })));
  expect(answers.map(({ status }) => status)).toEqual(paths.map(() => 404));
  expect(answers.map(({ text }) => JSON.parse(text) as unknown)).toEqual(
    paths.map(() => expect.objectContaining({ error: 'not-found' })),
  );
});

test('on /metrics the name of every counter ends in _total, and of nothing else', async () => {
  await start();
  const headers = { authorization: basic('bob') };
  const { text } = await send(gateway.url, { path: '/metrics', headers });
  const types = [...text.matchAll(/^# TYPE (\S+) (\w+)$/gm)];
  expect(types.length).toBeGreaterThan(60);
  const wrong = types.filter(
    ([, name = '', type]) => name.endsWith('_total') !== (type === 'counter'),
  );
  expect(wrong.map(([line]) => line)).toEqual([]);
  expect(text).toMatch(/^mdx_gateway_nodejs_active_handles\{type="\w+"\} [1-9]/m);
});

test('/api is answered in its envelope', async () => {
  const ask = await start();
  const { body } = await ask.get('/api/unknown').auth('alice', 'alice').expect(404);
  expect(body).toEqual({
    status: 1,
    data: 'failure',
    errorMesg: expect.stringMatching(/^\[NOT-FOUND\] /),
    code: 'not-found',
  });
});

describe('a reload', () => {
  test('keeps what is cached when nothing of the cache changed', async () => {
    await start();
    await askXmla(gateway.url, query);
    await gateway.reload({ engine: { url: engine.url }, auth: { purgers: ['bob'] } });
    expect(shortStatus(await askXmla(gateway.url, query))).toBe('hit');
  });

  test('lets a request end that is under way, and counts for the next one', async () => {
    await start();
    const rest = gate();
    engine.answerWith(async (response, seen) => {
      await rest.opened;
      void sendXml(mddatasetAnswer())(response, seen);
    });
    const slow = askXmla(gateway.url, query);
    const slower = askXmla(gateway.url, execute({ statement: 'CALL slow()' }));
    while (engine.seen.length < 2) await new Promise(setImmediate);
    await gateway.reload({ engine: { url: 'http://127.0.0.1:1/' }, cache: { ttl: '11h' } });
    expect((await askXmla(gateway.url, execute({ statement: 'CALL x()' }))).status).toBe(502);
    rest.open();
    for (const answer of await Promise.all([slow, slower])) {
      expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
    }
  });

  test('that fails leaves everything as it was', async () => {
    await start();
    await askXmla(gateway.url, query);
    // Its users file is there when the configuration is read, and gone a moment later.
    const files = new Map([
      [
        '/no/such/folder/g.yaml',
        'cache: { ttl: 1m, memory: 64MiB }\nstorage: { driver: http, url: "http://127.0.0.1:1" }',
      ],
      ['/no/such/folder/users.htpasswd', `ADMIN:$2b$04$${'a'.repeat(53)}`],
    ]);
    const config = loadConfig({
      file: '/no/such/folder/g.yaml',
      env: {},
      workingFolder: '/no/such/folder',
      readFile: (path) => Buffer.from(files.get(path) ?? ''),
    });
    await expect(gateway.gateway.reload(config)).rejects.toThrow('users');
    expect(shortStatus(await askXmla(gateway.url, query))).toBe('hit');
  });

  test('that begins before a slower one has ended is the one that counts', async () => {
    await start();
    const unreachable = { redis: { url: 'redis://127.0.0.1:1' } };
    await Promise.all([
      gateway.reload({ engine: { url: 'http://127.0.0.1:1/' }, cache: unreachable }),
      gateway.reload({ engine: { url: engine.url } }),
    ]);
    expect((await askXmla(gateway.url, query)).status).toBe(200);
    expect(shortStatus(await askXmla(gateway.url, query))).toBe('hit');
  });
});
