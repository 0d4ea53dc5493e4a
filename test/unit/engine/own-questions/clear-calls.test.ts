import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { EngineConfig } from '../../../../src/engine/config.ts';
import { makeAuthority, type Authority } from '../../../support/certificates.ts';
import { freePort } from '../../../support/free-port.ts';
import { sendText, startKylinEngine, type KylinEngine } from '../../../support/kylin-engine.ts';
import { startRawEngine } from '../../../support/raw-engine.ts';
import { gate, type StubAnswer } from '../../../support/stub-engine.ts';
import { engineHouse, type EngineHouse } from '../engine-house.ts';

const ALICE = 'Basic YWxpY2U6YWxpY2U=';
const LOADER = { name: 'loader', password: 'fast: cars' };

let one: KylinEngine;
let two: KylinEngine;
const houses: EngineHouse[] = [];

beforeAll(async () => {
  one = await startKylinEngine();
  two = await startKylinEngine();
});
beforeEach(() => {
  for (const engine of [one, two]) {
    engine.clearWith();
    engine.cleared.length = 0;
  }
});
afterEach(() => {
  for (const { engine } of houses.splice(0)) engine.close();
});
afterAll(async () => {
  await one.close();
  await two.close();
});

const urlOf = ({ base }: KylinEngine) => `${base}/mdx/xmla/{project}`;

/** Makes all calls of an engine at once. */
async function clear(
  given: Partial<EngineConfig> & { project?: string; authorization?: string } = {},
) {
  const { project, authorization, ...settings } = given;
  const { url = [urlOf(one)] } = settings;
  const house = engineHouse(url, { kind: 'kylin', clear: 'kylin', ...settings });
  houses.push(house);
  const calls = house.engine.clearCalls(project, authorization);
  return { house, calls, done: await Promise.all(calls.map((call) => call.make())) };
}

describe('clearing the cache of an engine', () => {
  test('calls every replica, at one time', async () => {
    const [both, release] = [gate(), gate()];
    let waiting = 0;
    const hold: StubAnswer = async (response, request) => {
      waiting += 1;
      if (waiting === 2) both.open();
      await release.opened;
      await sendText('Cache has been cleared.')(response, request);
    };
    one.clearWith(hold);
    two.clearWith(hold);
    const clearing = clear({ url: [urlOf(one), urlOf(two)] });
    // Each waits for the other: one after the other would never come to its end.
    await both.opened;
    release.open();
    const { done, house } = await clearing;
    expect(done).toEqual([
      { replica: urlOf(one), ok: true },
      { replica: urlOf(two), ok: true },
    ]);
    expect(house.events).toEqual([]);
  });

  test('of everything, and of a project, is one GET and nothing of anybody', async () => {
    await clear();
    await clear({ project: 'a/b Käse' });
    expect(one.cleared.map(({ method, url }) => [method, url])).toEqual([
      ['GET', '/mdx/xmla/clearCache'],
      ['GET', '/mdx/xmla/a%2Fb%20K%C3%A4se/clearCache'],
    ]);
    expect(one.cleared[0]?.headers).toEqual({
      host: new URL(one.base).host,
      accept: '*/*',
      'accept-encoding': 'identity',
      connection: 'close',
    });
  });

  test('is no call where engine.clear is none', async () => {
    expect((await clear({ clear: 'none' })).done).toEqual([]);
    expect(one.cleared).toEqual([]);
  });

  test.each<[string, Partial<EngineConfig>, string | undefined]>([
    ['that of whoever purges, with login: forward', { login: 'forward' }, ALICE],
    [
      'that of the service account, with login: service',
      { login: 'service', service: LOADER },
      `Basic ${Buffer.from('loader:fast: cars').toString('base64')}`,
    ],
    ['none, with login: none', { login: 'none' }, undefined],
  ])('has the login %s', async (_which, settings, expected) => {
    await clear({ ...settings, authorization: ALICE });
    expect(one.cleared.map(({ headers }) => headers.authorization)).toEqual([expected]);
  });

  test('with login: forward and nobody there is no call, and no failure', async () => {
    const { done, house } = await clear({ login: 'forward' });
    expect([done, house.events, one.cleared]).toEqual([[], [], []]);
  });

  test('of a project that no path can carry is not tried, and is not ok', async () => {
    const { done } = await clear({ project: '..' });
    expect(done).toMatchObject([
      { ok: false, called: false, why: expect.stringContaining('cannot stand') },
    ]);
    expect(one.cleared).toEqual([]);
  });

  test('follows no redirect, so that no other server gets the login', async () => {
    one.clearWith((response) => {
      response.writeHead(307, { location: `${two.base}/mdx/xmla/clearCache` }).end();
    });
    const { done } = await clear({ login: 'forward', authorization: ALICE });
    expect(done).toMatchObject([{ ok: false, why: expect.stringContaining('not followed') }]);
    expect(two.cleared).toEqual([]);
  });

  test.each<[string, StubAnswer, string, string]>([
    ['nothing in time', () => {}, 'not answer in time', 'engine-timeout'],
    [
      'half an answer in time',
      (response) => void response.writeHead(200).write('Cache has been cleared.'),
      'not answer in time',
      'engine-timeout',
    ],
    [
      'an answer that is shorter than it says, though it ends in the words',
      (response) => {
        response.writeHead(200, { 'content-length': 100 });
        response.write('Cache has been cleared.', () => response.destroy());
      },
      'broke off',
      'engine-unreachable',
    ],
    [
      'a broken connection',
      (response) => void response.destroy(),
      'broke off',
      'engine-unreachable',
    ],
    [
      'an endless answer',
      (response) => {
        response.on('error', () => {});
        response.end(`${'x'.repeat(1024 * 1024)} Cache has been cleared.`);
      },
      'too long',
      'engine-unreachable',
    ],
    ['an error', sendText('no', { status: 500 }), 'status 500', 'engine-not-cleared'],
  ])('is not ok after %s, and the log is told', async (_what, answer, why, reason) => {
    one.clearWith(answer);
    const { done, house } = await clear({
      timeout: reason === 'engine-timeout' ? 50 : 60_000,
      project: 'learn',
      login: 'forward',
      authorization: ALICE,
    });
    expect(done).toEqual([{ replica: urlOf(one), ok: false, why: expect.stringContaining(why) }]);
    expect(house.events).toMatchObject([
      { type: 'engine-failed', project: 'learn', replica: urlOf(one), reason },
    ]);
    expect(JSON.stringify([done, house.events])).not.toContain(ALICE.slice(6));
  });

  test('is not ok when nobody listens, and the others are called all the same', async () => {
    const dead = `http://127.0.0.1:${await freePort()}/mdx/xmla`;
    const { done } = await clear({ url: [dead, urlOf(two)] });
    expect(done).toEqual([
      { replica: dead, ok: false, why: expect.stringContaining('cannot be reached') },
      { replica: urlOf(two), ok: true },
    ]);
  });

  test('is not ok after what is no HTTP', async () => {
    const raw = await startRawEngine((socket) => socket.end('Cache has been cleared.\r\n\r\n'));
    try {
      const { done } = await clear({ url: [`${new URL(raw.url).origin}/mdx/xmla`] });
      expect(done).toMatchObject([{ ok: false }]);
    } finally {
      await raw.close();
    }
  });

  test('breaks off, and resolves, when the engine is closed', async () => {
    const asked = gate();
    one.clearWith(() => asked.open());
    const house = engineHouse([urlOf(one)], { clear: 'kylin', timeout: 3_600_000 });
    const [call] = house.engine.clearCalls(undefined, undefined);
    const made = call?.make();
    await asked.opened;
    house.engine.close();
    expect(await made).toMatchObject({ ok: false });
  });
});

describe('two calls are one', () => {
  test('when they go to one address with one login, and not otherwise', async () => {
    const ids = async (given: Parameters<typeof clear>[0]) =>
      (await clear(given)).calls.map(({ id }) => id);
    const [plain] = await ids({});
    expect(await ids({ url: [`${one.base}/mdx/xmla_server`], timeout: 9_000 })).toEqual([plain]);
    for (const other of [
      { url: [urlOf(two)] },
      { project: 'learn' },
      { login: 'service', service: LOADER },
      { login: 'forward', authorization: ALICE },
      { login: 'forward' },
    ] as const) {
      expect(await ids(other)).not.toEqual([plain]);
    }
  });
});

describe('over TLS', () => {
  let authority: Authority;
  beforeAll(() => {
    authority = makeAuthority();
  });
  afterAll(() => authority.remove());

  test('the engine must be known by engine.ca, and sees the certificate of the gateway', async () => {
    const own = authority.issue('engine');
    const { certificate, key } = authority.issue('gateway');
    const server = createHttpsServer(
      {
        cert: own.pem,
        key: readFileSync(own.key),
        ca: authority.pem,
        requestCert: true,
        rejectUnauthorized: true,
      },
      (_request, response) => void response.end('Cache has been cleared.'),
    );
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const url = [`https://127.0.0.1:${(server.address() as AddressInfo).port}/mdx/xmla`];
    const ca = authority.certificate;
    try {
      expect((await clear({ url, ca, certificate, key })).done).toMatchObject([{ ok: true }]);
      expect((await clear({ url, certificate, key })).done).toMatchObject([{ ok: false }]);
      expect((await clear({ url, ca })).done).toMatchObject([{ ok: false }]);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
