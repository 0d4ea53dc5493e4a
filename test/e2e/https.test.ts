import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { createServer as createPlainServer } from 'node:http';
import { createServer, type ServerOptions } from 'node:https';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import type { GatewayEvent } from '../../src/common/events.ts';
import { largeMddatasetAnswer, mddatasetAnswer } from '../support/answers.ts';
import { makeAuthority, type Authority, type Certificate } from '../support/certificates.ts';
import { execute } from '../support/envelopes.ts';
import { framedResponse, framingChoice, framingSeed } from '../support/framing.ts';
import { configFolder, listening, runMain } from '../support/gateway-process.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let authority: Authority;
let stranger: Authority;
let own: Certificate;
let gatewaysOwn: Certificate;

beforeAll(() => {
  authority = makeAuthority();
  stranger = makeAuthority();
  own = authority.issue('engine');
  gatewaysOwn = authority.issue('gateway');
});
afterAll(() => {
  authority.remove();
  stranger.remove();
});

const BODIES = [
  ['passed through', execute({ statement: 'CALL one()' })],
  ['cacheable', execute({ statement: 'SELECT FROM [Sales]' })],
] as const;

const framed = framedResponse(framingChoice(framingSeed()));

/** An engine that speaks HTTPS and says who asked. */
async function startHttpsEngine(options: ServerOptions = {}) {
  const askers: string[] = [];
  const server = createServer(
    { cert: own.pem, key: readFileSync(own.key), ServerResponse: framed, ...options },
    (request, response) => {
      const { subject } = (request.socket as TLSSocket).getPeerCertificate();
      askers.push(subject === undefined ? 'nobody' : String(subject.CN));
      request.resume();
      response.writeHead(200, { 'content-type': 'text/xml' }).end(mddatasetAnswer());
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/xmla`,
    askers,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** What the log says of failures of the engine. */
const failuresIn = (events: readonly GatewayEvent[]) =>
  events.flatMap((event) =>
    event.type === 'engine-failed' ? [(event.error as Error).message] : [],
  );

async function during(
  settings: Record<string, unknown>,
  use: (gateway: TestGateway) => Promise<void>,
) {
  const gateway = await startTestGateway(settings);
  try {
    await use(gateway);
  } finally {
    await gateway.close();
  }
}

describe.each(BODIES)('an engine behind HTTPS, for a request that is %s,', (_kind, body) => {
  test('is asked when its authority is named', async () => {
    const engine = await startHttpsEngine();
    await during({ engine: { url: engine.url, ca: authority.certificate } }, async ({ url }) => {
      const answer = await askXmla(url, body);
      expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
    });
    expect(engine.askers).toEqual(['nobody']);
    await engine.close();
  });

  const selfSigned = () => ({ cert: stranger.pem, key: readFileSync(stranger.key) });
  test.each([
    ['no authority is named', () => ({}), () => ({})],
    ['another authority is named', () => ({ ca: stranger.certificate }), () => ({})],
    ['it signed its certificate itself', () => ({}), selfSigned],
  ])('is not asked when %s, and the operator is told of engine.ca', async (_what, tls, shown) => {
    const engine = await startHttpsEngine(shown());
    await during({ engine: { url: engine.url, ...tls() } }, async ({ url, events }) => {
      const answer = await askXmla(url, body);
      expect([answer.status, shortStatus(answer)]).toEqual([502, 'gateway engine-unreachable']);
      expect(answer.text).toContain('<SOAP-ENV:Fault>');
      expect(answer.text).not.toMatch(/certificate/i);
      expect(failuresIn(events)).toEqual([expect.stringMatching(/authority.* as engine\.ca$/)]);
    });
    expect(engine.askers).toEqual([]);
    await engine.close();
  });

  test('that speaks plain HTTP there is told of as that', async () => {
    const engine = createPlainServer((_request, response) => response.end());
    engine.listen(0, '127.0.0.1');
    await once(engine, 'listening');
    const url = `https://127.0.0.1:${(engine.address() as AddressInfo).port}/xmla`;
    await during({ engine: { url } }, async ({ url, events }) => {
      expect((await askXmla(url, body)).status).toBe(502);
      expect(failuresIn(events)).toEqual([
        'what answers there does not speak TLS; for plain HTTP engine.url begins with http://',
      ]);
    });
    engine.close();
  });

  test('is shown the certificate of the gateway', async () => {
    const engine = await startHttpsEngine({ ca: authority.pem, requestCert: true });
    const { certificate, key } = gatewaysOwn;
    const settings = { url: engine.url, ca: authority.certificate, certificate, key };
    await during({ engine: settings }, async ({ url }) => {
      expect((await askXmla(url, body)).status).toBe(200);
    });
    expect(engine.askers).toEqual(['gateway']);
    await engine.close();
  });
});

/** The name in the certificate that a server shows. */
async function peerOf(url: string, ca: string): Promise<string> {
  const socket = connect({ port: portOf(url), host: '127.0.0.1', ca });
  await once(socket, 'secureConnect');
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

describe('the gateway behind HTTPS', () => {
  test('answers as it does without, and not to plain HTTP', async () => {
    const engine = await startHttpsEngine();
    const { certificate, key } = gatewaysOwn;
    await during(
      { engine: { url: engine.url, ca: authority.certificate }, listen: { certificate, key } },
      async ({ url }) => {
        expect(url).toMatch(/^https:/);
        const ca = authority.pem;
        for (const [, body] of BODIES) {
          const answer = await askXmla(url, body, { ca });
          expect([answer.status, answer.text]).toEqual([200, mddatasetAnswer()]);
        }
        await expect(
          send(url.replace('https:', 'http:'), { path: '/health/live' }),
        ).rejects.toThrow('socket hang up');
      },
    );
    await engine.close();
  });

  test('gives a long answer whole, as it comes, decompressed, and as it lies there decompressed', async () => {
    const text = largeMddatasetAnswer(600_000);
    const engine = await startStubEngine(sendXml(text));
    const { certificate, key } = gatewaysOwn;
    await during({ engine: { url: engine.url }, listen: { certificate, key } }, async ({ url }) => {
      const ca = authority.pem;
      const headers = { authorization: basic('ADMIN') };
      const ask = async () => {
        const answer = await askXmla(url, BODIES[1][1], { ca });
        expect([answer.status, answer.text === text]).toEqual([200, true]);
      };
      const kept = async () => {
        const { body } = await send(url, { path: '/admin/entries', headers, ca });
        const { entries } = JSON.parse(body.toString()) as { entries: { bytes: number }[] };
        return entries[0]?.bytes ?? 0;
      };
      await ask();
      while ((await kept()) === 0) await delay(10);
      for (let hits = 0; hits < 2; hits += 1) await ask();
      while ((await kept()) < text.length) await delay(10);
      for (let hits = 0; hits < 2; hits += 1) await ask();
    });
    expect(engine.seen).toHaveLength(1);
    await engine.close();
  });

  test('takes a renewed certificate on SIGHUP, and keeps the old one when the new one is wrong, and tells when one ends', async () => {
    const folder = await configFolder();
    const certificate = join(folder.path, 'tls.pem');
    const key = join(folder.path, 'tls.key');
    const install = (pair: Certificate, otherKey = pair) => {
      copyFileSync(pair.certificate, certificate);
      copyFileSync(otherKey.key, key);
    };
    install(gatewaysOwn);
    const running = runMain(['serve', '--config', folder.write({ listen: { certificate, key } })]);
    const url = await listening(running);
    expect(await peerOf(url, authority.pem)).toBe('gateway');

    install(own);
    running.kill('SIGHUP');
    await until(() => running.log.some(({ msg }) => msg === 'configuration reloaded'));
    expect(await peerOf(url, authority.pem)).toBe('engine');
    // These are made for two days.
    expect(
      running.log.filter(({ msg }) => `${msg}`.startsWith('listen.certificate: it ends')),
    ).toHaveLength(2);

    install(gatewaysOwn, own);
    running.kill('SIGHUP');
    await until(() =>
      running.log.some(({ msg }) => msg === 'reload failed; keeping the current configuration'),
    );
    expect(await peerOf(url, authority.pem)).toBe('engine');
    running.kill('SIGTERM');
    expect((await running.ended).exit).toBe(0);
    folder.remove();
  });
});
