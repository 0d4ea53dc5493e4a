import { afterEach, beforeAll, beforeEach, afterAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { createServer, type AddressInfo, type Server } from 'node:net';
import type { GatewayEvent } from '../../../src/common/events.ts';
import type { EngineConfig } from '../../../src/engine/config.ts';
import { createProbe } from '../../../src/engine/probe.ts';
import { basicAuthorization } from '../../../src/common/principal.ts';
import { faultAnswer, rowsetAnswer } from '../../support/answers.ts';
import { makeAuthority, type Authority } from '../../support/certificates.ts';
import { until } from '../../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';
import { DEAD, engineConfig } from './engine-house.ts';

let engine: StubEngine;
let authority: Authority;
let now = 0;
let events: GatewayEvent[];
const probes: ReturnType<typeof createProbe>[] = [];
const servers: Server[] = [];

beforeAll(async () => {
  engine = await startStubEngine(() => {});
  authority = makeAuthority();
});
beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(rowsetAnswer()));
  events = [];
});
afterEach(() => {
  for (const probe of probes.splice(0)) probe.close();
  for (const server of servers.splice(0)) server.close();
});
afterAll(async () => {
  await engine.close();
  authority.remove();
});

function probeOf(
  url = engine.url,
  settings: Partial<EngineConfig> = {},
  project: string | undefined = undefined,
) {
  const config = engineConfig([url], settings);
  const emit = (event: GatewayEvent) => void events.push(event);
  const probe = createProbe({
    config,
    url,
    project,
    clock: { now: () => now, wall: () => now },
    emit,
  });
  probes.push(probe);
  return probe;
}

/** The URL of a server that does that with each connection. */
async function listening(server: Server): Promise<string> {
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}/xmla`;
}

const html = '<html><body>nothing here</body></html>';
const asHtml = { 'content-type': 'text/html' };

describe('a replica is up', () => {
  test.each([
    ['with a rowset', rowsetAnswer(), {}],
    ['with a Fault', faultAnswer(), {}],
    ['with a Fault of status 500', faultAnswer(), { status: 500 }],
    ['that wants a login, in whatever shape', html, { status: 401, headers: asHtml }],
    ['behind a proxy that wants one', html, { status: 407, headers: asHtml }],
  ])('%s', async (_how, body, head) => {
    engine.answerWith(sendXml(body, head));
    expect(await probeOf().state(true)).toMatchObject({ url: engine.url, state: 'up' });
  });
});

describe('a replica is down, and it is said why', () => {
  const NO_ENVELOPE = (status: number) =>
    `it answered with status ${status} and no SOAP envelope; is engine.url right?`;

  test.each([
    ['a wrong path', html, { status: 404, headers: asHtml }],
    ['a page of a proxy', html, { headers: asHtml }],
    ['a redirect to a login page', '', { status: 302, headers: { location: '/login' } }],
    ['XML that is no envelope', '<ok/>', {}],
    [
      'an envelope without a body',
      '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"/>',
      {},
    ],
    ['half an envelope', rowsetAnswer().slice(0, -9), {}],
    ['a coding that is not known', rowsetAnswer(), { headers: { 'content-encoding': 'br' } }],
  ] as const)('%s', async (_what, body, head) => {
    engine.answerWith(sendXml(body, head));
    const why = NO_ENVELOPE('status' in head ? head.status : 200);
    expect(await probeOf().state(true)).toEqual({ url: engine.url, state: 'down', why });
  });

  test('a server that does not speak HTTP', async () => {
    const address = await listening(
      createServer((socket) => socket.on('error', () => {}).end("-ERR unknown command 'POST'\r\n")),
    );
    const { state, why } = await probeOf(`http://${address}`).state(true);
    expect([state, why]).toEqual(['down', expect.stringMatching(/^Parse Error/)]);
  });

  test('a port where no server listens', async () => {
    const { state, why } = await probeOf(`${DEAD}/`).state(true);
    expect([state, why]).toEqual(['down', 'connect ECONNREFUSED 127.0.0.1:1']);
  });

  test('TLS where none is spoken', async () => {
    const { state, why } = await probeOf(engine.url.replace('http:', 'https:')).state(true);
    expect([state, why]).toEqual(['down', expect.stringMatching(/^\S[^\n]*$/)]);
  });

  test('a certificate of an authority that is not trusted, and no TLS where it is spoken', async () => {
    const { certificate, key } = authority.issue('localhost');
    const [cert, secret] = [certificate, key].map((path) => readFileSync(path));
    const server = createHttpsServer({ cert, key: secret }, (_request, response) =>
      response.end(faultAnswer()),
    );
    const address = (await listening(server)).replace('127.0.0.1', 'localhost');
    const state = async (url: string, settings = {}) =>
      (await probeOf(url, settings).state(true)).state;
    expect(await state(`https://${address}`)).toBe('down');
    expect(await state(`http://${address}`)).toBe('down');
    expect(await state(`https://${address}`, { ca: authority.certificate })).toBe('up');
  });

  test('one that takes connections and never answers: soon while nothing is known, then with its time', async () => {
    const held: { destroy(): void }[] = [];
    const server = createServer((socket) => void held.push(socket.on('error', () => {})));
    const probe = probeOf(`http://${await listening(server)}`, { timeout: 1_000 });
    expect(await probe.state(false)).toMatchObject({
      state: 'down',
      why: 'it has not answered yet',
    });
    expect(await probe.state(true)).toMatchObject({
      state: 'down',
      why: 'it did not answer in time',
    });
    // What was found out is shared.
    expect(await probe.state(false)).toMatchObject({ why: 'it did not answer in time' });
    expect(held).toHaveLength(1);
    for (const socket of held) socket.destroy();
  });
});

describe('a replica is asked', () => {
  test('at most once in ten seconds, however many ask, and only when one asks', async () => {
    const door = gate();
    engine.answerWith(async (response, seen) => {
      await door.opened;
      void sendXml(rowsetAnswer())(response, seen);
    });
    const probe = probeOf();
    const asking = Array.from({ length: 20 }, () => probe.state(true));
    await until(() => engine.seen.length === 1);
    door.open();
    await Promise.all(asking);
    now += 9_999;
    await probe.state(true);
    expect(engine.seen).toHaveLength(1);
    now += 1;
    expect(engine.seen).toHaveLength(1);
    await probe.state(true);
    expect(engine.seen).toHaveLength(2);
  });

  test('for its data sources, as the service or as no user', async () => {
    await probeOf().state(true);
    const service = { name: 'mdx', password: 'p:w' };
    await probeOf(engine.url, { login: 'service', service }).state(true);
    await probeOf(engine.url, { login: 'forward' }).state(true);
    const logins = engine.seen.map(({ headers }) => headers.authorization);
    expect(logins).toEqual([undefined, basicAuthorization(service), undefined]);
    for (const { method, url, headers, body } of engine.seen) {
      expect([method, url, headers.cookie]).toEqual(['POST', '/xmla', undefined]);
      expect(headers['soapaction']).toContain('Discover');
      expect(String(body)).toContain('<RequestType>DISCOVER_DATASOURCES</RequestType>');
    }
  });

  test('for a project where its URL holds {project}; without one its port alone is tried', async () => {
    const url = engine.url.replace('/xmla', '/mdx/xmla/{project}');
    expect(await probeOf(url, {}, 'My Shop').state(true)).toMatchObject({ url, state: 'up' });
    expect(engine.seen.map((request) => request.url)).toEqual(['/mdx/xmla/My%20Shop']);
    expect(await probeOf(url).state(true)).toMatchObject({
      state: 'up',
      why: expect.stringContaining('no project is configured'),
    });
    expect(await probeOf(`${DEAD}/{project}`).state(true)).toMatchObject({ state: 'down' });
    expect(engine.seen).toHaveLength(1);
  });
});

test('a change is told once', async () => {
  const probe = probeOf();
  const ask = async () => {
    now += 10_000;
    await probe.state(true);
  };
  await ask();
  await ask();
  engine.answerWith(sendXml(html, { status: 404, headers: asHtml }));
  await ask();
  await ask();
  const type = 'engine-state';
  const { url } = engine;
  const why = 'it answered with status 404 and no SOAP envelope; is engine.url right?';
  expect(events).toEqual([
    { type, url, state: 'up', why: 'it answers as XMLA' },
    { type, url, state: 'down', why },
  ]);
});
