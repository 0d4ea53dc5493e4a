import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
let gateway: TestGateway | undefined;

beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});
afterEach(() => gateway?.close());

const SERVICE = { login: 'service', service: { name: 'gateway', password: 'pä:ss' } };
const SERVICE_HEADER = `Basic ${Buffer.from('gateway:pä:ss').toString('base64')}`;

const start = async (settings: Record<string, unknown>) => {
  gateway = await startTestGateway({ engine: { url: engine.url, ...settings } });
  return gateway.url;
};

const BODIES = [
  ['passed through', execute({ statement: 'CALL one()' })],
  ['cacheable', execute({ statement: 'SELECT FROM [Sales]' })],
] as const;

describe.each(BODIES)('the login at the engine, for a request that is %s,', (_kind, body) => {
  test.each([
    ['forward', { login: 'forward' }, basic('alice')],
    ['service', SERVICE, SERVICE_HEADER],
    ['none', { login: 'none' }, undefined],
  ])('is the one that engine.login: %s says', async (_login, settings, expected) => {
    const url = await start(settings);
    const answer = await askXmla(url, body);
    expect(answer.status).toBe(200);
    expect(engine.seen.map(({ headers }) => headers.authorization)).toEqual([expected]);
  });

  test.each([
    ['service', SERVICE, 401],
    ['service', SERVICE, 407],
    ['none', { login: 'none' }, 401],
  ])(
    'of the gateway (%s) is its operator’s matter when it is refused',
    async (_l, settings, status) => {
      engine.answerWith(
        sendXml('<html>gateway may not enter</html>', {
          status,
          headers: { 'www-authenticate': 'Basic realm="engine"' },
        }),
      );
      const url = await start(settings);
      for (const answer of [await askXmla(url, body), await askXmla(url, body)]) {
        expect([answer.status, shortStatus(answer)]).toEqual([502, 'gateway engine-login']);
        expect(answer.headers).not.toHaveProperty('www-authenticate');
        expect(answer.text).toContain('<SOAP-ENV:Fault>');
        expect(answer.text).not.toContain('may not enter');
      }
      expect(engine.seen).toHaveLength(2);
    },
  );

  test('of the client is the client’s matter when it is refused', async () => {
    engine.answerWith(
      sendXml('no', { status: 401, headers: { 'www-authenticate': 'Basic realm="engine"' } }),
    );
    const url = await start({ login: 'forward' });
    for (const answer of [await askXmla(url, body), await askXmla(url, body)]) {
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toBe('Basic realm="engine"');
    }
    expect(engine.seen).toHaveLength(2);
  });
});

test('a service login is sent for other methods too, and the client’s own never', async () => {
  const url = await start(SERVICE);
  await send(url, { method: 'GET', headers: { authorization: basic('bob') } });
  expect(engine.seen[0]?.headers.authorization).toBe(SERVICE_HEADER);
});

test('a login that the header Connection names is still sent to the engine', async () => {
  const url = await start({ login: 'forward' });
  await askXmla(url, BODIES[0][1], { headers: { connection: 'close, authorization' } });
  expect(engine.seen[0]?.headers.authorization).toBe(basic('alice'));
});
