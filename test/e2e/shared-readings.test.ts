import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus, type XmlaMessage } from '../support/http-client.ts';
import { untilRemembered } from '../support/remembered.ts';
import { sendXml, startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/**
 * What was understood of a body is shared by all users: so one who asks what others asked before must get what he would
 * get as the first.
 */

let engine: StubEngine;
let gateway: TestGateway;
const settings = () => ({
  engine: { url: engine.url, kind: 'mondrian', headers: ['X-Tenant'], delegation: 'forward' },
  cache: { share: 'everyone', engine_permissions_ignored: true },
  projects: {
    Other: { engine: { kind: 'ssas', headers: [] } },
    Strict: { engine: { delegation: 'refuse' } },
  },
});
beforeAll(async () => {
  engine = await startStubEngine(() => {});
  engine.answerWith((...exchange) => {
    const answer = mddatasetAnswer({ members: [`Answer ${engine.seen.length}`] });
    return sendXml(answer)(...exchange);
  });
  gateway = await startTestGateway(settings());
});
afterAll(async () => {
  await gateway.close();
  await engine.close();
});

let count = 0;
const newQuery = (end = '', more: Record<string, string> = {}) =>
  execute({
    statement: `SELECT FROM [Sales ${(count += 1)}]${end}`,
    properties: { Catalog: 'Sales', ...more },
  });

/** Asks until it is known well, as alice. */
async function asked(query: Buffer, message: XmlaMessage = {}) {
  const ask = () => askXmla(gateway.url, query, message);
  expect(shortStatus(await ask())).toBe('miss stored');
  return (await untilRemembered(ask)).at(-1)?.text;
}
const statusOf = async (query: Buffer, message: XmlaMessage = {}) =>
  shortStatus(await askXmla(gateway.url, query, message));

test('another user gets the entry that all share with his first request', async () => {
  const query = newQuery();
  const text = await asked(query);
  const answer = await askXmla(gateway.url, query, { user: 'bob' });
  expect([shortStatus(answer), answer.text]).toEqual(['hit', text]);
});

describe('what others asked is another question', () => {
  test.each<[string, XmlaMessage]>([
    ['with another value of a named header', { headers: { 'x-tenant': 'B' } }],
    ['without it', {}],
    ['in a project', { path: '/mdx/xmla/Sales', headers: { 'x-tenant': 'A' } }],
    ['of another query of the path', { path: '/mdx/xmla?a=1', headers: { 'x-tenant': 'A' } }],
    [
      'with another type of content',
      { headers: { 'content-type': 'application/xml', 'x-tenant': 'A' } },
    ],
    [
      'in the spelling of a toolkit',
      {
        headers: { soapaction: 'urn:schemas-microsoft-com:xml-analysis#Execute', 'x-tenant': 'A' },
      },
    ],
  ])('%s', async (_how, message) => {
    const query = newQuery();
    const first = await asked(query, { headers: { 'x-tenant': 'A' } });
    const answer = await askXmla(gateway.url, query, { user: 'bob', ...message });
    expect(shortStatus(answer)).toBe('miss stored');
    expect(answer.text).not.toBe(first);
  });
});

describe('what others asked passes the cache', () => {
  test.each<[string, string, XmlaMessage]>([
    [
      'with a header SOAPAction that contradicts it',
      'bypass soap-action',
      { headers: { soapaction: 'x' } },
    ],
    [
      'with a type of content that is no XML',
      'bypass content-type',
      { headers: { 'content-type': 'a/b' } },
    ],
    ['where JSON is wanted', 'bypass accept', { headers: { accept: 'application/json' } }],
    [
      'in a charset that contradicts it',
      'bypass encoding',
      {
        headers: { 'content-type': 'text/xml; charset=utf-16' },
      },
    ],
  ])('%s', async (_how, status, message) => {
    const query = newQuery();
    await asked(query);
    expect(await statusOf(query, { user: 'bob', ...message })).toBe(status);
  });
});

test('a body is understood for each kind of engine', async () => {
  const query = newQuery(';');
  for (let time = 0; time < 4; time += 1) expect(await statusOf(query)).toMatch(/^bypass/);
  await asked(query, { path: '/mdx/xmla/Other' });
  expect(await statusOf(query, { user: 'bob' })).toMatch(/^bypass/);
});

test('an identity that one project lets through is refused by another', async () => {
  const query = newQuery('', { EffectiveUserName: 'carol' });
  for (let time = 0; time < 4; time += 1) expect(await statusOf(query)).toMatch(/^bypass/);
  const answer = await askXmla(gateway.url, query, { user: 'bob', path: '/mdx/xmla/Strict' });
  expect([answer.status, shortStatus(answer)]).toEqual([403, 'gateway identity-refused']);
});

test('a body that is known by heart is understood anew when the configuration changes', async () => {
  const query = execute({ statement: 'SELECT LastDay() ON COLUMNS FROM [Sales]' });
  const functions = { cache: { ...settings().cache, functions: ['LastDay'] } };
  await gateway.reload({ ...settings(), ...functions });
  await asked(query);
  const cache = { ...settings().cache, volatile: ['LastDay'] };
  await gateway.reload({ ...settings(), cache });
  expect(await statusOf(query, { user: 'bob' })).toBe('bypass volatile');
  expect(await statusOf(query)).toBe('bypass volatile');
});
