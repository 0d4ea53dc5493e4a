import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { readdirSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { loadConfig } from '../../src/config/load-config.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { freePort } from '../support/free-port.ts';
import {
  configFolder,
  listening,
  runMain,
  type ConfigFolder,
  type GatewayProcess,
} from '../support/gateway-process.ts';
import { askXmla, portOf, send, shortStatus, until, type Answer } from '../support/http-client.ts';
import { PROXIES, shippedProxy, startProxy, type Proxy } from '../support/proxies.ts';
import { sizes } from '../support/sizes.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic } from '../support/test-gateway.ts';

let count = 0;
/** A query that was not asked yet. */
const newQuery = () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]` });
const defaults = loadConfig({
  file: undefined,
  env: {},
  workingFolder: '/',
  readFile: () => Buffer.from(''),
});

/** Its own place among the addresses of loopback, as a client has one in a network. */
const from = (proxy: Proxy, localAddress: string) => new Agent({ localAddress, ca: proxy.ca });

describe.each(PROXIES)('behind %s, with one gateway of two away,', (name) => {
  let engine: StubEngine;
  let folder: ConfigFolder;
  let running: GatewayProcess;
  let base: string;
  let proxy: Proxy;
  beforeAll(async () => {
    [engine, folder] = await Promise.all([
      // In one form, since the heads of two answers are compared.
      startStubEngine(sendXml(mddatasetAnswer()), { framings: ['length'] }),
      configFolder(),
    ]);
    const file = folder.write({
      engine: { url: engine.url },
      listen: { trusted_proxies: ['127.0.0.1'], cors: { origins: ['https://bi.example'] } },
      log: { level: 'debug' },
    });
    running = runMain(['serve', '--config', file]);
    base = await listening(running);
    proxy = await startProxy(name, [portOf(base), await freePort()]);
  });
  afterAll(async () => {
    await proxy?.stop();
    running?.kill('SIGTERM');
    await running?.ended;
    await engine?.close();
    folder?.remove();
  });
  const logged = (id: unknown) => running.log.find((line) => line['id'] === id);
  const ask = (body = newQuery(), more: Parameters<typeof askXmla>[2] = {}) =>
    askXmla(proxy.url, body, { ca: proxy.ca, ...more });

  test('each answer is what the gateway says, refusals too', async () => {
    const query = newQuery();
    const xml = (more: object = {}, body = query) => ({
      method: 'POST',
      body,
      headers: { 'content-type': 'text/xml', authorization: basic('alice'), ...more },
    });
    const wrong = { authorization: `Basic ${Buffer.from('bob:wrong').toString('base64')}` };
    // A few hits make the compressed form.
    const compressed = xml({ 'accept-encoding': 'gzip' });
    while ((await send(base, compressed)).headers['content-encoding'] !== 'gzip');
    const messages = {
      hit: xml(),
      compressed,
      passed: xml({}, execute({ statement: 'CALL one()' })),
      'no login': xml({ authorization: '' }),
      'a wrong one before a long body': xml(wrong, Buffer.alloc(9_000_000, 'a')),
      'too big': xml({}, Buffer.alloc(20_000_000, 'a')),
      'a long head': xml({ 'x-long': 'a'.repeat(12_000) }),
      'another identity': xml({ execute_as_user_id: 'bob' }),
      preflight: {
        method: 'OPTIONS',
        headers: { origin: 'https://bi.example', 'access-control-request-method': 'POST' },
      },
      'an odd path': { path: '/mdx/xmla/a//b/%2e', headers: { authorization: basic('alice') } },
      page: { path: '/docs/swagger-ui.css', headers: { authorization: basic('ADMIN') } },
      live: { path: '/health/live' },
    };
    const statuses: Record<string, number> = {};
    for (const [what, message] of Object.entries(messages)) {
      const direct = await send(base, message);
      const through = await send(proxy.url, { ...message, ca: proxy.ca });
      expect([what, told(through)]).toEqual([what, told(direct)]);
      statuses[what] = through.status;
    }
    expect(Object.values(statuses)).toEqual([
      ...[200, 200, 200, 401, 401, 413, 200, 403, 204, 400, 200, 200],
    ]);
    const login = await send(proxy.url, { ...messages['no login'], ca: proxy.ca });
    expect(login.headers['www-authenticate']).toMatch(/^Basic /);
    const long = xml({ 'x-long': 'a'.repeat(20_000) });
    const refused = await send(proxy.url, { ...long, ca: proxy.ca });
    expect([refused.status, refused.text]).toEqual([431, expect.stringMatching(/head/)]);
  });

  test('the log names the client, whatever that says of itself', async () => {
    const claims = { 'x-forwarded-for': '192.0.2.1', forwarded: 'for=192.0.2.1' };
    for (const address of ['127.0.0.2', '127.0.0.3']) {
      const agent = from(proxy, address);
      const answer = await ask(newQuery(), { agent, headers: claims });
      await until(() => logged(answer.headers['x-request-id']) !== undefined);
      expect(logged(answer.headers['x-request-id'])).toMatchObject({ address });
    }
  });

  test('guessed passwords are counted by client, whatever that says of itself', async () => {
    const guess = async (address: string, claimed: string, password: string) => {
      const agent = from(proxy, address);
      const authorization = `Basic ${Buffer.from(`alice:${password}`).toString('base64')}`;
      const headers = { authorization, 'x-forwarded-for': claimed };
      return (await ask(newQuery(), { agent, headers })).status;
    };
    for (let n = 0; n < 10; n += 1) {
      expect(await guess('127.0.0.4', `192.0.2.${n}`, `guess-${n}`)).toBe(401);
    }
    expect(await guess('127.0.0.4', '192.0.2.99', 'guess')).toBe(429);
    expect(await guess('127.0.0.5', '127.0.0.4', 'guess')).toBe(401);
    expect(await guess('127.0.0.5', '127.0.0.4', 'alice')).toBe(200);
  });

  test('an answer of 34 MB comes as the engine sends it, and is the same from the cache', async () => {
    const cells = '<Cell CellOrdinal="0"><Value>1</Value></Cell>'.repeat(760_000);
    const [head = '', tail = ''] = mddatasetAnswer().split('</CellData>');
    const whole = Buffer.from(`${head}${cells}</CellData>${tail}`);
    expect(whole.length).toBeGreaterThan(34_000_000);
    const half = gate();
    engine.answerWith(async (response) => {
      response.writeHead(200, { 'content-type': 'text/xml; charset=utf-8' });
      response.write(whole.subarray(0, 17_000_000));
      await half.opened;
      response.end(whole.subarray(17_000_000));
    });
    const query = newQuery();
    const chunks: Buffer[] = [];
    let bytes = 0;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const { url, ca } = proxy;
    const headers = { authorization: basic('alice'), 'content-type': 'text/xml' };
    const request = httpsRequest(`${url}/mdx/xmla`, { method: 'POST', headers, ca }, (response) => {
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        // The engine goes on when its first half has arrived, but for what is on its way.
        if ((bytes += chunk.length) > 16_000_000) half.open();
      });
      response.on('end', end);
    });
    request.end(query);
    await ended;
    expect(Buffer.concat(chunks).equals(whole)).toBe(true);
    engine.answerWith(sendXml(mddatasetAnswer()));
    const again = await ask(query, { headers: { 'content-type': 'text/xml' } });
    expect([shortStatus(again), again.body.equals(whole)]).toEqual(['hit', true]);
    const kept = name === 'nginx' ? join(proxy.folder, 'kept') : proxy.folder;
    const files = readdirSync(kept, { recursive: true, withFileTypes: true });
    expect(files.filter((file) => file.isFile() && /^\d+$/.test(file.name))).toEqual([]);
  });

  test('a slow query has the time that the engine has', async () => {
    const answered = gate();
    engine.answerWith(async (response, request) => {
      // The other one stays without an answer, until the gateway gives one.
      if (request.body.includes('never')) return;
      await answered.opened;
      sendXml(mddatasetAnswer())(response, request);
    });
    const before = engine.seen.length;
    const slow = ask();
    const never = sizes.slowQuery > 0 ? ask(execute({ statement: 'SELECT never FROM [S]' })) : slow;
    await until(() => engine.seen.length === before + (never === slow ? 1 : 2));
    await delay(sizes.slowQuery);
    answered.open();
    expect([(await slow).status, (await slow).text]).toEqual([200, mddatasetAnswer()]);
    const late = await never;
    expect([late.status, shortStatus(late)]).toEqual(
      never === slow ? [200, shortStatus(await slow)] : [504, 'gateway engine-timeout'],
    );
    engine.answerWith(sendXml(mddatasetAnswer()));
  });

  test('a client that goes away is gone for the gateway too', async () => {
    const { url, ca } = proxy;
    const answered = gate();
    engine.answerWith(async (response, request) => {
      await answered.opened;
      sendXml(mddatasetAnswer())(response, request);
    });
    const before = engine.seen.length;
    const headers = {
      authorization: basic('alice'),
      'content-type': 'text/xml',
      'x-request-id': 'leaves',
    };
    const request = httpsRequest(`${url}/mdx/xmla`, { method: 'POST', headers, ca });
    request.on('error', () => {});
    request.end(newQuery());
    await until(() => engine.seen.length > before);
    request.destroy();
    await until(() => logged('leaves')?.['msg'] === 'xmla-answered');
    expect(logged('leaves')).toMatchObject({ complete: false });
    answered.open();
    engine.answerWith(sendXml(mddatasetAnswer()));
  });

  test('a purge is one', async () => {
    const query = newQuery();
    await ask(query);
    expect(shortStatus(await ask(query))).toBe('hit');
    const purge = await send(proxy.url, {
      path: '/mdx/xmla/clearCache',
      headers: { authorization: basic('ADMIN') },
      ca: proxy.ca,
    });
    expect([purge.status, purge.text]).toEqual([200, 'Cache has been cleared.']);
    expect(shortStatus(await ask(query))).toBe('miss stored');
  });
});

/** All of an answer but what each hop says for itself, and what differs by the moment. */
function told({ status, headers, text }: Answer) {
  const { date: _d, server: _s, connection: _c, age: _a, 'keep-alive': _k, ...rest } = headers;
  const { 'x-request-id': id, 'cache-status': cache, ...others } = rest;
  const said = String(cache).replace(/ttl=\d+/, 'ttl');
  const body = text.replaceAll(String(id), '').replace(/\d\d:\d\d:\d\d|\b\d+ s\b/g, '');
  return { status, said, headers: others, body };
}

/** A server in the place of a gateway. */
async function startStandIn(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { url = '' } = request;
    if (url !== '/health/serving') asked.push(url);
    answer(request, response);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    asked,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test.each(PROXIES)('%s never sends a query again that a gateway has got', async (name) => {
  const breaks = (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === '/health/serving') response.end('{}');
    else request.socket.destroy();
  };
  const both = [await startStandIn(breaks), await startStandIn(breaks)] as const;
  const proxy = await startProxy(name, [both[0].port, both[1].port]);
  const answer = await askXmla(proxy.url, newQuery(), { ca: proxy.ca });
  await proxy.stop();
  for (const one of both) one.close();
  expect(answer.status).toBe(502);
  expect(both.flatMap(({ asked }) => asked)).toEqual(['/mdx/xmla']);
});

test.each(PROXIES)(
  '%s keeps users at one gateway, and moves them when that is lost',
  async (name) => {
    const serves = (_request: IncomingMessage, response: ServerResponse) => response.end('{}');
    const both = [await startStandIn(serves), await startStandIn(serves)] as const;
    const proxy = await startProxy(name, [both[0].port, both[1].port]);
    try {
      const users = Array.from({ length: 60 }, (_, at) => `user ${at}`);
      /** Which of the two was asked. */
      const gatewayOf = async (user: string) => {
        const before = both[0].asked.length;
        const headers = { authorization: basic(user) };
        const { status } = await askXmla(proxy.url, newQuery(), { ca: proxy.ca, headers });
        expect(status).toBe(200);
        return both[0].asked.length > before ? 0 : 1;
      };
      const placesOf = async (order = users) => {
        const places = new Map<string, number>();
        for (const user of order) places.set(user, await gatewayOf(user));
        return users.map((user) => places.get(user));
      };
      const places = await placesOf();
      // Each gateway has its part of them.
      expect(places.filter((place) => place === 0).length).toBeGreaterThan(10);
      expect(places.filter((place) => place === 1).length).toBeGreaterThan(10);
      expect(await placesOf(users.toReversed())).toEqual(places);
      both[0].close();
      expect(await placesOf()).toEqual(users.map(() => 1));
      // What has no login is answered too.
      const live = await send(proxy.url, { path: '/health/live', ca: proxy.ca });
      expect(live.status).toBe(200);
    } finally {
      await proxy.stop();
      for (const one of both) one.close();
    }
  },
);

test('HAProxy sends nothing to a gateway that shuts down', async () => {
  const serves = await startStandIn((_request, response) => response.end('{}'));
  const ends = await startStandIn((_request, response) => response.writeHead(503).end('{}'));
  const proxy = await startProxy('HAProxy', [serves.port, ends.port]);
  await until(() => proxy.told().includes('gateways/gateway2 is DOWN'));
  for (let n = 0; n < 4; n += 1) await askXmla(proxy.url, newQuery(), { ca: proxy.ca });
  await proxy.stop();
  for (const one of [serves, ends]) one.close();
  expect([serves.asked.length, ends.asked.length]).toEqual([4, 0]);
});

describe('what the proxies allow is more than what the gateway allows:', () => {
  const nginx = shippedProxy('nginx');
  const haproxy = shippedProxy('HAProxy');
  const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, k: 1024, M: 1024 * 1024 };
  const valueIn = (text: string, key: string, unit?: string) => {
    const [, value = '', own = ''] =
      new RegExp(`^\\s*${key} (\\d+)([smk]?);?$`, 'm').exec(text) ?? [];
    return Number(value) * (UNITS[unit ?? own] ?? 1);
  };
  const { limits, engine: asked } = defaults;
  const longest = (limits.wait ?? asked.timeout) + asked.timeout;

  test('time for a query', () => {
    expect(valueIn(nginx, 'proxy_read_timeout')).toBeGreaterThan(longest);
    expect(valueIn(haproxy, 'timeout server')).toBeGreaterThan(longest);
  });

  test('length of bodies and heads', () => {
    const { body, dataset, head } = defaults.limits;
    expect(valueIn(nginx, 'client_max_body_size', 'M')).toBeGreaterThan(Math.max(body, dataset));
    expect(valueIn(nginx, 'large_client_header_buffers 4')).toBeGreaterThan(head);
    expect(valueIn(haproxy, 'tune.bufsize')).toBeGreaterThan(head);
  });

  test('but idle connections, which they give up first', () => {
    // KEEP_ALIVE of src/http/server.ts. HAProxy closes its own after five seconds (pool-purge-delay).
    expect(valueIn(nginx, 'keepalive_timeout')).toBeLessThan(65_000);
  });
});
