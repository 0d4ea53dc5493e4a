import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { EVENTS } from '../../src/features/events.ts';
import { createLog } from '../../src/observability/log.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, until } from '../support/http-client.ts';
import { gate, sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

const BOBS = gate();
let engine: StubEngine;
let gateway: TestGateway;

beforeAll(async () => {
  const answer = sendXml(mddatasetAnswer());
  engine = await startStubEngine(async (response, request) => {
    if (request.body.toString().includes('Bob')) await BOBS.opened;
    if (request.body.toString().includes('Broken')) response.destroy();
    else await answer(response, request);
  });
  gateway = await startTestGateway({
    engine: { url: engine.url },
    limits: { concurrency: 1 },
  });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

async function page(path: string): Promise<string> {
  const headers = { authorization: basic('ADMIN') };
  return (await send(gateway.url, { path, headers })).text;
}

test('why Alice was slow is told by one line of the log and one row of /admin/requests, found by the id of her answer', async () => {
  const ask = (user: string, statement: string) =>
    askXmla(gateway.url, execute({ statement, properties: { Catalog: 'Shop' } }), { user });
  const bob = ask('bob', 'SELECT FROM [Bob]');
  await until(() => engine.seen.length === 1);
  const alice = ask('alice', 'SELECT FROM [Small]');
  while (!/^mdx_gateway_engine_queue 1$/m.test(await page('/metrics')));
  const began = performance.now();
  // Long enough to be told apart from what the engine takes for hers.
  await until(() => performance.now() - began > 300);
  BOBS.open();
  await bob;
  const { headers } = await alice;
  const id = String(headers['x-request-id']);

  const lines: string[] = [];
  const log = createLog(
    EVENTS,
    { level: 'info', slow: 5_000, statements: 'off' },
    { write: (line: string) => void lines.push(line) },
  );
  for (const event of gateway.events) log.on(event);
  const own = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const [line, ...others] = own.filter((one) => one['id'] === id);
  expect(others).toEqual([]);
  const text = await page(`/admin/requests?id=${id}`);
  const { requests } = JSON.parse(text) as { requests: Record<string, unknown>[] };
  expect(requests).toHaveLength(1);
  const [row] = requests;
  expect([line?.['principal'], row?.['user']]).toEqual(['alice', 'alice']);
  for (const told of [line, row]) {
    expect(Number(told?.['waited_ms'])).toBeGreaterThanOrEqual(250);
    // However long a busy machine takes: both are parts of the whole, each rounded.
    const parts = Number(told?.['waited_ms']) + Number(told?.['engine_ms']);
    expect(parts).toBeLessThanOrEqual(Number(told?.['ms']) + 2);
  }
});

test('what a request waited and what the engine took is told of those that it failed as well, by either way', async () => {
  for (const statement of ['SELECT FROM [Broken]', 'DRILLTHROUGH SELECT FROM [Broken]']) {
    const { headers } = await askXmla(gateway.url, execute({ statement }), { user: 'alice' });
    const id = String(headers['x-request-id']);
    const told = gateway.events.find((event) => event.type === 'xmla-answered' && event.id === id);
    expect(told).toMatchObject({
      outcome: { kind: 'gateway', detail: 'engine-unreachable' },
      engine: { waited: expect.any(Number), first: undefined, last: expect.any(Number) },
    });
  }
});

test('who waits for the answer to another request is told to have waited', async () => {
  const held = gate();
  engine.answerWith(async (response, request) => {
    await held.opened;
    await sendXml(mddatasetAnswer())(response, request);
  });
  engine.seen.length = 0;
  const query = execute({ statement: 'SELECT FROM [Shared]' });
  const first = askXmla(gateway.url, query, { user: 'bob' });
  await until(() => engine.seen.length === 1);
  const second = askXmla(gateway.url, query, { user: 'bob' });
  while (!/^mdx_gateway_flight_waiters 1$/m.test(await page('/metrics')));
  held.open();
  await first;
  const id = String((await second).headers['x-request-id']);
  const told = gateway.events.find((event) => event.type === 'xmla-answered' && event.id === id);
  expect(told).toMatchObject({
    outcome: { kind: 'hit', detail: 'coalesced' },
    engine: { first: undefined, last: undefined },
  });
  const { waited = 0 } = (told?.type === 'xmla-answered' && told.engine) || {};
  expect(waited).toBeGreaterThan(0);
});
