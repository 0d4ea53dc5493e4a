import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const MIB = 1024 * 1024;

let engine: StubEngine;
let gateway: TestGateway;

beforeAll(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
  gateway = await startTestGateway({
    engine: { url: engine.url },
    limits: { body: '10MiB', in_flight: '16MiB', queue: 1 },
  });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

/** One of `mdx_gateway_in_flight_…`. */
async function metric(name: string): Promise<number> {
  const headers = { authorization: basic('alice') };
  const page = await send(gateway.url, { path: '/metrics', headers });
  const line = page.text
    .split('\n')
    .find((one) => one.startsWith(`mdx_gateway_in_flight_${name} `));
  return Number(line?.split(' ')[1]);
}

/** Polls, since the gateway reads at its own pace. */
async function untilMetric(name: string, holds: (value: number) => boolean): Promise<void> {
  while (!holds(await metric(name)));
}

/** A statement with a long comment; the first part of it is sent, the rest when the test says so. */
function beginLong(length: number, sent: number) {
  const body = execute({ statement: `SELECT FROM [Long] /* ${'x'.repeat(length)} */` });
  const begun: ClientRequest = request({
    host: '127.0.0.1',
    port: portOf(gateway.url),
    method: 'POST',
    path: '/mdx/xmla',
    agent: false,
    headers: {
      authorization: basic('alice'),
      'content-type': 'text/xml',
      'content-length': body.length,
    },
  });
  begun.write(body.subarray(0, sent));
  const answered = once(begun, 'response') as Promise<[IncomingMessage]>;
  return {
    async end() {
      begun.end(body.subarray(sent));
      const [answer] = await answered;
      return { status: answer.statusCode, text: await text(answer) };
    },
  };
}

test('requests wait for memory in their order, are then refused with a Fault and Retry-After, and none is lost', async () => {
  const long = [beginLong(9 * MIB, 8 * MIB), beginLong(9 * MIB, 8 * MIB)];
  await untilMetric('bytes{use="request"}', (bytes) => bytes >= 16 * MIB);
  // The first that goes beyond the limit is let in, the next one waits, and is not asked for more.
  const beyond = beginLong(MIB, MIB / 2);
  await untilMetric('bytes{use="request"}', (bytes) => bytes > 16 * MIB);
  const small = execute({ statement: 'SELECT FROM [Small]' });
  const waits = askXmla(gateway.url, small);
  await untilMetric('queue', (count) => count === 1);
  const refused = await askXmla(gateway.url, execute({ statement: 'SELECT FROM [Other]' }));
  expect([refused.status, shortStatus(refused), refused.headers['retry-after']]).toEqual([
    503,
    'gateway overloaded',
    '5',
  ]);
  expect(refused.text).toMatch(/<faultstring>.*Too many requests wait for memory/);
  expect(engine.seen).toEqual([]);

  // The one that is beyond the limit needs nobody.
  expect(await beyond.end()).toEqual({ status: 200, text: mddatasetAnswer() });
  expect((await waits).text).toBe(mddatasetAnswer());
  for (const one of long) {
    expect(await one.end()).toEqual({ status: 200, text: mddatasetAnswer() });
  }
  await until(() => gateway.events.filter(({ type }) => type === 'xmla-answered').length === 5);
  await untilMetric('bytes{use="request"}', (bytes) => bytes === 0);
  expect(await metric('limit_bytes')).toBe(16 * MIB);
});
