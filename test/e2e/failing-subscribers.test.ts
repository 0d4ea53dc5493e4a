import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../src/common/clock.ts';
import type { GatewayEvent } from '../../src/common/events.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const QUERY = execute({ statement: 'SELECT FROM [Sales]', properties: { Catalog: 'Sales' } });

let engine: StubEngine;
let gateway: TestGateway | undefined;

beforeEach(async () => {
  engine = await startStubEngine(sendXml(mddatasetAnswer()));
});
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
  await engine.close();
});

async function askTwice(url: string): Promise<void> {
  const answers = [await askXmla(url, QUERY), await askXmla(url, QUERY)];
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(answers.map(shortStatus)).toEqual(['miss stored', 'hit']);
  for (const { body } of answers) expect(body.toString()).toBe(mddatasetAnswer());
}

/** An answer is told of after its last byte; the test's own timeout is the limit. */
async function untilTold(events: readonly GatewayEvent[], count: number): Promise<void> {
  while (events.filter(({ type }) => type === 'xmla-answered').length < count) await delay(5);
}

test('what metrics cannot count ends no request, and is told to the listener, once for each event', async () => {
  let now = 1e9;
  // What the engine needed is negative by such a clock, which no counter takes.
  const clock = { ...systemClock, now: () => (now -= 1) };
  gateway = await startTestGateway({ engine: { url: engine.url } }, { clock });
  const { url, events } = gateway;
  await askTwice(url);
  await untilTold(events, 2);
  const warnings = events.filter(({ type }) => type === 'warning');
  expect(warnings).toEqual([
    {
      type: 'warning',
      message: 'the event engine-answered could not be told',
      error: expect.objectContaining({
        message: expect.stringMatching(/^the engine needed -\d+ ms$/),
      }),
    },
  ]);
  // What was told is counted all the same, and the page can be read.
  const headers = { authorization: basic('alice') };
  const { text } = await send(url, { path: '/metrics', headers });
  expect(text).toMatch(/^mdx_gateway_xmla_requests_total\{outcome="hit".*\} 1$/m);
});

test('a listener that throws ends no request, and takes nothing from the metrics', async () => {
  gateway = await startTestGateway({ engine: { url: engine.url } });
  const { url, events } = gateway;
  const told: GatewayEvent[] = [];
  events.push = (event: GatewayEvent) => {
    told.push(event);
    throw new Error('no space left on device');
  };
  await askTwice(url);
  await untilTold(told, 2);
  // The listener that failed is not told of its own fault.
  expect(told.map(({ type }) => type)).not.toContain('warning');
  const headers = { authorization: basic('alice') };
  const { text } = await send(url, { path: '/metrics', headers });
  expect(text).toMatch(/^mdx_gateway_xmla_requests_total\{outcome="miss".*\} 1$/m);
  expect(text).toMatch(/^mdx_gateway_xmla_requests_total\{outcome="hit".*\} 1$/m);
});

test('a gateway whose listener and metrics both fail goes on answering', async () => {
  let now = 1e9;
  const clock = { ...systemClock, now: () => (now -= 1) };
  gateway = await startTestGateway({ engine: { url: engine.url } }, { clock });
  const { url, events } = gateway;
  const told: GatewayEvent[] = [];
  events.push = (event: GatewayEvent) => {
    told.push(event);
    throw new Error('no space left on device');
  };
  await askTwice(url);
  await untilTold(told, 2);
});
