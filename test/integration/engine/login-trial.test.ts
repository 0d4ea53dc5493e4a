import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createServer as createHttpsServer } from 'node:https';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { systemClock } from '../../../src/common/clock.ts';
import type { EngineConfig } from '../../../src/engine/config.ts';
import { createLoginTrial } from '../../../src/engine/own-questions.ts';
import type { GatewayEvent } from '../../../src/common/events.ts';
import { readRequest } from '../../../src/xmla/request/read-request.ts';
import { faultAnswer, rowsetAnswer } from '../../support/answers.ts';
import { makeAuthority, type Authority } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { sendXml, startStubEngine, type StubEngine } from '../../support/stub-engine.ts';

const ALICE = `Basic ${Buffer.from('alice:fast cars').toString('base64')}`;
const GOOD = rowsetAnswer();

let engine: StubEngine;
let events: GatewayEvent[];
type LoginTrial = ReturnType<typeof createLoginTrial>;
const trials: LoginTrial[] = [];

beforeAll(async () => {
  engine = await startStubEngine(sendXml(GOOD));
});
beforeEach(() => {
  engine.seen.length = 0;
  events = [];
});
afterAll(async () => {
  for (const trial of trials) trial.close();
  await engine.close();
});

function trialOf(settings: Partial<EngineConfig> = {}): LoginTrial {
  const config: EngineConfig = {
    url: [engine.url],
    kind: 'generic',
    login: 'forward',
    service: undefined,
    headers: [],
    delegation: 'forward',
    session_idle: undefined,
    clear: 'none',
    timeout: 10_000,
    ca: undefined,
    certificate: undefined,
    key: undefined,
    ...settings,
  };
  const trial = createLoginTrial(config, systemClock, (event) => events.push(event));
  trials.push(trial);
  return trial;
}

const tryAlice = (trial = trialOf(), signal = new AbortController().signal) =>
  trial.try(ALICE, signal);

describe('a trial', () => {
  test('asks the engine a small Discover with the login, and nothing else of anybody', async () => {
    engine.answerWith(sendXml(GOOD));
    expect(await tryAlice()).toBe('accepted');
    const [request] = engine.seen;
    expect(request).toMatchObject({
      method: 'POST',
      url: '/xmla',
      headers: {
        authorization: ALICE,
        'content-type': 'text/xml; charset=utf-8',
        soapaction: '"urn:schemas-microsoft-com:xml-analysis:Discover"',
      },
    });
    expect(readRequest(request?.body ?? Buffer.alloc(0), 'text/xml; charset=utf-8')).toMatchObject({
      kind: 'understood',
      request: {
        method: 'Discover',
        requestType: 'DISCOVER_DATASOURCES',
        restrictions: [],
        properties: [],
        unexpected: undefined,
      },
    });
    expect(events).toEqual([]);
  });

  test('leaves the project out of the URL and keeps the rest', async () => {
    engine.answerWith(sendXml(GOOD));
    await tryAlice(trialOf({ url: [`http://127.0.0.1:${engine.port}/mdx/{project}/xmla?a=b`] }));
    expect(engine.seen[0]?.url).toBe('/mdx/xmla?a=b');
  });

  test('uses a connection of its own, so that no login is taken for that of another', async () => {
    engine.answerWith(sendXml(GOOD));
    const trial = trialOf();
    await tryAlice(trial);
    await tryAlice(trial);
    expect(engine.seen.map(({ headers }) => headers.connection)).toEqual(['close', 'close']);
  });

  test.each([
    ['401', sendXml('no', { status: 401 })],
    ['403', sendXml('no', { status: 403 })],
    ['a Fault with status 200', sendXml(faultAnswer())],
  ])('is rejected by %s', async (_case, answer) => {
    engine.answerWith(answer);
    expect(await tryAlice()).toBe('rejected');
    expect(events).toEqual([]);
  });

  test.each([
    ['gzip', gzipSync(GOOD)],
    ['deflate', deflateSync(GOOD)],
    ['deflate', deflateRawSync(GOOD)],
  ])('reads an answer that came as %s without being asked to', async (coding, body) => {
    engine.answerWith(sendXml(body, { headers: { 'content-encoding': coding } }));
    expect(await tryAlice()).toBe('accepted');
  });
});

describe('a trial says nothing of the login', () => {
  test.each([
    ['an answer with status 500', sendXml(faultAnswer(), { status: 500 })],
    ['a redirect', sendXml(GOOD, { status: 302, headers: { location: '/xmla' } })],
    ['a page', sendXml('<html><body>Log in</body></html>')],
    ['an empty answer', sendXml('')],
    ['half an answer', sendXml(GOOD.slice(0, -40))],
    [
      'a cut gzip',
      sendXml(gzipSync(GOOD).subarray(0, -9), { headers: { 'content-encoding': 'gzip' } }),
    ],
    ['an unknown coding', sendXml(GOOD, { headers: { 'content-encoding': 'br' } })],
    ['an answer over the limit', sendXml(rowsetAnswer({ names: ['x'.repeat(1024 * 1024)] }))],
    [
      'a coded answer over the limit',
      sendXml(gzipSync(rowsetAnswer({ names: ['x'.repeat(64 * 1024 * 1024)] })), {
        headers: { 'content-encoding': 'gzip' },
      }),
    ],
  ])('by %s', async (_case, answer) => {
    engine.answerWith(answer);
    expect(await tryAlice()).toBe('unavailable');
    expect(events).toMatchObject([
      { type: 'engine-failed', project: '', reason: 'engine-unreachable' },
    ]);
    expect(JSON.stringify(events)).not.toContain(ALICE.slice(6));
  });

  test('by an answer that is whole as XML, but shorter than it says', async () => {
    engine.answerWith((response) => {
      response.writeHead(200, {
        'content-type': 'text/xml',
        'content-length': Buffer.byteLength(GOOD) + 1,
      });
      response.write(GOOD, () => response.destroy());
    });
    expect(await tryAlice()).toBe('unavailable');
  });

  test('when nobody listens', async () => {
    const url = `http://127.0.0.1:${await freePort()}/xmla`;
    expect(await tryAlice(trialOf({ url: [url] }))).toBe('away');
    expect(await tryAlice(trialOf({ url: [url, `${url}2`] }))).toBe('away');
    expect(events).toHaveLength(2);
  });

  test.each<[string, boolean]>([
    ['before its head', false],
    ['within its answer', true],
  ])('when the engine is silent %s', async (_case, begins) => {
    engine.answerWith((response) => {
      if (begins) response.writeHead(200, { 'content-type': 'text/xml' }).write(GOOD);
    });
    expect(await tryAlice(trialOf({ timeout: 50 }))).toBe(begins ? 'unavailable' : 'away');
    expect(events).toMatchObject([{ type: 'engine-failed', reason: 'engine-timeout' }]);
  });

  test('when it is ended from outside, and that is no failure of the engine', async () => {
    const ending = new AbortController();
    engine.answerWith(() => ending.abort());
    expect(await tryAlice(trialOf(), ending.signal)).toBe('unavailable');
    engine.seen.length = 0;
    expect(await tryAlice(trialOf(), ending.signal)).toBe('unavailable');
    expect(engine.seen).toEqual([]);
    expect(events).toEqual([]);
  });
});

test('the first replica that accepts a connection is asked, and only that', async () => {
  engine.answerWith(sendXml(GOOD));
  const dead = `http://127.0.0.1:${await freePort()}/xmla`;
  const second = await startStubEngine(sendXml(faultAnswer()));
  try {
    expect(await tryAlice(trialOf({ url: [dead, engine.url, second.url] }))).toBe('accepted');
    expect(await tryAlice(trialOf({ url: [second.url, engine.url] }))).toBe('rejected');
    expect([engine.seen.length, second.seen.length]).toEqual([1, 1]);
  } finally {
    await second.close();
  }
});

describe('over TLS', () => {
  let authority: Authority;
  beforeAll(() => {
    authority = makeAuthority();
  });
  afterAll(() => authority.remove());

  test('the engine must be known by engine.ca, and sees the certificate of the gateway', async () => {
    const own = authority.issue('engine');
    const gateway = authority.issue('gateway');
    const server = createHttpsServer(
      {
        cert: own.pem,
        key: readFileSync(own.key),
        ca: authority.pem,
        requestCert: true,
        rejectUnauthorized: true,
      },
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/xml' }).end(GOOD);
      },
    );
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const url = [`https://127.0.0.1:${(server.address() as AddressInfo).port}/xmla`];
    const { certificate, key } = gateway;
    const ca = authority.certificate;
    try {
      expect(await tryAlice(trialOf({ url, ca, certificate, key }))).toBe('accepted');
      expect(await tryAlice(trialOf({ url, certificate, key }))).toBe('away');
      expect(await tryAlice(trialOf({ url, ca }))).toBe('away');
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
