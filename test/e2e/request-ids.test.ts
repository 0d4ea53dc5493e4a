import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { withoutRequestId } from '../support/request-id.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

let engine: StubEngine;
let gateway: TestGateway;
let asked = 0;
const newQuery = () =>
  execute({ statement: `SELECT FROM [Sales] WHERE [M].[${(asked += 1)}]`, properties: {} });
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

beforeAll(async () => {
  const answer = sendXml(mddatasetAnswer());
  engine = await startStubEngine((response, request) => {
    response.setHeader('x-request-id', 'of-the-engine');
    return answer(response, request);
  });
  gateway = await startTestGateway({ engine: { url: engine.url } });
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

const lastEvent = () => gateway.events.findLast(({ type }) => type === 'xmla-answered');

describe('the id of a request', () => {
  test('is that of its client, in miss, hit and what is passed through, and in the event', async () => {
    const query = newQuery();
    const passing = execute({ statement: 'DRILLTHROUGH SELECT FROM [Sales]', properties: {} });
    for (const [body, status] of [
      [query, 'miss stored'],
      [query, 'hit'],
      // Remembered by now, and so answered by other steps.
      [query, 'hit'],
      [passing, 'bypass drillthrough'],
    ] as const) {
      const id = `of-client-${Math.random()}`;
      const answer = await askXmla(gateway.url, body, { headers: { 'x-request-id': id } });
      expect([shortStatus(answer), answer.headers['x-request-id']]).toEqual([status, id]);
      expect(lastEvent()).toMatchObject({ id });
    }
  });

  test.each([
    ['none', undefined],
    ['too long', 'x'.repeat(129)],
    ['with a blank', 'a b'],
    ['beyond ASCII', 'é'],
    ['empty', ''],
  ])('is a new one where the client sends %s', async (_what, given) => {
    const headers = given === undefined ? {} : { 'x-request-id': given };
    const query = newQuery();
    const ids = new Set<unknown>();
    for (let turn = 0; turn < 3; turn += 1) {
      const answer = await askXmla(gateway.url, query, { headers });
      expect(answer.headers['x-request-id']).toMatch(/^[\w-]{22}$/);
      expect(lastEvent()).toMatchObject({ id: answer.headers['x-request-id'] });
      ids.add(answer.headers['x-request-id']);
    }
    expect(ids.size).toBe(3);
  });

  test.each([
    ['POST', '/mdx/xmla', undefined, 401],
    ['POST', '/mdx/xmla/%zz', 'alice', 400],
    ['GET', '/mdx/xmla/clearCache', undefined, 401],
    ['GET', '/mdx/xmla/clearCache', 'alice', 403],
    ['GET', '/api/roles', undefined, 401],
    ['GET', '/api/nothing', 'alice', 404],
    ['GET', '/admin/purges', 'alice', 403],
    ['GET', '/nothing', 'alice', 404],
  ])('stands in the error of %s %s (%s, %d)', async (method, path, user, status) => {
    const authorization = user === undefined ? {} : { authorization: basic(user) };
    const headers = { ...authorization, 'x-request-id': 'R<7>&"x"' };
    const answer = await send(gateway.url, { method, path, headers });
    expect([answer.status, answer.headers['x-request-id']]).toEqual([status, 'R<7>&"x"']);
    const text = answer.text
      .replaceAll(/&#(\d+);/g, (_all, code: string) => String.fromCharCode(Number(code)))
      .replaceAll('\\"', '"');
    expect(withoutRequestId(text, answer.headers)).not.toContain('R<7>');
  });

  test('is in the head of pages too', async () => {
    for (const path of ['/health/live', '/metrics', '/openapi.json', '/docs/', '/api/roles?x']) {
      const answer = await send(gateway.url, {
        path,
        headers: { authorization: basic('ADMIN'), 'x-request-id': 'R-8' },
      });
      expect([path, answer.headers['x-request-id']]).toEqual([path, 'R-8']);
    }
  });
});

test('the engine gets the trace of a request, of a miss and of what is passed through, and it is told', async () => {
  const query = newQuery();
  const passing = execute({ statement: 'DRILLTHROUGH SELECT FROM [Sales]', properties: {} });
  const headers = { traceparent: TRACE };
  for (const body of [query, passing]) {
    await askXmla(gateway.url, body, { headers });
    expect(engine.seen.at(-1)?.headers.traceparent).toBe(TRACE);
    expect(lastEvent()).toMatchObject({ trace: TRACE });
  }
  for (let turn = 0; turn < 2; turn += 1) {
    const other = TRACE.replace('b7ad', `000${turn}`);
    await askXmla(gateway.url, query, { headers: { traceparent: other } });
    expect(lastEvent()).toMatchObject({ trace: other, outcome: { kind: 'hit' } });
  }
  await askXmla(gateway.url, newQuery(), { headers: { traceparent: 'no trace' } });
  expect(engine.seen.at(-1)?.headers.traceparent).toBeUndefined();
});

test('what is passed through tells how long it waited and what the engine took', async () => {
  const passing = execute({ statement: 'DRILLTHROUGH SELECT FROM [Sales]', properties: {} });
  await askXmla(gateway.url, passing);
  expect(lastEvent()).toMatchObject({
    engine: {
      waited: expect.any(Number),
      first: expect.any(Number),
      last: expect.any(Number),
    },
  });
});
