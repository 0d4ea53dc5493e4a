import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { mddatasetAnswer } from '../support/answers.ts';
import { discover, execute } from '../support/envelopes.ts';
import { askXmla, send, shortStatus } from '../support/http-client.ts';
import { sendXml, startStubEngine } from '../support/stub-engine.ts';
import { basic, startTestGateway, type TestGateway } from '../support/test-gateway.ts';
import { shared } from '../support/opened.ts';

const engine = shared(() => startStubEngine(() => {}));
const gateway = shared(() =>
  startTestGateway({
    engine: { url: engine.url, login: 'forward' },
    cache: { share: 'everyone', engine_permissions_ignored: true },
    projects: { Private: { share: 'user' } },
  }),
);
let count = 0;

/** Each is asked in the catalog that the engine chooses, whatever the request seems to say. */
const UNNAMED: readonly (readonly [
  what: string,
  path: string,
  properties: Record<string, string>,
])[] = [
  ['no catalog', '/mdx/xmla', {}],
  ['a path of which the engine is not told', '/mdx/xmla/elsewhere', {}],
  ['another spelling of Catalog', '/mdx/xmla', { CATALOG: 'elsewhere' }],
  ['an empty Catalog', '/mdx/xmla', { Catalog: ' ' }],
];

beforeEach(() => {
  engine.seen.length = 0;
  engine.answerWith(sendXml(mddatasetAnswer()));
});

describe.each(UNNAMED)('a query with %s', (_what, path, properties) => {
  const newQuery = () => execute({ statement: `SELECT FROM [Sales ${(count += 1)}]`, properties });

  test('is dropped by the purge of any project', async () => {
    const query = newQuery();
    const purge = {
      path: '/mdx/xmla/Bazaar/clearCache',
      headers: { authorization: basic('ADMIN') },
    };
    const statuses = [shortStatus(await askXmla(gateway.url, query, { path }))];
    statuses.push(shortStatus(await askXmla(gateway.url, query, { path })));
    expect((await send(gateway.url, purge)).text).toBe('Bazaar Cache has been cleared.');
    statuses.push(shortStatus(await askXmla(gateway.url, query, { path })));
    expect(statuses).toEqual(['miss stored', 'hit', 'miss stored']);
  });

  test('is shared by nobody when any project is', async () => {
    const query = newQuery();
    const statuses = [];
    for (const user of ['alice', 'bob', 'alice'] as const) {
      statuses.push(shortStatus(await askXmla(gateway.url, query, { path, user })));
    }
    expect(statuses).toEqual(['miss stored', 'miss stored', 'hit']);
  });
});

describe('a query that names the catalog of its cube itself, in a project that the engine is told of', () => {
  const path = '/mdx/xmla/Bazaar';
  const newQuery = () =>
    execute({
      statement: `SELECT FROM [Other].[Sales ${(count += 1)}]`,
      properties: { Catalog: 'Bazaar' },
    });
  const projects = (more: object) => ({
    engine: { url: `${engine.url}/{project}`, login: 'forward' },
    cache: { share: 'everyone', engine_permissions_ignored: true },
    projects: { Bazaar: {}, ...more },
  });
  let told: TestGateway;
  beforeEach(async () => {
    told = await startTestGateway(projects({}));
  });
  afterEach(() => told.close());
  const ask = async (query: Buffer, user: 'alice' | 'bob' = 'alice') =>
    shortStatus(await askXmla(told.url, query, { path, user }));

  test.each(['Other', 'other', 'Elsewhere'])('is dropped by the purge of %s', async (project) => {
    const query = newQuery();
    const statuses = [await ask(query), await ask(query)];
    await send(told.url, {
      path: `/mdx/xmla/${project}/clearCache`,
      headers: { authorization: basic('ADMIN') },
    });
    statuses.push(await ask(query));
    expect(statuses).toEqual(['miss stored', 'hit', 'miss stored']);
  });

  test.each(['Other', 'Elsewhere'])('is shared by nobody when %s is not', async (project) => {
    await told.reload(projects({ [project]: { share: 'user' } }));
    const query = newQuery();
    expect([await ask(query), await ask(query, 'bob')]).toEqual(['miss stored', 'miss stored']);
  });

  test('is not cached where the cube is off in that catalog', async () => {
    const cubes = { [`Sales ${count + 1}`]: 'off' };
    await told.reload(projects({ Other: { cubes } }));
    expect(await ask(newQuery())).toBe('bypass cache-off');
  });

  test('when it changes something there, makes everything stale', async () => {
    const query = execute({ statement: `SELECT FROM [x ${(count += 1)}]`, properties: {} });
    const statuses = [await ask(query), await ask(query)];
    const statement = 'UPDATE CUBE [x] SET 1 FROM [Other].[Sales]';
    await askXmla(told.url, execute({ statement }), { path: '/mdx/xmla/Elsewhere', user: 'ADMIN' });
    statuses.push(await ask(query));
    expect(statuses).toEqual(['miss stored', 'hit', 'miss stored']);
  });
});

test('a request with more catalogs than any client names is passed through', async () => {
  const values = Array.from({ length: 17 }, (_, i) => `c${i}`);
  const restrictions = [{ name: 'CATALOG_NAME', form: 'value' as const, values }];
  const query = discover({ requestType: 'MDSCHEMA_CUBES', restrictions });
  expect(shortStatus(await askXmla(gateway.url, query))).toBe('bypass many-catalogs');
});
