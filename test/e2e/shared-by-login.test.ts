import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { execute } from '../support/envelopes.ts';
import { askXmla, shortStatus } from '../support/http-client.ts';
import { mddatasetAnswer } from '../support/answers.ts';
import { startStubEngine, type StubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';

/** An engine whose answers show the login that it was asked with. */
let engine: StubEngine;
let gateway: TestGateway;
beforeEach(async () => {
  engine = await startStubEngine((response, { headers }) => {
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(mddatasetAnswer({ members: [String(headers.authorization)] }));
  });
});
afterEach(async () => {
  await gateway.close();
  await engine.close();
});

const SALES = execute({ statement: 'SELECT FROM [Cube]', properties: { Catalog: 'Sales' } });

async function ask(user: string, path: string): Promise<readonly [string, string]> {
  const answer = await askXmla(gateway.url, SALES, {
    path,
    headers: { authorization: basic(user) },
  });
  const [login = ''] = /Basic [\w=+/]+/.exec(answer.body.toString()) ?? [];
  return [shortStatus(answer), login];
}

/** The project is shared by everyone, since its own engine is asked with one login for all. */
const config = () => ({
  engine: { url: `${engine.url}/common`, login: 'forward' },
  projects: {
    Sales: {
      share: 'everyone',
      engine: {
        url: `${engine.url}/sales`,
        login: 'service',
        service: { name: 'service', password: 'secret' },
      },
    },
  },
});

test('what an engine answers the login of one user is shared with no other, also in a catalog that is shared elsewhere', async () => {
  gateway = await startTestGateway(config());
  expect(await ask('alice', '/mdx/xmla')).toEqual(['miss stored', basic('alice')]);
  expect(await ask('bob', '/mdx/xmla')).toEqual(['miss stored', basic('bob')]);
  expect(await ask('alice', '/mdx/xmla')).toEqual(['hit', basic('alice')]);
  const [first] = await ask('alice', '/mdx/xmla/Sales');
  expect([first, (await ask('bob', '/mdx/xmla/Sales'))[0]]).toEqual(['miss stored', 'hit']);
});

test('an operator who says that permissions of the engine do not count has them shared', async () => {
  gateway = await startTestGateway({ ...config(), cache: { engine_permissions_ignored: true } });
  expect(await ask('alice', '/mdx/xmla')).toEqual(['miss stored', basic('alice')]);
  expect(await ask('bob', '/mdx/xmla')).toEqual(['hit', basic('alice')]);
});
