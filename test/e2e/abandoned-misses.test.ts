import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { request, type ClientRequest } from 'node:http';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, portOf, send, shortStatus, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const answered = sendXml(mddatasetAnswer());
const question = (name: string) => execute({ statement: `SELECT FROM [${name}]` });

let engine: StubEngine;
let gateway: TestGateway;
/** Lets the engine answer the first request; until then the others wait for it. */
let door: ReturnType<typeof gate>;
let first: ReturnType<typeof askXmla>;

beforeEach(async () => {
  const arrived = gate();
  door = gate();
  engine = await startStubEngine(async (...exchange) => {
    arrived.open();
    await door.opened;
    await answered(...exchange);
  });
  gateway = await startTestGateway({
    engine: { url: engine.url },
    limits: { concurrency: 1, per_user: 1, queue: 8 },
  });
  first = askXmla(gateway.url, question('First'));
  await arrived.opened;
});
afterEach(async () => {
  door.open();
  await gateway.close();
  await engine.close();
});

/** What a metric says now. */
async function metric(name: string): Promise<number> {
  const headers = { authorization: basic('ADMIN') };
  const { text } = await send(gateway.url, { path: '/metrics', headers });
  return Number(new RegExp(`^mdx_gateway_${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

async function untilMetric(name: string, value: number): Promise<void> {
  while ((await metric(name)) !== value);
}

/** A request that can be given up. */
function begin(name: string): ClientRequest {
  const asked = request({
    port: portOf(gateway.url),
    host: '127.0.0.1',
    method: 'POST',
    path: '/mdx/xmla',
    headers: { authorization: basic('bob'), 'content-type': 'text/xml; charset=utf-8' },
    agent: false,
  });
  asked.on('error', () => {});
  asked.end(question(name));
  return asked;
}

const asked = () => engine.seen.map(({ body }) => /\[(\w+)\]/.exec(body.toString())?.[1]);

test('a miss whose client has left leaves the queue and is not asked', async () => {
  const left = begin('Left');
  await untilMetric('engine_queue', 1);
  left.destroy();
  await untilMetric('engine_queue', 0);
  door.open();
  await first;
  await askXmla(gateway.url, question('Next'));
  expect(asked()).toEqual(['First', 'Next']);
  const told = gateway.events.flatMap((event) =>
    event.type === 'engine-failed' ? [event.reason] : [],
  );
  expect(told).toEqual([]);
});

test('a miss for which others wait stays in the queue until the last of them has left', async () => {
  const leader = begin('Left');
  await untilMetric('engine_queue', 1);
  const waiter = begin('Left');
  await untilMetric('flight_waiters', 1);
  leader.destroy();
  await until(() => gateway.events.some(({ type }) => type === 'xmla-answered'));
  expect(await metric('engine_queue')).toBe(1);
  waiter.destroy();
  await untilMetric('engine_queue', 0);
  door.open();
  await first;
  expect(asked()).toEqual(['First']);
});

test('a miss whose client has left is answered to those who wait for it', async () => {
  const leader = begin('Shared');
  await untilMetric('engine_queue', 1);
  const waiting = askXmla(gateway.url, question('Shared'), { user: 'bob' });
  await untilMetric('flight_waiters', 1);
  leader.destroy();
  await until(() => gateway.events.some(({ type }) => type === 'xmla-answered'));
  door.open();
  const answer = await waiting;
  expect([answer.text, shortStatus(answer)]).toEqual([mddatasetAnswer(), 'hit']);
  expect(asked()).toEqual(['First', 'Shared']);
});

test('a miss that was asked goes on when its client leaves, for the next one', async () => {
  const again = gate();
  const held = gate();
  door.open();
  await first;
  engine.answerWith(async (...exchange) => {
    again.open();
    await held.opened;
    await answered(...exchange);
  });
  const left = begin('Kept');
  await again.opened;
  left.destroy();
  await until(() => gateway.events.filter(({ type }) => type === 'xmla-answered').length === 2);
  held.open();
  await until(() => gateway.events.filter(({ type }) => type === 'stored').length === 2);
  const answer = await askXmla(gateway.url, question('Kept'), { user: 'bob' });
  expect([shortStatus(answer), asked()]).toEqual(['hit', ['First', 'Kept']]);
});
